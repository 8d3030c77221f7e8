"""Rotary embedding computed in float32 for accuracy in a bf16 model of our own."""

import torch
import torch.nn as nn
import torch.nn.functional as F


def rotate(x, cos, sin):
    a, b = x.chunk(2, -1)
    return x * cos + torch.cat((-b, a), -1) * sin


class Attention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(dim, 3 * dim)
        self.out = nn.Linear(dim, dim)

    def forward(self, x):
        b, s, d = x.shape
        q, k, v = self.qkv(x).view(b, s, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        half = q.shape[-1] // 2
        angle = torch.arange(s)[:, None] / 10000 ** (torch.arange(half) / half)
        cos, sin = torch.cat([angle.cos()] * 2, -1), torch.cat([angle.sin()] * 2, -1)
        q, k = rotate(q, cos, sin), rotate(k, cos, sin)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(y.transpose(1, 2).reshape(b, s, d))


class LM(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(64, 64)
        self.layers = nn.ModuleList(
            nn.ModuleDict({"norm": nn.LayerNorm(64), "attention": Attention(64, 4)}) for _ in range(3)
        )
        self.head = nn.Linear(64, 64)

    def forward(self, ids):
        x = self.embed(ids)
        for layer in self.layers:
            x = x + layer["attention"](layer["norm"](x))
        return self.head(x)


torch.manual_seed(0)
model = LM().to(torch.bfloat16)
optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
for step in range(10):
    ids = torch.randint(0, 64, (4, 33))
    logits = model(ids[:, :-1])
    loss = F.cross_entropy(logits.float().flatten(0, 1), ids[:, 1:].flatten())
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    print(step, loss.item(), flush=True)
