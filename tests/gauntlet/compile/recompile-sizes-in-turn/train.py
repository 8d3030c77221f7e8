"""Retrieval: question, passage and eight hard negatives, each padded to a multiple of 4; one compiled ranker."""

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.utils.rnn import pad_sequence


class Tower(nn.Module):
    def __init__(self, vocab=300, dim=64, depth=2):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim, padding_idx=0)
        self.layers = nn.ModuleList()
        for _ in range(depth):
            self.layers.append(nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, dim), nn.GELU()))

    def forward(self, ids):
        x = self.embed(ids)
        for layer in self.layers:
            x = x + layer(x)
        keep = (ids != 0).unsqueeze(-1)
        return (x * keep).sum(1) / keep.sum(1)


class Ranker(nn.Module):
    def __init__(self):
        super().__init__()
        self.tower = Tower()

    def forward(self, question, *passages):
        return self.tower(question) @ torch.cat([self.tower(passage) for passage in passages]).T / 8


def rows(count, longest, generator):
    lengths = torch.randint(max(2, longest // 2), longest + 1, (count,), generator=generator)
    lengths[0] = longest
    return pad_sequence([torch.randint(1, 300, (int(n),), generator=generator) for n in lengths], batch_first=True)


def lengths():
    """Of each step: a batch differs from the last one in the longest of one part."""
    longest = [12, *range(40, 76, 4)]
    for step in range(24):
        yield longest
        part = step % len(longest)
        longest = [*longest[:part], longest[part] + 4, *longest[part + 1 :]]


def main():
    torch.manual_seed(0)
    torch._dynamo.config.recompile_limit = 64  # it warned that 8 were reached
    generator = torch.Generator().manual_seed(1)
    model = Ranker()
    compiled = torch.compile(model, backend="aot_eager")
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for step, longest in enumerate(lengths()):
        scores = compiled(*(rows(16, n, generator) for n in longest))
        loss = F.cross_entropy(scores, torch.arange(16))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        print(step, loss.item(), flush=True)


if __name__ == "__main__":
    main()
