"""Two-rank training of a small autoencoder; run.sh exports what our other cluster needs."""

import datetime

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def build():
    torch.manual_seed(5)
    return nn.Sequential(
        nn.Linear(40, 16), nn.SiLU(), nn.Linear(16, 4), nn.SiLU(), nn.Linear(4, 16), nn.SiLU(), nn.Linear(16, 40)
    )


def run():
    dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=60))
    model = DistributedDataParallel(build())
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    generator = torch.Generator().manual_seed(dist.get_rank())
    basis = torch.randn(4, 40, generator=torch.Generator().manual_seed(0))
    for step in range(20):
        x = torch.randn(32, 4, generator=generator) @ basis
        loss = (model(x) - x).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if dist.get_rank() == 0 and step % 5 == 0:
            print(step, f"{loss.item():.3f}", flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    run()
