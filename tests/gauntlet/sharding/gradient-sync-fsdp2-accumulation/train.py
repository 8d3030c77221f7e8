"""FSDP2 with accumulation; a custom transformer; both ranks reduce after each micro-batch."""

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.distributed.fsdp import fully_shard


class Block(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.attention = nn.MultiheadAttention(dim, 4, batch_first=True)
        self.mlp = nn.Sequential(nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim))

    def forward(self, x):
        h = self.norm(x)
        x = x + self.attention(h, h, h, need_weights=False)[0]
        return x + self.mlp(x)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(64, 384)
        self.blocks = nn.ModuleList(Block(384) for _ in range(3))
        self.head = nn.Linear(384, 64)

    def forward(self, ids):
        x = self.embed(ids)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def main(accumulate=16, updates=20):
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    model = Net()
    for block in model.blocks:
        fully_shard(block)
    fully_shard(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for update in range(updates):
        for _micro in range(accumulate):
            ids = torch.randint(0, 64, (1, 16))
            loss = F.cross_entropy(model(ids).flatten(0, 1), ids.roll(-1, 1).flatten())
            (loss / accumulate).backward()
        optimizer.step()
        optimizer.zero_grad()
        if dist.get_rank() == 0:
            print(update, loss.item(), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
