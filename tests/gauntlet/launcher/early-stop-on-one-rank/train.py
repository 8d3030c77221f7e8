"""Two-rank training with early stopping: rank 0 validates, and only rank 0 knows when it is enough."""

import argparse
import datetime

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


class EarlyStop:
    def __init__(self, patience, delta):
        self.patience, self.delta, self.best, self.bad = patience, delta, float("inf"), 0

    def __call__(self, value):
        if value < self.best - self.delta:
            self.best, self.bad = value, 0
        else:
            self.bad += 1
        return self.bad >= self.patience


def validate(net, rows):
    net.eval()
    with torch.no_grad():
        x, y = rows.tensors
        value = nn.functional.mse_loss(net(x), y).item()
    net.train()
    return value


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=12)
    ap.add_argument("--timeout", type=int, default=15)
    a = ap.parse_args()
    dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=a.timeout))
    rank = dist.get_rank()
    g = torch.Generator().manual_seed(0)
    x = torch.randn(160, 5, generator=g)
    data = TensorDataset(x[:128], x[:128].sum(1, keepdim=True))
    held = TensorDataset(x[128:], x[128:].sum(1, keepdim=True))
    sampler = DistributedSampler(data, shuffle=True)
    loader = DataLoader(data, batch_size=16, sampler=sampler)
    torch.manual_seed(1)
    net = DistributedDataParallel(nn.Sequential(nn.Linear(5, 32), nn.Tanh(), nn.Linear(32, 1)))
    opt = torch.optim.Adam(net.parameters(), lr=2e-2)
    stop = EarlyStop(patience=1, delta=0.2)
    for epoch in range(a.epochs):
        sampler.set_epoch(epoch)
        for xb, yb in loader:
            loss = nn.functional.mse_loss(net(xb), yb)
            opt.zero_grad()
            loss.backward()
            opt.step()
        if rank == 0:
            value = validate(net.module, held)
            print(f"epoch {epoch} train {loss.item():.4f} valid {value:.4f}", flush=True)
            if stop(value):
                print("early stop", flush=True)
                break
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
