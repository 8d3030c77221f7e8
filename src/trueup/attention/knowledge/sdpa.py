"""What the kernels of scaled_dot_product_attention have in common, on CPUs and on GPUs."""

from __future__ import annotations

from trueup.attention import changes, limits
from trueup.attention.call import Call, Version
from trueup.attention.constraints import Change, Constraint, Source
from trueup.attention.knowledge.sources import page

FUNCTION = page(
    "https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.scaled_dot_product_attention.html", "torch 2.13"
)
NO_ARGUMENT = (
    limits.without(FUNCTION, "softcap", "softcap"),
    limits.without(FUNCTION, "sinks", "attention sinks"),
    limits.without(FUNCTION, "alibi", "alibi, but as a float mask"),
)
"""What the function cannot be asked for, whatever the kernel."""
SWITCHES = {
    "flash": "torch.backends.cuda.enable_flash_sdp(True)",
    "efficient": "torch.backends.cuda.enable_mem_efficient_sdp(True)",
    "math": "torch.backends.cuda.enable_math_sdp(True)",
    "cudnn": "torch.backends.cuda.enable_cudnn_sdp(True)",
}
"""Kernel → what switches it on for the process."""


def switched_on(kernel: str, source: Source) -> Constraint:
    return Constraint(
        about="switch",
        needs="switched on",
        holds=lambda call: kernel not in call.place.disabled,
        given=lambda call: f"{kernel} is switched off",
        change=lambda call: changes.switch_on(kernel, f"{SWITCHES[kernel]}, or name it in sdpa_kernel([...])"),
        source=source,
    )


def dense_heads(source: Source, grouped_since: Version | None, mixed: bool = False) -> Constraint:
    """One batch size, and the heads of queries, keys and values alike, or with enable_gqa grouped.

    `grouped_since`: the release of torch from which on this kernel takes groups, None for never; `mixed`: also when
    keys and values have different numbers of heads.
    """

    def groups(call: Call) -> bool:
        return grouped_since is not None and call.place.torch >= grouped_since

    def holds(call: Call) -> bool:
        if call.enable_gqa and groups(call):
            alike = call.key_heads == call.value_heads or mixed
            kv = (call.key_heads, call.value_heads)
            return alike and all(kv) and not any(call.heads % each for each in kv)
        return not call.is_grouped

    def change(call: Call) -> Change | None:
        return changes.enable_gqa(call) if groups(call) else changes.expand_heads(call)

    return Constraint(
        about="heads",
        needs="as many heads of keys and values as of queries" + _grouped_in_words(grouped_since),
        holds=holds,
        given=limits.heads,
        change=change,
        source=source,
    )


def _grouped_in_words(since: Version | None) -> str:
    return f", or enable_gqa with torch {'.'.join(map(str, since))} or newer" if since else ""


def mask_shape(source: Source) -> Constraint:
    """A tensor that needs no gradient, of 2 or 4 dimensions, each of its own size or 1."""

    def holds(call: Call) -> bool:
        if not call.mask.is_tensor:
            return True
        if call.mask.requires_grad:
            return False
        shape = call.mask_shape
        if len(shape) not in (2, 4) or call.rank != 4:
            return len(shape) in (2, 4)
        full = (call.batch, call.heads, call.length, call.key_length)[-len(shape) :]
        return all(size in (1, whole) for size, whole in zip(shape, full, strict=True))

    def given(call: Call) -> str:
        return "a mask that requires a gradient" if call.mask.requires_grad else f"a mask of shape {call.mask_shape}"

    def change(call: Call) -> Change | None:
        return changes.drop_plain_mask(call) or changes.four_dimensional_mask(call)

    return Constraint(
        about="mask",
        needs="a mask of 2 or 4 dimensions that requires no gradient",
        holds=holds,
        given=given,
        change=change,
        source=source,
    )


def lengths(source: Source) -> Constraint:
    return Constraint(
        about="length",
        needs="more than no queries, keys and values",
        holds=lambda call: call.length > 0 and call.key_length > 0,
        given=lambda call: f"{call.length} queries, {call.key_length} keys",
        source=source,
    )


def not_nested(source: Source) -> Constraint:
    return Constraint(
        about="layout",
        needs="dense tensors",
        holds=lambda call: not call.nested,
        given=lambda call: "nested tensors",
        source=source,
    )
