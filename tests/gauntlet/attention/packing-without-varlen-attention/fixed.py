"""Packed pre-training of our own model: several documents a row, positions restart; attention is plain causal."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Block(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.norm = nn.LayerNorm(dim)
        self.qkv, self.out = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.mlp = nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim))

    def forward(self, x, documents):
        b, s, d = x.shape
        q, k, v = self.qkv(self.norm(x)).view(b, s, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        same = (documents[:, :, None] == documents[:, None, :]).tril()
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=same[:, None])
        x = x + self.out(y.transpose(1, 2).reshape(b, s, d))
        return x + self.mlp(x)


class LM(nn.Module):
    def __init__(self, vocab=90, dim=48, depth=3, longest=64):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.place = nn.Embedding(longest, dim)
        self.blocks = nn.ModuleList(Block(dim, 4) for _ in range(depth))
        self.head = nn.Linear(dim, vocab)

    def forward(self, ids, positions):
        documents = (positions == 0).cumsum(1)
        x = self.embed(ids) + self.place(positions)
        for block in self.blocks:
            x = block(x, documents)
        return self.head(x)


def packed_row(length, generator):
    positions = []
    while len(positions) < length:
        positions += range(int(torch.randint(6, 20, (1,), generator=generator)))
    return torch.tensor(positions[:length])


torch.manual_seed(0)
generator = torch.Generator().manual_seed(3)
model = LM()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for step in range(12):
    positions = torch.stack([packed_row(48, generator) for _ in range(4)])
    ids = torch.randint(0, 90, (4, 48), generator=generator)
    targets = ids.roll(-1, 1).masked_fill(positions.roll(-1, 1) == 0, -100)
    loss = F.cross_entropy(model(ids, positions).flatten(0, 1), targets.flatten())
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    print(step, loss.item(), flush=True)
