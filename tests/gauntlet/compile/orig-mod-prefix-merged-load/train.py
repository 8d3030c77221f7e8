"""Pre-train a sequence tagger, then fine-tune it for fewer tags."""

import torch
import torch.nn.functional as F
from store import restore, save
from torch import nn


class Mixer(nn.Module):
    def __init__(self, d, t):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.time = nn.Sequential(nn.Linear(t, t), nn.GELU(), nn.Linear(t, t))
        self.chan = nn.Sequential(nn.Linear(d, 2 * d), nn.GELU(), nn.Linear(2 * d, d))

    def forward(self, x):
        x = x + self.time(self.n1(x).transpose(1, 2)).transpose(1, 2)
        return x + self.chan(self.n2(x))


class Tagger(nn.Module):
    def __init__(self, tags, d=48, t=24):
        super().__init__()
        self.embed = nn.Embedding(80, d)
        self.body = nn.Sequential(*[Mixer(d, t) for _ in range(3)])
        self.head = nn.Linear(d, tags)

    def forward(self, ids):
        return self.head(self.body(self.embed(ids)))


def loop(model, tags, steps, seed, optimizer):
    g = torch.Generator().manual_seed(seed)
    for i in range(steps):
        ids = torch.randint(0, 80, (16, 24), generator=g)
        loss = F.cross_entropy(model(ids).flatten(0, 1), (ids % tags).flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if i % 5 == 4:
            print(f"tags {tags} step {i + 1} loss {loss.item():.4f}", flush=True)


def main():
    torch.manual_seed(2)
    big = torch.compile(Tagger(20), backend="aot_eager")
    optimizer = torch.optim.AdamW(big.parameters(), lr=2e-3)
    loop(big, 20, 20, 0, optimizer)
    save("pretrained.pt", big, optimizer, 1)

    small = restore("pretrained.pt", Tagger(5))
    small = torch.compile(small, backend="aot_eager")
    loop(small, 5, 20, 1, torch.optim.AdamW(small.parameters(), lr=5e-4))


main()
