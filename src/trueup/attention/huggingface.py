"""Flash attention of Hugging Face models in one graph, and another kernel where the one asked for cannot serve."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

from trueup.attention.fallback import LENGTH, MISSING, OwnChoice, choose
from trueup.attention.order import Choice
from trueup.instrument import inside


class FallbackWarning(UserWarning):
    """A model runs another attention kernel than it was asked for."""


def register_attention() -> tuple[str, ...]:
    """Register `trueup_flash_attention_2`, `_3` and `_4` with transformers: the names to ask for.

    They run the kernels of flash_attention_2, 3 and 4. Under torch.compile their blocks share one graph, however many
    layers there are, and masks with padding break none. A batch of a single row needs the boundaries of its documents
    as arguments, from `trueup.attention.packed` or `use_attention`: whether its positions restart cannot be asked in a
    graph. Raises ImportError for a transformers without AttentionInterface.
    """
    inside.make_importable()
    from trueup_instrument.bridging import implementations

    return implementations.register()


def use_attention(
    model: Any,
    implementation: str = "flash_attention_2",
    *,
    fallback: bool = False,
    order: Sequence[str] | None = None,
    length: int = LENGTH,
) -> Choice:
    """Have a Hugging Face model run `implementation`, or say why it cannot. Call it when dtype and device are set.

    For flash_attention_2, 3 and 4 it is the function of `register_attention`; what their kernel asks of values is asked
    before each call of the model, outside of what is compiled per block. Where the model itself is compiled as a whole
    the batch has to bring the boundaries of a single row (`trueup.attention.packed`).

    `fallback`: where the kernel cannot serve the model, take the best of those that can: by `order` (names of kernels,
    the best first), else as `trueup attention bench --save` measured it here for rows of `length` tokens, else by
    generation of the GPU. It is told as a FallbackWarning, in the record of an observed run, and by the Choice that is
    returned. Without it a kernel that cannot serve raises ValueError with the reason.
    """
    choice, chosen = choose(model, implementation, order, length)
    if chosen is None or (choice.actual != choice.requested and not fallback):
        hint = f"; fallback=True takes {choice.actual}" if chosen is not None else ""
        raise ValueError(f"{implementation} cannot serve {type(model).__name__}: {choice.reason}{hint}")
    if isinstance(chosen, OwnChoice):
        register_attention()
        _prepare(model)
    model.set_attn_implementation(chosen.name)
    if choice.actual != choice.requested:
        _tell(model, choice)
    return choice


def _prepare(model: Any) -> None:
    """Ask before each eager call of the model what its attention would ask of values."""
    from trueup_instrument.bridging.rows import Rows

    if getattr(model, "_trueup_rows", None) is not None:
        return
    import torch

    rows = Rows()

    def before(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Any]:
        if torch.compiler.is_compiling():
            return args, kwargs
        return args, rows.prepared(module, args, kwargs)[0]

    model._trueup_rows = rows
    model.register_forward_pre_hook(before, with_kwargs=True)


def _tell(model: Any, choice: Choice) -> None:
    inside.make_importable()
    import trueup_instrument

    name = type(model).__name__
    session = trueup_instrument.current
    if session is not None:
        told = {"requested": choice.requested, "actual": choice.actual or MISSING, "reason": choice.reason}
        session.write("fallback", **told, model=name)
    warnings.warn(
        f"{name} runs {choice.actual} in place of {choice.requested}: {choice.reason}", FallbackWarning, stacklevel=3
    )
