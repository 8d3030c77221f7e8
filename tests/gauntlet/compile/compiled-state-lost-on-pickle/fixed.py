"""Two legs: train, save the whole module, load it again and go on."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Mixer(nn.Module):
    """A gated recurrence over the places of a row."""

    def __init__(self, width):
        super().__init__()
        self.norm, self.out = nn.RMSNorm(width), nn.Linear(width, width)
        self.gate, self.value = nn.Linear(width, width), nn.Linear(width, width)

    def forward(self, x):
        y = self.norm(x)
        gates, values = torch.sigmoid(self.gate(y)).unbind(1), torch.tanh(self.value(y)).unbind(1)
        state, states = torch.zeros_like(x[:, 0]), []
        for gate, value in zip(gates, values, strict=True):
            state = gate * state + (1 - gate) * value
            states.append(state)
        return x + self.out(torch.stack(states, 1))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(64, 32)
        self.blocks = nn.ModuleList(Mixer(32) for _ in range(12))
        self.head = nn.Linear(32, 64)

    def forward(self, ids):
        x = self.embed(ids)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def leg(model, steps, seed):
    generator = torch.Generator().manual_seed(seed)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for step in range(steps):
        for ids in torch.randint(0, 64, (6, 2, 65), generator=generator):
            loss = F.cross_entropy(model(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten())
            (loss / 6).backward()
        optimizer.step()
        optimizer.zero_grad()
        print(step, loss.item(), flush=True)


def main():
    torch.manual_seed(0)
    model = Net()
    for block in model.blocks:
        block.compile()
    leg(model, 2, seed=1)
    torch.save(model.state_dict(), "leg1.pt")
    model = Net()
    model.load_state_dict(torch.load("leg1.pt"))
    for block in model.blocks:
        block.compile()
    leg(model, 28, seed=2)


if __name__ == "__main__":
    main()
