"""Training through the compiled wrapper, validation every second step through the plain model."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Block(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(dim), nn.Linear(dim, 2 * dim), nn.Linear(2 * dim, dim)

    def forward(self, x):
        return x + self.down(F.gelu(self.up(self.norm(x))))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(64, 48)
        self.blocks = nn.ModuleList(Block(48) for _ in range(4))
        self.head = nn.Linear(48, 64)

    def forward(self, ids):
        x = self.embed(ids)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def loss_of(model, ids):
    return F.cross_entropy(model(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten())


@torch.no_grad()
def validate(model, held):
    model.eval()
    loss = sum(loss_of(model, ids).item() for ids in held) / len(held)
    model.train()
    return loss


torch.manual_seed(0)
model = Net()
fast = torch.compile(model, backend="aot_eager")
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
held = torch.randint(0, 64, (3, 8, 17))
for step in range(14):
    loss = loss_of(fast, torch.randint(0, 64, (8, 17)))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 2 == 1:
        print(step, loss.item(), validate(fast, held), flush=True)
