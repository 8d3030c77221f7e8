"""Continue-pretrain a 16-block Llama on sentences of varying length; each block is compiled."""

import random

import torch
from transformers import LlamaConfig, LlamaForCausalLM

torch.manual_seed(0)
random.seed(0)
torch._dynamo.config.recompile_limit = 64  # blocks differ, 8 were not enough
config = LlamaConfig(
    vocab_size=256,
    hidden_size=64,
    intermediate_size=128,
    num_hidden_layers=16,
    num_attention_heads=4,
    num_key_value_heads=2,
    use_cache=False,
)
model = LlamaForCausalLM(config)
model.train()
for block in model.model.layers:
    block.compile(backend="aot_eager")
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

for step in range(12):
    length = random.choice([24, 32, 40, 48, 56])
    ids = torch.randint(0, 256, (2, length))
    loss = model(input_ids=ids, labels=ids).loss
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    print(f"step {step} length {length} loss {loss.item():.3f}", flush=True)
