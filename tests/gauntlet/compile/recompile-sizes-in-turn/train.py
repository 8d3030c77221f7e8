"""Retrieval: question, passage and hard negative, each padded to the longest of its batch; one compiled ranker."""

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

    def forward(self, question, passage, negative):
        q, p, n = self.tower(question), self.tower(passage), self.tower(negative)
        return q @ torch.cat([p, n]).T / 8


def rows(count, longest, generator):
    lengths = torch.randint(max(2, longest // 2), longest + 1, (count,), generator=generator)
    lengths[0] = longest
    return pad_sequence([torch.randint(1, 300, (int(n),), generator=generator) for n in lengths], batch_first=True)


SIZES = [(16, 12, 40, 40), (16, 12, 48, 40), (16, 12, 48, 52), (16, 9, 33, 61), (11, 14, 45, 38)]


def main():
    torch.manual_seed(0)
    generator = torch.Generator().manual_seed(1)
    model = Ranker()
    compiled = torch.compile(model, backend="aot_eager")
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for step in range(15):
        count, question, passage, negative = SIZES[step % 5]
        scores = compiled(*(rows(count, n, generator) for n in (question, passage, negative)))
        loss = F.cross_entropy(scores, torch.arange(count))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        print(step, loss.item(), flush=True)


if __name__ == "__main__":
    main()
