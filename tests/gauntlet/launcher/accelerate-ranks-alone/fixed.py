"""A regression head trained with Accelerate on the CPU workers of a cluster."""

from dataclasses import dataclass

import torch
import torch.nn as nn
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch.utils.data import DataLoader, TensorDataset


@dataclass
class Settings:
    width: int = 48
    batch: int = 8
    epochs: int = 2
    rate: float = 3e-3


def loader(settings: Settings) -> DataLoader:
    inputs = torch.randn(128, 16, generator=torch.Generator().manual_seed(1))
    return DataLoader(TensorDataset(inputs, inputs.sum(-1, keepdim=True).tanh()), settings.batch, shuffle=True)


def main() -> None:
    settings = Settings()
    set_seed(0)
    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=1)
    network = nn.Sequential(nn.Linear(16, settings.width), nn.SiLU(), nn.Linear(settings.width, 1))
    optimizer = torch.optim.AdamW(network.parameters(), lr=settings.rate)
    network, optimizer, batches = accelerator.prepare(network, optimizer, loader(settings))
    for epoch in range(settings.epochs):
        for inputs, targets in batches:
            with accelerator.accumulate(network):
                loss = nn.functional.mse_loss(network(inputs), targets)
                accelerator.backward(loss)
                accelerator.clip_grad_norm_(network.parameters(), 1.0)
                optimizer.step()
                optimizer.zero_grad()
        accelerator.print(f"epoch {epoch}: {loss.item():.4f}", flush=True)
    accelerator.end_training()


if __name__ == "__main__":
    main()
