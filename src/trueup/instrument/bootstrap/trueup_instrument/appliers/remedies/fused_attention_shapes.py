"""Inputs of scaled_dot_product_attention have shapes that fused kernels take: four dimensions, rows in one piece, and
queries, keys and values of one size."""

from __future__ import annotations

from trueup_instrument.appliers.attention_calls import change_attention, runs_math, tells

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from trueup_instrument.appliers.switch import Switch


def attach(switch: Switch) -> None:
    change_attention(switch, lambda original, torch: _shaped(switch, original, torch))


def _shaped(switch: Switch, original: Callable[..., Any], torch: Any) -> Callable[..., Any]:
    tell = tells(switch, "attention inputs given four dimensions, rows in one piece and one size")

    def attention(
        query: Any,
        key: Any,
        value: Any,
        attn_mask: Any = None,
        dropout_p: float = 0.0,
        is_causal: bool = False,
        **options: Any,
    ) -> Any:
        given, rest = (query, key, value, attn_mask), (dropout_p, is_causal)
        four = _four(query), _four(key), _four(value)
        changed = {**options}
        sized = _one_size(torch, four, changed) if query.device.type == "cpu" or not _traced(torch) else four
        shaped = *sized, _four_of(attn_mask, query.dim())
        fits = all(one is other for one, other in zip(given, shaped, strict=True))
        if fits or runs_math(torch, given, rest, options) is False or runs_math(torch, shaped, rest, changed):
            return original(*given, *rest, **options)
        tell()
        result = original(*shaped, *rest, **changed)[..., : value.shape[-1]]
        return result.reshape(*query.shape[:-1], value.shape[-1])

    return attention


def _traced(torch: Any) -> bool:
    """True in a graph, where nobody can ask which kernel would run: on a GPU one of them takes values of any size."""
    return bool(torch.compiler.is_compiling())


def _one_size(torch: Any, inputs: tuple[Any, Any, Any], options: dict[str, Any]) -> tuple[Any, Any, Any]:
    """Query, key and value of the larger size, filled up with zeros, which add nothing to scores or results.

    The scale in `options` stays that of the size given.
    """
    query, key, value = inputs
    size, of_value = query.shape[-1], value.shape[-1]
    pad = torch.nn.functional.pad
    if of_value < size:
        return query, key, pad(value, (0, size - of_value))
    if of_value > size:
        if options.get("scale") is None:
            options["scale"] = size**-0.5
        return pad(query, (0, of_value - size)), pad(key, (0, of_value - size)), value
    return inputs


def _four(tensor: Any) -> Any:
    """(length, size) and (heads, length, size) as (heads, 1, length, size); the last dimension contiguous."""
    if tensor.stride(-1) != 1:
        tensor = tensor.contiguous()
    if tensor.dim() == 2:
        return tensor[None, None]
    return tensor[:, None] if tensor.dim() == 3 else tensor


def _four_of(mask: Any, dimensions: int) -> Any:
    """A mask of three dimensions has batch (or batch times heads) before its rows, beside inputs of four the heads."""
    if mask is None or mask.dim() != 3:
        return mask
    return mask[:, None] if dimensions == 3 else mask[None]
