"""flash-attn before 2.7, bridged: what its operators are, and whether graphs compute what its own functions compute.

Prints one line of JSON.
"""

import json
import math

import flash_attn
import torch
from flash_attn import flash_attn_interface as library
from torch.utils.checkpoint import CheckpointPolicy, checkpoint, create_selective_checkpoint_contexts

from trueup.attention import bridge_libraries

STARTS = torch.tensor([0, 3, 8, 16], dtype=torch.int32)
FUNCTIONS = ("rows", "documents", "packed", "grouped")


def rows(q, k, v):
    return library.flash_attn_func(q * 1.0, k, v, causal=True)


def documents(q, k, v):
    """The boundaries are one tensor, given twice."""
    q, k, v = (each.flatten(0, 1) for each in (q * 1.0, k, v))
    return library.flash_attn_varlen_func(q, k, v, STARTS, STARTS, 8, 8, causal=True, window_size=(4, 0))


def packed(q, k, v):
    return library.flash_attn_qkvpacked_func(torch.stack((q, q + k.repeat_interleave(2, 2), q * 2), 2))


def grouped(q, k, v):
    """One query a row: the kernel takes the heads of a group for the rows of one."""
    return library.flash_attn_func(q[:, :1] * 1.0, k, v)


def inputs(size):
    torch.manual_seed(0)
    return [torch.randn(2, 8, heads, size, dtype=torch.bfloat16, requires_grad=True) for heads in (4, 2, 2)]


def results(call, size=16):
    given = inputs(size)
    out = call(*given)
    out.float().square().sum().backward()
    return [out.detach(), *(each.grad for each in given if each.grad is not None)]


def same(found, expected):
    return len(found) == len(expected) and all(torch.equal(a, b) for a, b in zip(found, expected, strict=True))


def compiled(call, backend="aot_eager"):
    torch._dynamo.reset()
    return torch.compile(call, backend=backend, fullgraph=True)


def checks():
    scale = 1 / math.sqrt(16)
    q, k, v = (each.detach() for each in inputs(16))
    settings = (0.0, scale, True, -1, -1, 0.0, None)
    operators = torch.ops.flash_attn
    out, lse, _, state = operators._flash_attn_forward(q, k, v, *settings, False)
    flat = [each.flatten(0, 1) for each in (q, k, v)]
    lengths = (STARTS, STARTS, 8, 8)
    many = operators._flash_attn_varlen_forward(*flat, *lengths, *settings, False, None, None, None)
    calls = {
        "_flash_attn_forward": (q, k, v, *settings, False),
        "_flash_attn_varlen_forward": (*flat, *lengths, *settings, False, None, None, None),
        "trueup_flash_attn_backward": (out, q, k, v, out, lse, *settings, False, state),
        "trueup_flash_attn_varlen_backward": (
            many[0], *flat, many[0], many[1], *lengths, *settings, False, many[3]
        ),
    }  # fmt: skip
    return {
        name: sorted(set(torch.library.opcheck(getattr(operators, name).default, arguments).values()))
        for name, arguments in calls.items()
    }


def policy(context, operator, *args, **kwargs):
    kept = operator is torch.ops.flash_attn._flash_attn_forward.default
    return CheckpointPolicy.MUST_SAVE if kept else CheckpointPolicy.PREFER_RECOMPUTE


def contexts():
    return create_selective_checkpoint_contexts(policy)


def saved(q, k, v):
    return checkpoint(rows, q, k, v, use_reentrant=False, context_fn=contexts)


def recomputed(q, k, v):
    return checkpoint(rows, q, k, v, use_reentrant=False)


def kernel_runs(call):
    """How often the forward kernel runs in a forward and backward pass."""
    extension = library.flash_attn_cuda
    ran = []

    class Counting:
        def __getattr__(self, name):
            if name == "fwd":
                ran.append(1)
            return getattr(extension, name)

    library.flash_attn_cuda = Counting()
    try:
        results(call)
    finally:
        library.flash_attn_cuda = extension
    return len(ran)


def main():
    before = {(name, size): results(globals()[name], size) for name in FUNCTIONS for size in (16, 12)}
    bridged = bridge_libraries()
    again = bridge_libraries()
    told = {
        "version": flash_attn.__version__,
        "bridged": bridged,
        "again": again,
        "eager": [key for key, expected in before.items() if not same(results(globals()[key[0]], key[1]), expected)],
        "graphs": [
            key for key, expected in before.items() if not same(results(compiled(globals()[key[0]]), key[1]), expected)
        ],
        "inductor": same(results(compiled(documents, "inductor")), before["documents", 16]),
        "opcheck": checks(),
        "runs": {
            "eager": [kernel_runs(saved), kernel_runs(recomputed)],
            "graphs": [kernel_runs(compiled(saved)), kernel_runs(compiled(recomputed))],
        },
    }
    print(json.dumps(told))


if __name__ == "__main__":
    main()
