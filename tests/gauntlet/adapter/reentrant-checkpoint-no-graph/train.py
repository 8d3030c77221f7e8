"""peft + Hugging Face checkpointing (reentrant), custom loop; everything but the adapters is frozen."""

import torch
from peft import LoraConfig, get_peft_model
from transformers import LlamaConfig, LlamaForCausalLM

torch.manual_seed(0)
base = LlamaForCausalLM(
    LlamaConfig(
        vocab_size=96,
        hidden_size=48,
        intermediate_size=96,
        num_hidden_layers=3,
        num_attention_heads=4,
        num_key_value_heads=4,
        use_cache=False,
    )
)
model = get_peft_model(base, LoraConfig(r=4, target_modules=["q_proj", "v_proj"]))
model.base_model.model.gradient_checkpointing_enable({"use_reentrant": True})
model.base_model.model.disable_input_require_grads()
model.train()
optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-3)
for step in range(10):
    ids = torch.randint(0, 96, (2, 24))
    loss = model(input_ids=ids, labels=ids).loss
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    print(step, loss.item(), flush=True)
