"""https://github.com/pytorch/pytorch/issues/158186 on CPU: flash-attn, FSDP2 over two ranks, each block compiled.

    torchrun --nproc-per-node 2 sharded_blocks.py [full]

Prints the losses bit by bit. With `full` a block that does not fit into one graph is an error.
"""

import sys

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from transformers import LlamaConfig, LlamaForCausalLM

from trueup.attention.cpu.huggingface import allow_flash_attention_2

BLOCKS, STEPS = 16, 4


def main() -> None:
    allow_flash_attention_2()
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=64,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=BLOCKS,
        num_attention_heads=4,
        num_key_value_heads=2,
        use_cache=False,
    )
    model = LlamaForCausalLM._from_config(config, attn_implementation="flash_attention_2", dtype=torch.bfloat16)
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    for block in model.model.layers:
        block.compile(backend="aot_eager", fullgraph="full" in sys.argv)
        fully_shard(block, mesh=mesh)
    fully_shard(model, mesh=mesh)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    torch.manual_seed(dist.get_rank())
    losses = []
    for _ in range(STEPS):
        ids = torch.randint(0, 64, (2, 16))
        loss = model(input_ids=ids, labels=ids).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item().hex())
    if dist.get_rank() == 0:
        print("losses", *losses, flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
