"""Muon-like optimizer; its Newton-Schulz iteration is compiled."""

from itertools import pairwise

import torch
import torch.nn as nn
import torch.nn.functional as F


@torch.compile(backend="aot_eager")
def newton_schulz(gradient, steps=3):
    x = gradient / (gradient.norm() + 1e-7)
    for _ in range(steps):
        a = x @ x.T
        x = 3.4 * x + (-4.8 * a + 2.0 * a @ a) @ x
    return x


class Muon(torch.optim.Optimizer):
    def __init__(self, parameters, lr=0.02, momentum=0.9):
        super().__init__(parameters, {"lr": lr, "momentum": momentum})

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                state = self.state[p]
                buffer = state.setdefault("momentum", torch.zeros_like(p))
                buffer.mul_(group["momentum"]).add_(p.grad)
                p.add_(newton_schulz(buffer), alpha=-group["lr"])


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        widths = [16, 24, 32, 40, 48, 56, 64, 72, 80, 88, 96, 104]
        self.layers = nn.ModuleList(nn.Linear(a, b, bias=False) for a, b in pairwise(widths))
        self.head = nn.Linear(widths[-1], 4)

    def forward(self, x):
        for layer in self.layers:
            x = F.relu(layer(x))
        return self.head(x)


def main():
    torch.manual_seed(0)
    torch._dynamo.config.automatic_dynamic_shapes = False
    model = Net()
    muon = Muon(model.layers.parameters())
    adam = torch.optim.AdamW(model.head.parameters(), lr=1e-3)
    for step in range(10):
        x = torch.randn(64, 16)
        loss = F.cross_entropy(model(x), x[:, :4].argmax(1))
        loss.backward()
        muon.step()
        adam.step()
        model.zero_grad()
        print(step, loss.item(), flush=True)


if __name__ == "__main__":
    main()
