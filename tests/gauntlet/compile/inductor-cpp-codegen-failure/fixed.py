"""Mixture density network for sensor drift; the loss is fused by torch.compile."""

import math

import torch
from torch import nn


class DensityNetwork(nn.Module):
    def __init__(self, components=3):
        super().__init__()
        self.hidden = nn.Sequential(nn.Linear(1, 32), nn.Tanh())
        self.mean, self.spread, self.weight = (nn.Linear(32, components) for _ in range(3))

    def forward(self, x):
        h = self.hidden(x)
        return self.mean(h), self.spread(h), self.weight(h).log_softmax(-1)


def negative_log_likelihood(mean, spread, weight, y):
    distance = (y - mean) * torch.exp(-spread)
    return -torch.logsumexp(weight - spread - 0.5 * distance.square() - 0.5 * math.log(2 * math.pi), dim=-1).mean()


def main():
    torch.manual_seed(0)
    model = DensityNetwork()
    criterion = torch.compile(negative_log_likelihood)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    for step in range(20):
        x = torch.rand(128, 1) * 6 - 3
        y = torch.sin(2 * x) + torch.sign(torch.rand(128, 1) - 0.5) + 0.1 * torch.randn(128, 1)
        loss = criterion(*model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 5 == 0:
            print(step, round(loss.item(), 4), flush=True)


if __name__ == "__main__":
    main()
