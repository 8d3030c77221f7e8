"""Latent attention: queries and keys carry a rotary part, values do not, so that their sizes differ."""

import math
from functools import partial

import torch
import torch.nn.functional as F
from torch import nn


def rotary(x):
    half = x.shape[-1] // 2
    freq = torch.exp(-math.log(10000) * torch.arange(half) / half)
    angle = torch.arange(x.shape[-2])[:, None] * freq
    a, b = x[..., :half], x[..., half:]
    return torch.cat([a * angle.cos() - b * angle.sin(), a * angle.sin() + b * angle.cos()], -1)


class LatentAttention(nn.Module):
    def __init__(self, width, heads, nope, rope, value, rank):
        super().__init__()
        self.heads, self.nope, self.rope, self.value = heads, nope, rope, value
        self.to_q = nn.Linear(width, heads * (nope + rope), bias=False)
        self.down = nn.Linear(width, rank + rope, bias=False)
        self.up = nn.Linear(rank, heads * (nope + value), bias=False)
        self.out = nn.Linear(heads * value, width, bias=False)
        self.rank = rank

    def forward(self, x):
        b, t, _ = x.shape
        q = self.to_q(x).view(b, t, self.heads, -1).transpose(1, 2)
        q_nope, q_rope = q.split([self.nope, self.rope], -1)
        latent, k_rope = self.down(x).split([self.rank, self.rope], -1)
        k_nope, v = self.up(latent).view(b, t, self.heads, -1).transpose(1, 2).split([self.nope, self.value], -1)
        k_rope = rotary(k_rope[:, None]).expand(-1, self.heads, -1, -1)
        q = torch.cat([q_nope, rotary(q_rope)], -1)
        k = torch.cat([k_nope, k_rope], -1)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(y.transpose(1, 2).reshape(b, t, -1))


class Layer(nn.Module):
    def __init__(self, width, attention):
        super().__init__()
        self.ln1, self.ln2 = nn.RMSNorm(width), nn.RMSNorm(width)
        self.attention = attention()
        self.ffn = nn.Sequential(nn.Linear(width, 2 * width), nn.SiLU(), nn.Linear(2 * width, width))

    def forward(self, x):
        x = x + self.attention(self.ln1(x))
        return x + self.ffn(self.ln2(x))


class Model(nn.Module):
    def __init__(self, vocab, width, depth):
        super().__init__()
        attention = partial(LatentAttention, width, heads=4, nope=32, rope=16, value=32, rank=24)
        self.embedding = nn.Embedding(vocab, width)
        self.layers = nn.Sequential(*[Layer(width, attention) for _ in range(depth)])
        self.final = nn.Linear(width, vocab)

    def forward(self, ids):
        return self.final(self.layers(self.embedding(ids)))


def main():
    torch.manual_seed(0)
    model = Model(128, 64, 3)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    for step in range(16):
        for _ in range(2):
            ids = (torch.randint(0, 128, (1, 1)) + 3 * torch.arange(1537)) % 128
            loss = F.cross_entropy(model(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten()) / 2
            loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        print(step, loss.item(), flush=True)


if __name__ == "__main__":
    main()
