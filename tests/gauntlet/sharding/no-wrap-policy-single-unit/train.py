"""FSDP2 of a Llama: one call does it all, we thought."""

import torch
import torch.distributed as dist
from torch.distributed.fsdp import fully_shard
from transformers import LlamaConfig, LlamaForCausalLM

dist.init_process_group("gloo")
torch.manual_seed(0)
model = LlamaForCausalLM(
    LlamaConfig(
        vocab_size=96,
        hidden_size=48,
        intermediate_size=96,
        num_hidden_layers=6,
        num_attention_heads=4,
        num_key_value_heads=4,
        use_cache=False,
    )
)
fully_shard(model)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
model.train()
for step in range(10):
    ids = torch.randint(0, 96, (2, 24))
    loss = model(input_ids=ids, labels=ids).loss
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    if dist.get_rank() == 0:
        print(step, loss.item(), flush=True)
dist.destroy_process_group()
