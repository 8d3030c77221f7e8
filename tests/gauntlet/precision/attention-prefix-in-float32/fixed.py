"""Prefix tuning of a frozen bf16 decoder: the learned keys and values stay float32."""

import torch
import torch.nn.functional as F
from torch import nn


class SelfAttention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.wq, self.wk, self.wv, self.wo = (nn.Linear(width, width, bias=False) for _ in range(4))
        self.prefix = None

    def forward(self, x):
        q, k, v = (w(x).unflatten(-1, (self.heads, -1)).transpose(1, 2) for w in (self.wq, self.wk, self.wv))
        mask = torch.ones(q.shape[2], k.shape[2], dtype=torch.bool).tril()
        if self.prefix is not None:
            pk, pv = (p.expand(x.shape[0], -1, -1, -1) for p in self.prefix)
            k, v = torch.cat([pk, k], 2).to(q.dtype), torch.cat([pv, v], 2).to(q.dtype)
            mask = F.pad(mask, (pk.shape[2], 0), value=True)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return self.wo(y.transpose(1, 2).flatten(2))


class Decoder(nn.Module):
    def __init__(self, vocab=120, width=64, depth=3, heads=4):
        super().__init__()
        self.tok = nn.Embedding(vocab, width)
        self.attn = nn.ModuleList(SelfAttention(width, heads) for _ in range(depth))
        self.mlp = nn.ModuleList(
            nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))
            for _ in range(depth)
        )
        self.lm = nn.Linear(width, vocab)

    def forward(self, ids):
        h = self.tok(ids)
        for attn, mlp in zip(self.attn, self.mlp, strict=True):
            h = h + attn(h)
            h = h + mlp(h)
        return self.lm(h)


def add_prefix(model, length=6):
    model.requires_grad_(False)
    learned = []
    for attn in model.attn:
        shape = (1, attn.heads, length, attn.wq.out_features // attn.heads)
        attn.prefix = nn.ParameterList(nn.Parameter(0.02 * torch.randn(shape)) for _ in range(2))
        learned += list(attn.prefix)
    return learned


def main():
    torch.manual_seed(0)
    model = Decoder().to(torch.bfloat16)
    learned = add_prefix(model)
    opt = torch.optim.Adam(learned, lr=1e-2)
    g = torch.Generator().manual_seed(2)
    for step in range(14):
        ids = (torch.randint(0, 120, (4, 1), generator=g) + torch.arange(17)) % 120
        loss = F.cross_entropy(model(ids[:, :-1]).float().flatten(0, 1), ids[:, 1:].flatten())
        loss.backward()
        opt.step()
        opt.zero_grad()
        print("step", step, "loss", f"{loss.item():.4f}", flush=True)


if __name__ == "__main__":
    main()
