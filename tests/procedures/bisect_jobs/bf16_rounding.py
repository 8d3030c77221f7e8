"""A compiled model under bfloat16 autocast: its losses differ from eager ones by rounding, and by nothing else."""

import torch
import torch.nn as nn
import torch.nn.functional as F

STEPS = 8


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.drop = nn.Dropout(0.1)

    def forward(self, x):
        return x + self.drop(self.down(F.gelu(self.up(self.norm(x)))))


torch.manual_seed(0)
model = nn.Sequential(nn.Embedding(64, 32), Block(32), Block(32), nn.Linear(32, 64))
step = torch.compile(model)
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
for _ in range(STEPS):
    tokens = torch.randint(0, 64, (8, 33))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = F.cross_entropy(step(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
