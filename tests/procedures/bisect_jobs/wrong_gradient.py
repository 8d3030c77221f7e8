"""A convolutional classifier, each block compiled: Inductor of torch 2.13 computes wrong gradients in one of them.

On more than one thread only: https://github.com/pytorch/pytorch/issues/185509
"""

import torch
import torch.nn as nn
import torch.nn.functional as F

WIDTH, STEPS = 8, 6


class Residual(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.conv = nn.Conv2d(width, width, 3, padding=1)

    def forward(self, x):
        return x + F.gelu(self.conv(x))


class Peaks(nn.Module):
    """Widens what stands out, and leaves the rest as it is."""

    def __init__(self, width):
        super().__init__()
        self.conv = nn.Conv2d(width, width, 3, padding=1)

    def forward(self, x):
        y = self.conv(x)
        widened = F.max_pool2d(y, 3, stride=1, padding=1)
        return x + torch.where(y > widened.mean(dim=(2, 3), keepdim=True), y, widened)


class Gated(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.gate = nn.Conv2d(width, width, 1)

    def forward(self, x):
        return x * torch.sigmoid(self.gate(x))


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, WIDTH, 3, padding=1)
        self.blocks = nn.ModuleList([Residual(WIDTH), Peaks(WIDTH), Gated(WIDTH)])
        self.head = nn.Linear(WIDTH, 10)

    def forward(self, x):
        x = self.stem(x)
        for block in self.blocks:
            x = block(x)
        return self.head(x.mean(dim=(2, 3)))


torch.manual_seed(0)
model = Classifier()
for block in model.blocks:
    block.compile()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(STEPS):
    images, labels = torch.randn(8, 3, 12, 12), torch.randint(0, 10, (8,))
    loss = F.cross_entropy(model(images), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
