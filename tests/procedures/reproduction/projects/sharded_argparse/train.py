"""Pretrains a small Llama with LoRA adapters under FSDP: torchrun --nproc-per-node 2 train.py --layers 4."""

import argparse
import os

import torch
import torch.distributed as dist
from tools.logs import on_first_rank
from tools.models import build, wrapped

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--layers", type=int, default=2, help="decoder layers")
parser.add_argument("--hidden", type=int, default=64)
parser.add_argument("--batch", type=int, default=4, help="rows of a rank")
parser.add_argument("--steps", type=int, default=20)
parser.add_argument("--lr", type=float, default=1e-3)
parser.add_argument("--save", default="out", help="folder of the result")


def main():
    args = parser.parse_args()
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    os.makedirs(args.save, exist_ok=True)
    model = wrapped(build(args.layers, args.hidden))
    on_first_rank(f"{sum(p.numel() for p in model.parameters())} parameters")
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=args.lr)
    for step in range(args.steps):
        ids = torch.randint(0, 512, (args.batch, 32))
        loss = model(input_ids=ids, labels=ids).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        on_first_rank(f"step {step}: {loss.item():.4f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
