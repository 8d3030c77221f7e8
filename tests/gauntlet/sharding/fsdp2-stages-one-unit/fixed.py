"""FSDP2 of an image classifier whose blocks lie in stages."""

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.distributed.fsdp import fully_shard


class Unit(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.attention = nn.MultiheadAttention(width, 4, batch_first=True)
        self.feed = nn.Sequential(
            nn.LayerNorm(width), nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width)
        )

    def forward(self, x):
        h = self.norm(x)
        x = x + self.attention(h, h, h, need_weights=False)[0]
        return x + self.feed(x)


class Classifier(nn.Module):
    def __init__(self, width=48, depths=(2, 3)):
        super().__init__()
        self.patches = nn.Conv2d(3, width, 4, 4)
        self.stages = nn.Sequential(*(nn.Sequential(*(Unit(width) for _ in range(n))) for n in depths))
        self.classify = nn.Linear(width, 10)

    def forward(self, images):
        return self.classify(self.stages(self.patches(images).flatten(2).transpose(1, 2)).mean(1))


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    model = Classifier()
    for stage in model.stages:
        for unit in stage:
            fully_shard(unit)
    fully_shard(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for step in range(10):
        generator = torch.Generator().manual_seed(2 * step + dist.get_rank())
        y = torch.randint(0, 10, (8,), generator=generator)
        x = torch.randn(8, 3, 16, 16, generator=generator) + y.view(-1, 1, 1, 1) / 5
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if dist.get_rank() == 0:
            print(step, loss.item(), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
