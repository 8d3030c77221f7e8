"""Bfloat16 parameters under optimizers that have another one step, beside float32 copies kept by hand; prints both."""

from __future__ import annotations

import json
import os
import sys

import torch
import torch.distributed as dist
from torch import nn

RATE = 1e-3
READINGS = torch.randn(12, 4, 8, generator=torch.Generator().manual_seed(1)).bfloat16()


class Averaging(torch.optim.Optimizer):
    """Lookahead: each step of another, then halfway back to where it was."""

    def __init__(self, inner):
        super().__init__(inner.param_groups, {})
        self.inner = inner

    @torch.no_grad()
    def step(self, closure=None):
        before = [p.clone() for group in self.param_groups for p in group["params"]]
        loss = self.inner.step(closure)
        for p, old in zip((p for group in self.param_groups for p in group["params"]), before, strict=True):
            p.lerp_(old, 0.5)
        return loss


class Ascending(torch.optim.Optimizer):
    """Sharpness-aware: the gradient is that of a place a little up the slope."""

    def __init__(self, inner):
        super().__init__(inner.param_groups, {})
        self.inner = inner

    @torch.no_grad()
    def step(self, closure):
        closure = torch.enable_grad()(closure)
        loss = closure()
        parameters = [p for group in self.param_groups for p in group["params"]]
        before = [p.data.clone() for p in parameters]
        for p in parameters:
            p.add_(p.grad, alpha=0.05)
        self.zero_grad()
        closure()
        for p, old in zip(parameters, before, strict=True):
            p.data = old
        self.inner.step()
        self.zero_grad()
        return loss


class Failing(torch.optim.SGD):
    """Each second step fails before it has changed anything."""

    count = 0

    def step(self, closure=None):
        self.count += 1
        if self.count % 2 == 0:
            raise ArithmeticError
        return super().step(closure)


def net() -> nn.Linear:
    torch.manual_seed(0)
    return nn.Linear(8, 8, bias=False).bfloat16()


def backward(model, x):
    loss = model(x).float().square().mean()
    loss.backward()
    return loss


def plain(model, make, steps=READINGS, between=None):
    optimizer = make(model.parameters())
    for x in steps:
        optimizer.zero_grad()
        backward(model, x)
        try:
            optimizer.step()
        except ArithmeticError:
            pass
        if between is not None:
            between(model)
    return model


def by_hand(factor=1.0, every=1, ascent=0.0, between=None):
    model = net()
    copy = model.weight.detach().float()
    for count, x in enumerate(READINGS):
        model.weight.grad = None
        backward(model, x)
        if ascent:
            model.weight.data.copy_(copy + ascent * model.weight.grad.float())
            model.weight.grad = None
            backward(model, x)
        if count % every == 0:
            new = copy - RATE * model.weight.grad.float()
            copy = new.lerp(copy, 1 - factor) if factor != 1 else new
        model.weight.data.copy_(copy)
        if between is not None:
            between(model)
            copy = torch.where(model.weight.detach() == copy.bfloat16(), copy, model.weight.detach().float())
    return model


def averaged():
    return plain(net(), lambda p: Averaging(torch.optim.SGD(p, RATE))), by_hand(factor=0.5)


def ascended():
    model = net()
    optimizer = Ascending(torch.optim.SGD(model.parameters(), RATE))
    for x in READINGS:
        optimizer.step(lambda x=x: backward(model, x))
    return model, by_hand(ascent=0.05)


def failed():
    return plain(net(), lambda p: Failing(p, RATE)), by_hand(every=2)


def written():
    """The program itself writes into the weights between two steps."""

    def halve(model):
        with torch.no_grad():
            model.weight[0] *= 0.5

    return plain(net(), lambda p: torch.optim.SGD(p, RATE), between=halve), by_hand(between=halve)


def sharded(bucket_view):
    """Two layers, one updated by each process, that then sends it to the other."""
    from torch.distributed.optim import ZeroRedundancyOptimizer

    dist.init_process_group("gloo")
    model = nn.Sequential(net(), net())
    optimizer = ZeroRedundancyOptimizer(
        model.parameters(), torch.optim.SGD, lr=RATE, parameters_as_bucket_view=bucket_view
    )
    plain(model, lambda p: optimizer)
    right = nn.Sequential(net(), net())
    copies = [p.detach().float() for p in right.parameters()]
    for x in READINGS:
        right.zero_grad()
        backward(right, x)
        for p, copy in zip(right.parameters(), copies, strict=True):
            copy -= RATE * p.grad.float()
            p.data.copy_(copy)
    everywhere = [None, None]
    dist.all_gather_object(everywhere, told(model))
    dist.destroy_process_group()
    if os.environ["RANK"] != "0":
        sys.exit()
    assert everywhere[0] == everywhere[1]
    return model, right


def fully_sharded():
    """Parameters that are DTensors, which no float32 copy can stand in for."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    model = net()
    fully_shard(model, mesh=init_device_mesh("cpu", (1,)))
    plain(model, lambda p: torch.optim.AdamW(p, RATE))
    weight = model.weight.full_tensor()
    dist.destroy_process_group()
    whole = net()
    whole.weight.data.copy_(weight)
    return whole, whole


def told(model):
    assert {p.dtype for p in model.parameters()} == {torch.bfloat16}
    return [each for p in model.parameters() for each in p.flatten().tolist()]


JOBS = {
    "averaged": averaged,
    "ascended": ascended,
    "failed": failed,
    "written": written,
    "fully-sharded": fully_sharded,
    "sharded": lambda: sharded(False),
    "bucket-view": lambda: sharded(True),
}
trained, right = JOBS[sys.argv[1]]()
print(json.dumps([told(trained), told(right)]))
