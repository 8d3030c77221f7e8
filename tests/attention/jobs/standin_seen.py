"""What a profiler, a dispatch mode and autocast meet of the stand-in's computation. One line of JSON."""

import json
import sys

import flash_attn
import torch
from torch.profiler import profile
from torch.utils._python_dispatch import TorchDispatchMode

q = torch.randn(2, 70, 4, 64, dtype=torch.bfloat16)
dispatched: list[str] = []


class Recorded(TorchDispatchMode):
    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        dispatched.append(function.name())
        return function(*args, **(kwargs or {}))


def call() -> torch.Tensor:
    return flash_attn.flash_attn_func(q, q, q, causal=True)


plain = call()
with profile() as profiled:
    call()
with Recorded():
    call()
with torch.autocast("cpu", dtype=torch.bfloat16):
    autocast = call()
names = sorted({event.name for event in profiled.events() if event.name.startswith("aten::")})
json.dump(
    {"profiled": names, "dispatched": dispatched, "equal under autocast": torch.equal(plain, autocast)}, sys.stdout
)
