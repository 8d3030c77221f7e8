"""Trains a small model plain and composed, on two ranks, for each plan named on the command line.

Rank 0 prints one JSON line for each: the losses of both on the same data, and what the composition says of itself.
"""

import copy
import json
import os
import sys
import warnings

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel

import trueup

STEPS = 3


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, 2 * width)
        self.down = nn.Linear(2 * width, width)

    def forward(self, x):
        return x + self.down(torch.relu(self.up(self.norm(x))))


class Model(nn.Module):
    def __init__(self, width=16, blocks=3):
        super().__init__()
        self.embed = nn.Embedding(32, width)
        self.layers = nn.ModuleList(Block(width) for _ in range(blocks))
        self.head = nn.Linear(width, 32)

    def forward(self, tokens):
        x = self.embed(tokens)
        for layer in self.layers:
            x = layer(x)
        return self.head(x)


def plan(name):
    """`fsdp2+ac+compile+bf16`: the plan whose layers are named."""
    parts = name.split("+")
    options = {"sharding": next((p for p in parts if p in ("ddp", "fsdp1", "fsdp2")), "none")}
    if "ac" in parts:
        options["checkpointing"] = trueup.Checkpointing()
    if "compile" in parts:
        backend = "inductor" if "inductor" in parts else "aot_eager"
        options["compile"] = trueup.CompilePolicy(
            backend=backend, fullgraph="fullgraph" in parts, dynamic=False if "tp" in parts else None
        )
    if "bf16" in parts:
        options["precision"] = "bf16"
    if "tp" in parts:
        names = ("dp", "tp") if "fsdp2" in parts else ("tp",)
        shape = (1, 2) if "fsdp2" in parts else (2,)
        options["mesh"] = dist.device_mesh.init_device_mesh("cpu", shape, mesh_dim_names=names)
        options["tensor_parallel"] = {
            key: style
            for i in range(3)
            for key, style in ((f"layers.{i}.up", ColwiseParallel()), (f"layers.{i}.down", RowwiseParallel()))
        }
    return trueup.Plan(**options)


def batches(rank, same):
    """Each rank has its half of a batch, or all of it where ranks hold parts of one model."""
    generator = torch.Generator().manual_seed(1)
    for step in range(STEPS):
        tokens = torch.randint(0, 32, (4, 6 + step), generator=generator)
        yield tokens if same else tokens[2 * rank : 2 * rank + 2]


def train(model, data, reduce=None):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    losses = []
    for tokens in data:
        logits = model(tokens)
        loss = nn.functional.cross_entropy(logits.float().flatten(0, 1), tokens.flatten())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.detach().clone())
    together = torch.stack(losses)
    if reduce is not None:
        dist.all_reduce(together)
        together /= reduce
    return [round(value, 6) for value in together.tolist()]


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    warnings.simplefilter("error", trueup.RecompileWarning)
    for name in sys.argv[1:]:
        torch._dynamo.reset()
        torch.manual_seed(0)
        model = Model()
        plain = copy.deepcopy(model)
        keys = sorted(model.state_dict())
        same = "tp" in name or name == "none"
        done = trueup.compose(model, plan(name))
        before = done.check()
        losses = train(done.model, batches(rank, same), reduce=2)
        expected = train(plain, batches(0, same=True))
        coverage = done.check()
        report = {
            "plan": name,
            "losses": losses,
            "expected": expected,
            "class": type(done.model).__name__,
            "same_names": sorted(n.replace("module.", "") for n in done.model.state_dict()) == keys,
            "applied": [str(step) for step in done.applied],
            "settings": sorted(done.settings),
            "problems_before": before.problems,
            "problems": coverage.problems,
            "compiled": coverage.blocks_compiled,
            "checkpointed": coverage.checkpointed,
            "sharded": coverage.sharded_fraction,
            "low_precision": coverage.low_precision,
            "recompiles": coverage.recompiles,
            "recompiled": [runs.recompiled for runs in done.runs.values()],
        }
        for key, value in done.settings.items():
            setattr(torch._dynamo.config, key, value)
        if rank == 0:
            print("REPORT", json.dumps(report), flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    main()
