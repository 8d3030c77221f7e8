"""Forecasts a synthetic load curve with a compiled temporal convolution."""

import argparse
import math

import torch
import torch.nn.functional as F
from torch import nn


class CausalConv(nn.Module):
    def __init__(self, width, dilation):
        super().__init__()
        self.pad = 2 * dilation
        self.conv = nn.Conv1d(width, width, 3, dilation=dilation)

    def forward(self, x):
        return x + F.gelu(self.conv(F.pad(x, (self.pad, 0))))


class Forecaster(nn.Module):
    def __init__(self, width=24):
        super().__init__()
        self.lift = nn.Conv1d(1, width, 1)
        self.body = nn.Sequential(*[CausalConv(width, 2**i) for i in range(3)])
        self.drop = nn.Conv1d(width, 1, 1)

    def forward(self, x):
        return self.drop(self.body(self.lift(x)))


def windows(batches, length, generator):
    for _ in range(batches):
        phase = torch.rand(16, 1, 1, generator=generator) * 2 * math.pi
        t = torch.arange(length + 1).view(1, 1, -1) * 0.15
        curve = torch.sin(t + phase) + 0.1 * torch.randn(16, 1, length + 1, generator=generator)
        yield curve[..., :-1], curve[..., 1:]


if __name__ == "__main__":
    args = argparse.ArgumentParser()
    args.add_argument("--batches", type=int, default=20)
    args = args.parse_args()
    torch.manual_seed(0)
    model = torch.compile(Forecaster())
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    for number, (past, future) in enumerate(windows(args.batches, 48, torch.Generator().manual_seed(1))):
        loss = F.mse_loss(model(past), future)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if number % 5 == 0:
            print(number, round(loss.item(), 4), flush=True)
