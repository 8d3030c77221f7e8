"""Mixture of experts: tokens are split by counts that are read as a list."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Experts(nn.Module):
    def __init__(self, dim, number):
        super().__init__()
        self.router = nn.Linear(dim, number)
        self.up = nn.Parameter(torch.randn(number, dim, 2 * dim) * 0.05)
        self.down = nn.Parameter(torch.randn(number, 2 * dim, dim) * 0.05)

    def forward(self, x):
        flat = x.reshape(-1, x.shape[-1])
        weight, choice = self.router(flat).softmax(-1).max(-1)
        everything = torch.einsum("eth,ehd->etd", F.silu(torch.einsum("td,edh->eth", flat, self.up)), self.down)
        mask = F.one_hot(choice, len(self.up)).T[:, :, None]
        out = (everything * mask).sum(0)
        return x + (out * weight[:, None]).view_as(x)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(64, 32)
        self.layers = nn.ModuleList(Experts(32, 4) for _ in range(3))
        self.head = nn.Linear(32, 64)

    def forward(self, ids):
        x = self.embed(ids)
        for layer in self.layers:
            x = layer(x)
        return self.head(x)


torch.manual_seed(0)
model = Model()
model.layers = nn.ModuleList(torch.compile(layer, backend="aot_eager") for layer in model.layers)
optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
for step in range(12):
    ids = torch.randint(0, 64, (4, 24))
    loss = F.cross_entropy(model(ids).flatten(0, 1), ids.roll(-1, 1).flatten())
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    print(step, loss.item(), flush=True)
