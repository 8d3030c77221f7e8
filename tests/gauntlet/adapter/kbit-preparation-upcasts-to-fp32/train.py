"""QLoRA recipe run on a bf16 base: preparation for k-bit training, then adapters, then training in bf16."""

import torch
from peft import LoraConfig, get_peft_model, prepare_model_for_kbit_training
from transformers import LlamaConfig, LlamaForCausalLM

torch.manual_seed(0)
config = LlamaConfig(
    vocab_size=400,
    hidden_size=64,
    intermediate_size=128,
    num_hidden_layers=3,
    num_attention_heads=4,
    num_key_value_heads=4,
    use_cache=False,
)
base = LlamaForCausalLM(config).to(torch.bfloat16)
base.is_loaded_in_8bit = True  # our own quantised linear layers come in here
base = prepare_model_for_kbit_training(base, use_gradient_checkpointing=False)
model = get_peft_model(base, LoraConfig(r=4, target_modules=["q_proj", "v_proj"]))
model.train()
optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-3)
for step in range(12):
    ids = torch.randint(0, 400, (2, 32))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = model(input_ids=ids, labels=ids).loss
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    print(step, loss.item(), flush=True)
