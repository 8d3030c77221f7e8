"""Accelerate's own loop with `trueup.prepare` in the place of `accelerator.prepare`. Prints one JSON line per rank."""

import copy
import json
import sys
from pathlib import Path

import torch
from accelerate import Accelerator
from torch.utils.data import DataLoader, TensorDataset

import trueup

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from small import Model


def losses_of(model, optimizer, batches, backward):
    losses = []
    for (x,) in batches:
        loss = model(x).float().pow(2).mean()
        backward(loss)
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return losses


def main():
    accelerator = Accelerator(cpu=True, mixed_precision=sys.argv[1])
    torch.manual_seed(0)
    model = Model()
    plain = copy.deepcopy(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    data = torch.randn(16, 8, generator=torch.Generator().manual_seed(2))
    loader = DataLoader(TensorDataset(data), batch_size=2)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1)
    policy = trueup.CompilePolicy(backend="aot_eager", fullgraph=True)
    model, optimizer, loader, scheduler = trueup.prepare(
        accelerator, model, optimizer, loader, scheduler, policy=policy
    )
    losses = losses_of(model, optimizer, loader, accelerator.backward)
    coverage = trueup.composition(model).check()
    expected = losses_of(
        plain, torch.optim.SGD(plain.parameters(), lr=0.1), [(d,) for d in data.split(2)], torch.Tensor.backward
    )
    report = {
        "rank": accelerator.process_index,
        "ranks": accelerator.num_processes,
        "model": type(model).__name__,
        "kinds": [type(thing).__name__ for thing in (optimizer, loader, scheduler)],
        "losses": losses,
        "expected": expected,
        "problems": coverage.problems,
        "compiled": coverage.blocks_compiled,
        "bound": all(any(p is q for q in model.parameters()) for g in optimizer.param_groups for p in g["params"]),
    }
    print("REPORT", json.dumps(report), flush=True)
    accelerator.wait_for_everyone()  # who leaves first takes the connections of who still works
    accelerator.end_training()


main()
