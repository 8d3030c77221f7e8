"""Data-parallel regression of a damped oscillator, started by torchrun with the port that our cluster page names."""

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


def oscillator(samples=512):
    generator = torch.Generator().manual_seed(11)
    t = torch.rand(samples, 1, generator=generator) * 6
    return TensorDataset(t, torch.exp(-0.3 * t) * torch.cos(3 * t))


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    model = DDP(nn.Sequential(nn.Linear(1, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 1)))
    data = oscillator()
    sampler = DistributedSampler(data, shuffle=True, seed=1)
    loader = DataLoader(data, batch_size=32, sampler=sampler)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for epoch in range(3):
        sampler.set_epoch(epoch)
        for t, y in loader:
            loss = nn.functional.mse_loss(model(t), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        if int(os.environ["RANK"]) == 0:
            print(f"epoch {epoch}: {loss.item():.4f}", flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
