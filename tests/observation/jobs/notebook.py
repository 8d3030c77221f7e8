"""A script in which everything was imported, built and trained before observation begins, as in a notebook.

Prints one JSON line: what was observed, and what is left of it afterwards.
"""

import json
import logging
import sys
import threading

import torch
from torch import nn
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper

import trueup


class Block(nn.Module):
    def __init__(self, index):
        super().__init__()
        self.index = index
        self.up = nn.Linear(8, 8)
        self.down = nn.Linear(8, 8)

    def forward(self, x):
        return x + self.down(torch.relu(self.up(x))) * (1 + self.index / 100)


class Model(nn.Module):
    def __init__(self, blocks):
        super().__init__()
        self.layers = nn.ModuleList(Block(i) for i in range(blocks))

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x


def train(model, optimizer, steps):
    losses = []
    for _ in range(steps):
        loss = model(torch.randn(4, 8)).pow(2).mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return losses


def in_place():
    """Everything that observation changes in this process."""
    return {
        "compile": torch.compile,
        "method": nn.Module.compile,
        "checkpoint": checkpoint_wrapper,  # taken by name before
        "backward": torch.autograd.backward,
        "init": torch.optim.Optimizer.__init__,
        "to": nn.Module.to,
        "next": torch.utils.data.dataloader._BaseDataLoaderIter.__next__,
        "excepthook": sys.excepthook,
        "thread": threading.excepthook,
        "meta_path": list(sys.meta_path),
        "handlers": [
            handler for handler in logging.getLogger("torch.__trace").handlers if "trueup" in repr(type(handler))
        ],
        "level": logging.getLogger("torch.__trace").level,
        "filters": list(logging.getLogger("torch._dynamo.convert_frame").filters),
        "hooks": len(sys.modules["torch.optim.optimizer"]._global_optimizer_pre_hooks),
    }


def shown(record):
    return {
        "steps": record.steps.count,
        "losses": record.steps.losses,
        "blocks": [record.actual.compile.blocks.compiled, record.actual.compile.blocks.total],
        "recompiles": sum(recompile.count for recompile in record.actual.compile.recompiles),
        "optimizers": record.actual.training.optimizers,
        "findings": [finding.rule for finding in record.findings],
        "order": [f"{applied.event} {applied.at}" for applied in record.order],
        "notes": [note.what for note in record.notes],
        "exit": record.exit.code,
        "duration": record.duration_s,
        "packages": sorted(record.environment.get("packages", {})),
    }


torch.manual_seed(0)
torch.set_num_threads(1)
model = Model(12)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
train(model, optimizer, 2)
clean = in_place()

with trueup.observe() as observation:
    for layer in model.layers:
        layer.compile(backend="aot_eager")
    losses = train(model, optimizer, 8)
    within = observation.record
    changed = [name for name, value in in_place().items() if value != clean[name]]
train(model, optimizer, 2)
first = shown(observation.record)
after_first = [name for name, value in in_place().items() if value != clean[name]]

torch._dynamo.reset()
with trueup.observe() as again:
    other = Model(2)
    second_losses = train(other, torch.optim.AdamW(other.parameters()), 3)
second = shown(again.record)

try:
    with trueup.observe() as failing:
        raise ValueError("of the user")
except ValueError:
    pass
third = failing.record

print(
    "REPORT",
    json.dumps(
        {
            "changed": changed,
            "within": within.steps.count,
            "first": first,
            "losses": losses,
            "report": observation.report(),
            "after_first": after_first,
            "stays": observation.stays,
            "left_behind": observation.folder.path.exists(),
            "second": second,
            "second_losses": second_losses,
            "failed": [third.exit.code, third.exit.reason, third.ranks[0].error],
        }
    ),
    flush=True,
)
