"""Two legs: train, save the whole module, load it again and go on."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Block(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.up = nn.Linear(dim, 4 * dim)
        self.down = nn.Linear(4 * dim, dim)

    def forward(self, x):
        return x + self.down(F.gelu(self.up(self.norm(x))))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(64, 48)
        self.blocks = nn.ModuleList(Block(48) for _ in range(6))
        self.head = nn.Linear(48, 64)

    def forward(self, ids):
        x = self.embed(ids)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def leg(model, steps, seed):
    generator = torch.Generator().manual_seed(seed)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for step in range(steps):
        ids = torch.randint(0, 64, (8, 17), generator=generator)
        loss = F.cross_entropy(model(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(step, loss.item(), flush=True)


def main():
    torch.manual_seed(0)
    model = Net()
    for block in model.blocks:
        block.compile(backend="aot_eager")
    leg(model, 6, seed=1)
    torch.save(model.state_dict(), "leg1.pt")
    model = Net()
    model.load_state_dict(torch.load("leg1.pt"))
    for block in model.blocks:
        block.compile(backend="aot_eager")
    leg(model, 8, seed=2)


if __name__ == "__main__":
    main()
