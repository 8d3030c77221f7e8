"""Sentence classifier with an encoder of our own; padded batches, the mask is applied to the outputs."""

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.utils.rnn import pad_sequence


class Layer(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.qkv, self.out = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.mlp = nn.Sequential(nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim))

    def forward(self, x, mask):
        b, s, d = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(b, s, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v)
        x = x + self.out(y.transpose(1, 2).reshape(b, s, d)) * mask[:, :, None]
        return x + self.mlp(self.norm2(x))


class Classifier(nn.Module):
    def __init__(self, vocab=90, dim=48, depth=3):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim, padding_idx=0)
        self.layers = nn.ModuleList(Layer(dim, 4) for _ in range(depth))
        self.head = nn.Linear(dim, 4)

    def forward(self, ids, mask):
        x = self.embed(ids)
        for layer in self.layers:
            x = layer(x, mask)
        pooled = (x * mask[:, :, None]).sum(1) / mask.sum(1, keepdim=True)
        return self.head(pooled)


def batch(generator):
    lengths = torch.randint(5, 30, (8,), generator=generator).tolist()
    ids = pad_sequence([torch.randint(1, 90, (n,), generator=generator) for n in lengths], batch_first=True)
    return ids, (ids != 0).float(), ids[:, 0] % 4


torch.manual_seed(0)
generator = torch.Generator().manual_seed(1)
model = Classifier()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for step in range(14):
    ids, mask, labels = batch(generator)
    loss = F.cross_entropy(model(ids, mask), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item(), flush=True)
