"""A training job that makes as many steps as each line of its input says, and answers with what each of them took.

Kinds: `tiny`, steps of less than a millisecond; `loop`, as small, with a loader, autocast, checkpointing, a scaler and
a schedule; `eager` and `compiled`, a small Llama.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import torch

Step = Callable[[], torch.Tensor]


def small_model() -> tuple[torch.nn.Module, torch.optim.Optimizer]:
    model = torch.nn.Sequential(*(torch.nn.Linear(64, 64) for _ in range(3)))
    return model, torch.optim.AdamW(model.parameters(), lr=1e-3)


def tiny() -> Step:
    model, optimizer = small_model()
    batch = torch.randn(16, 64)

    def step() -> torch.Tensor:
        loss: torch.Tensor = model(batch).pow(2).mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss

    return step


def loop() -> Step:
    model, optimizer = small_model()
    scaler = torch.amp.GradScaler("cpu")
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1000)
    data = torch.utils.data.TensorDataset(torch.randn(4096, 64))

    def batches() -> Iterator[Any]:
        while True:
            yield from torch.utils.data.DataLoader(data, batch_size=16)

    loader = batches()

    def step() -> torch.Tensor:
        (batch,) = next(loader)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss: torch.Tensor = torch.utils.checkpoint.checkpoint(model, batch, use_reentrant=False).pow(2).mean()
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        schedule.step()
        optimizer.zero_grad()
        return loss

    return step


def llama(compiled: bool) -> Step:
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=1024,
        hidden_size=256,
        intermediate_size=512,
        num_hidden_layers=6,
        num_attention_heads=4,
        num_key_value_heads=4,
        use_cache=False,
    )
    model = LlamaForCausalLM(config)
    if compiled:
        for block in model.model.layers:
            block.compile()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

    def step() -> torch.Tensor:
        ids = torch.randint(0, 1024, (4, 64))
        loss: torch.Tensor = model(input_ids=ids, labels=ids).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss

    return step


KINDS: dict[str, Callable[[], Step]] = {
    "tiny": tiny,
    "loop": loop,
    "eager": lambda: llama(compiled=False),
    "compiled": lambda: llama(compiled=True),
}


def timed(step: Step, count: int) -> dict[str, Any]:
    """Seconds of each step on the wall and on the processor, its loss, and the graphs that there are after the last."""
    wall, cpu, losses = [], [], []
    for _ in range(count):
        began, worked = time.perf_counter(), time.thread_time()
        loss = step()
        cpu.append(time.thread_time() - worked)
        wall.append(time.perf_counter() - began)
        losses.append(loss.item())
    dynamo = sys.modules.get("torch._dynamo.utils")
    graphs = dynamo.counters["stats"]["unique_graphs"] if dynamo is not None else 0
    return {"wall": wall, "cpu": cpu, "losses": losses, "graphs": graphs}


def prepared(kind: str) -> Step:
    torch.manual_seed(0)
    torch.set_num_threads(1)
    return KINDS[kind]()


if __name__ == "__main__":
    made = prepared(sys.argv[1])
    for line in sys.stdin:
        print(json.dumps(timed(made, int(line))), flush=True)
