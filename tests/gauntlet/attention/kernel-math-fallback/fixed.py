"""Character model with attention of our own; a learned position bias is added to the scores."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Attention(nn.Module):
    def __init__(self, dim, heads, length):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(dim, 3 * dim)
        self.out = nn.Linear(dim, dim)
        slopes = torch.tensor([2.0 ** -(i + 1) for i in range(heads)]).view(heads, 1, 1)
        distance = torch.arange(length).view(1, -1) - torch.arange(length).view(-1, 1)
        causal = torch.full((length, length), float("-inf")).triu(1)
        self.register_buffer("mask", (slopes * distance.clamp(max=0) + causal)[None])

    def forward(self, x):
        b, s, d = x.shape
        q, k, v = self.qkv(x).view(b, s, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=self.mask)
        return self.out(y.transpose(1, 2).reshape(b, s, d))


class Model(nn.Module):
    def __init__(self, vocab=96, dim=64, heads=4, depth=4, length=32):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.layers = nn.ModuleList()
        for _ in range(depth):
            self.layers.append(
                nn.ModuleDict(
                    {
                        "norm": nn.LayerNorm(dim),
                        "attention": Attention(dim, heads, length),
                        "mlp": nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, 128), nn.GELU(), nn.Linear(128, dim)),
                    }
                )
            )
        self.head = nn.Linear(dim, vocab)

    def forward(self, ids):
        x = self.embed(ids)
        for layer in self.layers:
            x = x + layer["attention"](layer["norm"](x))
            x = x + layer["mlp"](x)
        return self.head(x)


torch.manual_seed(0)
model = Model()
optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
text = torch.randint(0, 96, (16, 4, 33))
for step, batch in enumerate(text):
    logits = model(batch[:, :-1])
    loss = F.cross_entropy(logits.reshape(-1, 96), batch[:, 1:].reshape(-1))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 4 == 0:
        print(f"{step}: {loss.item():.3f}", flush=True)
