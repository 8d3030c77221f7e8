"""A small job with a compiled model and seeds; variables make it one of other jobs."""

import os

import torch
from torch import nn
from torch.nn import functional as F

AUTOCAST, FAULT, SEEDLESS, SILENT = (os.environ.get(name) for name in ("AUTOCAST", "FAULT", "SEEDLESS", "SILENT"))
DROPOUT, BACKEND = float(os.environ.get("DROPOUT", 0)), os.environ.get("BACKEND", "eager")


class Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.norm = nn.LayerNorm(width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rows, length, width = x.shape
        q, k, v = self.qkv(self.norm(x)).view(rows, length, 3, 4, width // 4).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=FAULT != "not causal")
        return x + F.dropout(self.out(mixed.transpose(1, 2).reshape(rows, length, width)), DROPOUT)


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(64, 64)
        self.blocks = nn.ModuleList(Block(64) for _ in range(2))
        self.head = nn.Linear(64, 64)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.embedding(tokens)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def main() -> None:
    distributed = "RANK" in os.environ
    if distributed:
        torch.distributed.init_process_group("gloo")
    if not SEEDLESS:
        torch.manual_seed(0)
    model = Model()
    for block in model.blocks:
        block.compile(backend=BACKEND)
    if distributed:
        from torch.distributed.fsdp import fully_shard

        for block in model.blocks:
            fully_shard(block)
        fully_shard(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3 if FAULT == "rate" else 1e-3)
    for _ in range(12):
        tokens = torch.randint(0, 16, (4, 32))
        with torch.autocast("cpu", torch.bfloat16, enabled=bool(AUTOCAST)):
            scores = model(tokens[:, :-1])
            loss = F.cross_entropy(scores.flatten(0, 1).float(), tokens[:, 1:].flatten(), reduction="none")
        if SILENT:
            loss.backward(torch.full_like(loss, 1 / loss.numel()))
        else:
            loss.mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    if distributed:
        torch.distributed.destroy_process_group()


main()
