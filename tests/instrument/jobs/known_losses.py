"""Jobs that tell the loss and the gradient norm of each optimizer step themselves."""

import os

import models
import torch
from torch import nn

STEPS = 6


def batch():
    return torch.randint(0, 16, (2, 7))


def norm(*parts):
    gradients = [p.grad for part in parts for p in part.parameters() if p.grad is not None]
    return float(torch.linalg.vector_norm(torch.stack([torch.linalg.vector_norm(g) for g in gradients])))


def plain():
    model = models.Model()
    optimizer = torch.optim.AdamW(model.parameters())
    losses, norms = [], []
    for _ in range(STEPS):
        loss = models.loss_of(model, batch())
        loss.backward()
        losses.append(float(loss.detach()))
        norms.append(norm(model))
        optimizer.step()
        optimizer.zero_grad()
        loss.detach().zero_()  # programs reuse the tensor
    return {"losses": losses, "norms": norms, "backwards": 1}


def accumulated():
    model = models.Model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    losses, norms = [], []
    for _ in range(STEPS):
        total = 0.0
        for _ in range(3):
            loss = models.loss_of(model, batch()) / 3
            loss.backward()
            total += float(loss.detach())
        losses.append(total)
        norms.append(norm(model))
        optimizer.step()
        optimizer.zero_grad()
    return {"losses": losses, "norms": norms, "backwards": 3}


def scaled(fused=False, overflows=0):
    """The scaler leaves out the optimizer steps whose gradients are infinite: here the first ones."""
    model = models.Model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, fused=fused)
    scaler = torch.amp.GradScaler("cpu")
    losses, norms = [], []
    for number in range(overflows + STEPS):
        loss = models.loss_of(model, batch())
        if number < overflows:
            loss = loss * float("inf")
        scaler.scale(loss).backward()
        if number >= overflows:
            losses.append(float(loss.detach()))
            norms.append(norm(model) / scaler.get_scale())
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
    return {"losses": losses, "norms": norms, "backwards": 1, "scale": scaler.get_scale()}


def two_optimizers():
    """Each has a half of one model, and one loss."""
    model = models.Model()
    halves = [model.blocks, nn.ModuleList([model.embedding, model.head])]
    optimizers = [torch.optim.SGD(half.parameters(), lr=0.1) for half in halves]
    losses, norms = [], []
    for _ in range(STEPS):
        loss = models.loss_of(model, batch())
        loss.backward()
        losses.append(float(loss.detach()))
        norms.append(norm(model))
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad()
    return {"losses": losses, "norms": norms, "backwards": 1}


def in_turn():
    """As in a GAN: two models, each with a loss and an optimizer of its own, one after the other."""
    found, forger = models.Model(), models.Model()
    optimizers = {model: torch.optim.Adam(model.parameters()) for model in (found, forger)}
    losses, norms = [], []
    for _ in range(STEPS):
        total = squares = 0.0
        for model, optimizer in optimizers.items():
            loss = models.loss_of(model, batch())
            loss.backward()
            total += float(loss.detach())
            squares += norm(model) ** 2
            optimizer.step()
            optimizer.zero_grad()
        losses.append(total)
        norms.append(squares**0.5)
    return {"losses": losses, "norms": norms, "backwards": 2}


def one_after_the_other():
    """A second optimizer takes over after the first; the second phase counts on."""
    model = models.Model()
    losses, norms = [], []
    for kind in (torch.optim.SGD, torch.optim.Adam):
        optimizer = kind(model.parameters(), lr=0.01)
        for _ in range(STEPS):
            loss = models.loss_of(model, batch())
            loss.backward()
            losses.append(float(loss.detach()))
            norms.append(norm(model))
            optimizer.step()
            optimizer.zero_grad()
        del optimizer
    return {"losses": losses, "norms": norms, "backwards": 1}


def compiled_update():
    """The optimizer step is a compiled function, which calls no hooks; two backward passes for each."""
    model = models.Model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    update = torch.compile(optimizer.step, backend="aot_eager")
    losses = []
    for _ in range(STEPS):
        total = 0.0
        for _ in range(2):
            loss = models.loss_of(model, batch()) / 2
            loss.backward()
            total += float(loss.detach())
        losses.append(total)
        update()
        optimizer.zero_grad()
    return {"losses": losses, "norms": None, "backwards": 2}


def sharded():
    """Two ranks: the norm is that of all shards, the loss that of the first rank."""
    from torch.distributed.fsdp import fully_shard

    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{os.environ['STORE']}", rank=int(os.environ["RANK"]), world_size=2
    )
    model = models.Model()
    for block in model.blocks[:2]:  # the others are shards of the root
        fully_shard(block)
    fully_shard(model)
    optimizer = torch.optim.AdamW(model.parameters())
    losses, norms = [], []
    for _ in range(STEPS):
        loss = models.loss_of(model, batch())
        loss.backward()
        losses.append(float(loss.detach()))
        norms.append(float(nn.utils.clip_grad_norm_(model.parameters(), 1e9).full_tensor()))
        optimizer.step()
        optimizer.zero_grad()
    return {"losses": losses, "norms": norms, "backwards": 1}
