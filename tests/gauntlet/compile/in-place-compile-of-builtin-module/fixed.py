"""Encoder from torch.nn, each layer compiled in place."""

import torch
from torch import nn

torch.manual_seed(0)


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(120, 64)
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(64, 4, 128, dropout=0.0, batch_first=True, norm_first=True) for _ in range(4)
        )
        self.head = nn.Linear(64, 9)

    def forward(self, ids):
        x = self.embed(ids)
        for layer in self.layers:
            x = layer(x)
        return self.head(x)


model = Tagger()
for i, layer in enumerate(model.layers):
    model.layers[i] = torch.compile(layer, backend="aot_eager")
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
for step in range(12):
    ids = torch.randint(0, 120, (8, 24))
    loss = nn.functional.cross_entropy(model(ids).flatten(0, 1), (ids % 9).flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"{step} {loss.item():.3f}", flush=True)
