"""Ranks of one node fit a mixture of two lines; the job script was written for the queue."""

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


class Lines(nn.Module):
    def __init__(self):
        super().__init__()
        self.slope = nn.Parameter(torch.tensor([1.0, -1.0]))
        self.offset = nn.Parameter(torch.zeros(2))

    def forward(self, x):
        return x.unsqueeze(1) * self.slope + self.offset


def fit(steps=25):
    dist.init_process_group("gloo")
    torch.manual_seed(dist.get_rank())
    model = DistributedDataParallel(Lines())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(steps):
        x = torch.rand(64) * 2 - 1
        y = torch.where(torch.rand(64) < 0.5, 2 * x + 0.5, -x - 0.3)
        loss = (model(x) - y.unsqueeze(1)).square().min(dim=1).values.mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if dist.get_rank() == 0 and step % 8 == 0:
            print(step, round(loss.item(), 4), flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    fit()
