"""Modules and optimizers whose attributes answer with a fault, or leave a trace, when somebody else asks for them."""

import models
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

STEPS = 3
asked: list[str] = []


class Loud(nn.Module):
    """Its `__getattr__` knows what a module holds, and fails for all else."""

    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(4, 4)

    def __getattr__(self, name):
        try:
            return super().__getattr__(name)
        except AttributeError:
            asked.append(name)
            raise RuntimeError(f"nobody may ask for {name}") from None

    def forward(self, x):
        return self.inner(x)


class Computed(nn.Module):
    @property
    def config(self):
        asked.append("config")
        raise ValueError("not configured yet")

    @property
    def gradient_checkpointing(self):
        asked.append("gradient_checkpointing")
        raise ValueError("not known")

    def forward(self, x):
        return x * 2


class Complex(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(4, 4, dtype=torch.complex64))

    def forward(self, x):
        return (x.to(torch.complex64) @ self.weight).abs()


class Model(Computed):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList([Loud(), Loud()])
        self.turned = Complex()

    def forward(self, x):
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False)
        return self.turned(super().forward(x))


class Strict(torch.optim.Optimizer):
    def __init__(self, parameters):
        super().__init__(parameters, {})

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for parameter in group["params"]:
                parameter.sub_(parameter.grad, alpha=0.01)

    def __getattr__(self, name):
        asked.append(name)
        raise KeyError(name)


def attributes():
    model = Model()
    optimizer = Strict(model.parameters())
    asked.clear()  # torch's own constructors
    norms = []
    for _ in range(STEPS):
        model(torch.randn(3, 4)).mean().backward()
        norms.append(float(sum(p.grad.abs().pow(2).sum() for p in model.parameters())) ** 0.5)
        optimizer.step()
        optimizer.zero_grad()
    return {"asked": asked, "norms": norms}


def complex_loss():
    """A complex value has no order, so that its backward pass is given a gradient."""
    weight = nn.Parameter(torch.randn((), dtype=torch.complex64))
    model = models.Model(blocks=1)
    optimizer = torch.optim.SGD([weight, *model.parameters()], lr=0.01)
    for _ in range(STEPS):
        (weight * weight).backward(torch.ones((), dtype=torch.complex64))
        optimizer.step()
        optimizer.zero_grad()
