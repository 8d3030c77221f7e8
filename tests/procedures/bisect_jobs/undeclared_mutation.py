"""Blocks that are compiled; an operator of one of them changes a buffer, which its schema does not say."""

import torch
import torch.nn as nn
import torch.nn.functional as F

STEPS = 4


@torch.library.custom_op("job::track", mutates_args=())
def track(mean: torch.Tensor, x: torch.Tensor) -> None:
    mean.lerp_(x.mean(dim=0), 0.5)


@track.register_fake
def _(mean, x):
    return None


class Centred(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.linear = nn.Linear(width, width)
        self.register_buffer("mean", torch.zeros(width))

    def forward(self, x):
        track(self.mean, x.detach())
        return x + F.gelu(self.linear(x - self.mean))


class Residual(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.linear = nn.Linear(width, width)

    def forward(self, x):
        return x + F.gelu(self.linear(x))


torch.manual_seed(0)
model = nn.Sequential(Residual(16), Centred(16), nn.Linear(16, 4))
for block in model[:2]:
    block.compile(backend="aot_eager")
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(STEPS):
    x, y = torch.randn(8, 16) + 1, torch.randint(0, 4, (8,))
    loss = F.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
