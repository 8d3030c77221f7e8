"""Regression with Lightning Fabric: two processes, sixteen micro-batches to a step."""

import torch
from lightning.fabric import Fabric
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def build():
    return nn.Sequential(nn.Linear(32, 2048), nn.ReLU(), nn.Linear(2048, 2048), nn.ReLU(), nn.Linear(2048, 1))


def train(fabric, micro=16):
    fabric.seed_everything(5)
    model = build()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
    model, optimizer = fabric.setup(model, optimizer)
    x = torch.randn(1280, 32)
    loader = fabric.setup_dataloaders(DataLoader(TensorDataset(x, x.mean(1, keepdim=True)), batch_size=2))
    for i, (a, b) in enumerate(loader):
        with fabric.no_backward_sync(model, enabled=(i + 1) % micro != 0):
            loss = nn.functional.mse_loss(model(a), b)
            fabric.backward(loss / micro)
        if (i + 1) % micro == 0:
            fabric.clip_gradients(model, optimizer, max_norm=1.0)
            optimizer.step()
            optimizer.zero_grad()
            fabric.print(i, loss.item())


if __name__ == "__main__":
    fabric = Fabric(accelerator="cpu", devices=2, strategy="ddp")
    fabric.launch()
    train(fabric)
