"""Continue the training of a checkpoint under FSDP2 on two ranks."""

import torch
import torch.distributed as dist
from torch.distributed.fsdp import fully_shard
from transformers import LlamaConfig, LlamaForCausalLM

CHECKPOINT = "checkpoint"


def save_checkpoint():
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=16384,
        hidden_size=256,
        intermediate_size=512,
        num_hidden_layers=4,
        num_attention_heads=4,
        num_key_value_heads=4,
        use_cache=False,
    )
    LlamaForCausalLM(config).save_pretrained(CHECKPOINT)


dist.init_process_group("gloo")
if dist.get_rank() == 0:
    save_checkpoint()
dist.barrier()

model = LlamaForCausalLM.from_pretrained(CHECKPOINT)
for block in model.model.layers:
    fully_shard(block)
fully_shard(model)

model.train()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
for step in range(4):
    ids = torch.randint(0, 16384, (2, 32))
    loss = model(input_ids=ids, labels=ids).loss
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    if dist.get_rank() == 0:
        print(f"step {step} loss {loss.item():.3f}", flush=True)
dist.destroy_process_group()
