"""Two gloo ranks train replicas. Rank 0 prints the losses of each as JSON, or what DDP said."""

import contextlib
import json

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.checkpoint import checkpoint

WIDTH = 16


class Plain(nn.Module):
    """Has buffers that the ranks would let drift apart."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.BatchNorm1d(WIDTH), nn.ReLU())
        self.head = nn.Linear(WIDTH, 5)

    def forward(self, x):
        return self.head(self.body(x))


class Shared(Plain):
    """One block, checkpointed twice: its parameters are ready twice in a backward pass."""

    def forward(self, x):
        for _ in range(2):
            x = checkpoint(self.body[0], x.requires_grad_(), use_reentrant=True)
        return self.head(x)


class PartlyUsed(Plain):
    def forward(self, x):
        return self.head(x)


def train(model, accumulate=1, **options):
    torch.manual_seed(dist.get_rank())
    replica = DistributedDataParallel(model(), **options)
    optimizer = torch.optim.SGD(replica.parameters(), lr=0.1)
    losses = []
    try:
        for step in range(6):
            last = step % accumulate == accumulate - 1
            with contextlib.nullcontext() if last else replica.no_sync():
                loss = replica(torch.randn(4, WIDTH)).square().mean()
                loss.backward()
            if last:
                optimizer.step()
                optimizer.zero_grad()
            dist.all_reduce(loss.detach())
            losses.append(loss.item())
    except RuntimeError as error:
        return str(error)[:60]
    parameters = torch.cat([each.detach().reshape(-1) for each in replica.parameters()])
    return [*losses, parameters.norm().item(), replica.module.body[1].running_mean.norm().item()]


dist.init_process_group("gloo")
facts = {
    "plain": train(Plain),
    "accumulated": train(Plain, accumulate=2),
    "static": train(Plain, static_graph=True),
    "unused are looked for": train(PartlyUsed, find_unused_parameters=True),
    "shared": train(Shared),
    "partly used": train(PartlyUsed),
}
if dist.get_rank() == 0:
    print(json.dumps(facts))
dist.barrier()
dist.destroy_process_group()
