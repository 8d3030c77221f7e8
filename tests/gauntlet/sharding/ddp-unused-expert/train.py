"""accelerate on two processes: a layer is skipped at random (stochastic depth), so its weights get no gradient."""

import random

import torch
import torch.nn as nn
import torch.nn.functional as F
from accelerate import Accelerator


class Layer(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(dim, 2 * dim), nn.Linear(2 * dim, dim)

    def forward(self, x):
        return x + self.fc2(F.relu(self.fc1(x)))


class Net(nn.Module):
    def __init__(self, dim=32, depth=4, drop=0.4):
        super().__init__()
        self.drop = drop
        self.layers = nn.ModuleList(Layer(dim) for _ in range(depth))
        self.head = nn.Linear(dim, 4)

    def forward(self, x):
        for layer in self.layers:
            if not self.training or random.random() > self.drop:
                x = layer(x)
        return self.head(x)


def main():
    accelerator = Accelerator(cpu=True)
    torch.manual_seed(0)
    random.seed(0)
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    model, optimizer = accelerator.prepare(model, optimizer)
    for step in range(12):
        x = torch.randn(16, 32)
        loss = F.cross_entropy(model(x), x[:, :4].argmax(1))
        accelerator.backward(loss)
        optimizer.step()
        optimizer.zero_grad()
        accelerator.print(step, loss.item(), flush=True)
    accelerator.end_training()


if __name__ == "__main__":
    main()
