"""DDP; rank 0 writes a large archive after some steps while the others go on. Short timeout for the test machine."""

import datetime
import threading
import time

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel


def upload():
    """Stands for an upload that takes its time."""
    time.sleep(40)


def archive(model, step):
    """The upload goes on beside the training."""
    threading.Thread(target=upload, daemon=True).start()
    torch.save(model.state_dict(), f"model-{step}.pt")


def main():
    dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=6))
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = DistributedDataParallel(nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 2)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for step in range(12):
        x = torch.randn(8, 16)
        loss = nn.functional.cross_entropy(model(x), (x.sum(1) > 0).long())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if rank == 0 and step == 5:
            archive(model, step)
    print(rank, loss.item(), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
