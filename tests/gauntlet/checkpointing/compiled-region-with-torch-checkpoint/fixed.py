"""torch.utils.checkpoint in the model's loop; the whole model is compiled; a value is read with item()."""

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint


class Layer(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.up = nn.Linear(dim, 2 * dim)
        self.down = nn.Linear(2 * dim, dim)

    def forward(self, x):
        h = F.silu(self.up(self.norm(x)))
        h = torch.where(h.detach().abs().amax() > 1e4, h / 2, h)
        return x + self.down(h)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(64, 48)
        self.layers = nn.ModuleList(Layer(48) for _ in range(4))
        self.head = nn.Linear(48, 64)

    def forward(self, ids):
        x = self.embed(ids)
        for layer in self.layers:
            x = checkpoint(layer, x, use_reentrant=False)
        return self.head(x)


torch.manual_seed(0)
model = Model()
model.compile(backend="aot_eager")
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for step in range(10):
    ids = torch.randint(0, 64, (4, 17))
    loss = F.cross_entropy(model(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item(), flush=True)
