"""Attention kernels that torch.compile cannot look into, as operators: any function, and the known libraries."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from trueup.instrument import inside


def bridge(
    function: Callable[..., Any],
    *,
    name: str | None = None,
    backward: Callable[..., Any] | None = None,
    fake: Callable[..., Any] | None = None,
    arguments: Mapping[str, str] | None = None,
    differentiable: Sequence[str] | None = None,
    outputs: int = 1,
) -> Callable[..., Any]:
    """`function`, as one operator of torch.library where Dynamo, a selective checkpoint or FakeTensorMode look.

    An eager call is the function's own, with what a question costs (docs/performance.md); within a graph there is one
    node, `trueup::<name>`, no graph break, a gradient, and shapes known beforehand. A policy of selective checkpointing
    names the operator `torch.ops.trueup.<name>.default`.

    `function(query, key, value, ...)` returns its output, or a tuple of `outputs` tensors with the output first, none
    of which shares memory with an argument. Of all results only the first has a gradient.

    `name`: of the operator, `kernel` or `library::kernel`; the function's own by default.

    `backward(grad, *results, *arguments)` returns the gradients of the `differentiable` arguments: by default of the
    first three tensors. Without it the gradient is the function's own, and the operator's backward computes the
    function once more for it: an operator can keep no graph of autograd. A kernel that makes no such graph needs it.

    `fake(*arguments)` returns empty tensors of the shapes and dtypes of the results. Without it the output is
    contiguous, shaped like the query with the head size of the value; what the kernel returns is compared with that.

    `arguments`: kinds of those that neither annotation nor default tells, as in `{"softmax_scale": "float?"}`. A
    parameter without both is a tensor.

    Raises ValueError (CannotBridge) for what cannot be an operator, and says what to give.
    """
    inside.make_importable()
    from trueup_instrument.bridging import functions

    return functions.bridge(
        function,
        name=name,
        backward=backward,
        fake=fake,
        arguments=arguments,
        differentiable=differentiable,
        outputs=outputs,
    )


def bridge_libraries() -> dict[str, list[str]]:
    """Bridge flash-attn before 2.7, FlashAttention 3 and 4 without operators and xformers, as far as they are imported.

    Their own entry points are replaced, so that functions taken from them before are bridged too. Returns module →
    names of what was bridged; a library that registers operators itself is left as it is. Raises RuntimeError where a
    library is of a kind that is not known, and says what is different.
    """
    inside.make_importable()
    import torch
    from trueup_instrument.bridging import libraries

    done: dict[str, list[str]] = {}
    for name, (bridged, why) in libraries.installed(torch, sys.modules).items():
        if why and "operators of its own" not in why:
            raise RuntimeError(f"{name} cannot be bridged: {why}")
        done[name] = bridged
    return done
