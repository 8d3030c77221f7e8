"""One rank of a torchrun job that observes itself; the folder is shared. Prints one JSON line per rank."""

import json
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import trueup

dist.init_process_group("gloo")
torch.manual_seed(dist.get_rank())
with trueup.observe(sys.argv[1]) as observation:
    model = DistributedDataParallel(nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    losses = []
    for _ in range(4):
        loss = model(torch.randn(2, 4)).pow(2).mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
record = observation.record
print(
    "REPORT",
    json.dumps(
        {
            "rank": dist.get_rank(),
            "ranks": [rank.rank for rank in record.ranks],
            "losses": losses,
            "seen": record.steps.losses,
            "strategy": record.actual.sharding.strategy,
            "notes": [note.what for note in record.notes],
            "findings": [finding.rule for finding in record.findings],
            "world": [record.launch.requested_world_size, record.launch.world_size],
        }
    ),
    flush=True,
)
dist.barrier()
dist.destroy_process_group()
