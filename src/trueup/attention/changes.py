"""What a caller can change so that a kernel serves: each says it, and does it to the values of a call."""

from __future__ import annotations

from dataclasses import replace

from trueup.attention.call import Call, Dtype, Mask
from trueup.attention.constraints import Change


def cast(*dtypes: Dtype) -> Change:
    """To the first of these dtypes."""
    return Change(
        words=f"cast queries, keys and values to {dtypes[0]}",
        apply=lambda call: replace(call, dtype=dtypes[0], mask=replace(call.mask, dtype=None)),
        exact=False,
    )


def drop_plain_mask(call: Call) -> Change | None:
    """For a tensor that hides nothing, or what `is_causal` says."""
    if call.mask.traced and call.mask.is_plain:
        return Change(
            words="compile each block instead of the whole model: the mask is then made outside of the graph",
            apply=lambda call: replace(call, mask=Mask(kind="causal")),
        )
    if call.mask.kind == "all-ones":
        return Change(words="drop the all-ones mask", apply=lambda call: replace(call, mask=Mask()))
    if call.mask.kind == "causal-tensor":
        return Change(
            words="pass is_causal=True instead of the causal mask",
            apply=lambda call: replace(call, mask=Mask(kind="causal")),
        )
    return None


def expand_heads(call: Call) -> Change | None:
    """Repeats keys and values for the queries of their group."""
    heads = (call.key_heads, call.value_heads)
    if call.rank < 3 or not all(heads) or any(call.heads % each for each in heads):
        return None
    return Change(
        words=f"repeat the heads of keys and values to {call.heads} (repeat_interleave), without enable_gqa",
        apply=lambda call: replace(
            call,
            key=(*call.key[:-3], call.heads, *call.key[-2:]),
            value=(*call.value[:-3], call.heads, *call.value[-2:]),
            enable_gqa=False,
        ),
    )


def enable_gqa(call: Call) -> Change | None:
    """The flag alone: nothing is copied."""
    heads = {call.key_heads, call.value_heads}
    if call.enable_gqa or len(heads) > 1 or not all(heads) or call.heads % call.key_heads:
        return expand_heads(call)
    return Change(words="pass enable_gqa=True", apply=lambda call: replace(call, enable_gqa=True))


def pad_sizes(call: Call, multiple: int = 1) -> Change | None:
    """Queries, keys and values of one head size, filled up with zeros, which change no result."""
    if call.key[-1] != call.head_size:
        return None
    size = -(-max(call.head_size, call.value_size) // multiple) * multiple
    return Change(
        words=f"pad queries, keys and values with zeros to head size {size}, keep the scale, cut the result",
        apply=lambda call: replace(
            call,
            query=(*call.query[:-1], size),
            key=(*call.key[:-1], size),
            value=(*call.value[:-1], size),
        ),
    )


def no_dropout(call: Call) -> Change:
    return Change(words="dropout_p=0.0 in attention", apply=lambda call: replace(call, dropout=0.0), exact=False)


def four_dimensions(call: Call) -> Change | None:
    """(heads, length, size) and (length, size) with leading dimensions of one."""
    if call.rank not in (2, 3) or {len(call.key), len(call.value)} != {call.rank}:
        return None
    missing = (1,) * (4 - call.rank)
    words = "unsqueeze queries, keys and values to (batch, heads, length, head size)"

    def apply(call: Call) -> Call:
        shape = call.mask.shape
        heads = None if shape is None or len(shape) != 3 else (1, *shape)
        return replace(
            call,
            query=(*missing, *call.query),
            key=(*missing, *call.key),
            value=(*missing, *call.value),
            mask=replace(call.mask, shape=heads or shape),
        )

    return Change(words=words, apply=apply)


def contiguous(call: Call) -> Change:
    return Change(
        words=".contiguous() on what has another stride than 1 in its last dimension",
        apply=lambda call: replace(call, contiguous=True, mask=replace(call.mask, contiguous=True)),
    )


def switch_on(kernel: str, how: str) -> Change:
    def apply(call: Call) -> Call:
        return replace(call, place=replace(call.place, disabled=call.place.disabled - {kernel}))

    return Change(words=how, apply=apply, exact=False)


def compile_it(call: Call) -> Change:
    return Change(words="torch.compile(flex_attention)", apply=lambda call: replace(call, compiled=True))


def four_dimensional_mask(call: Call) -> Change | None:
    """(heads, length, length) with a batch of one before it; a mask of a gradient stays as it is."""
    shape = call.mask.shape
    if shape is None or len(shape) != 3 or call.mask.requires_grad or call.rank != 4:
        return None
    return Change(
        words="unsqueeze the mask to 4 dimensions",
        apply=lambda call: replace(call, mask=replace(call.mask, shape=(1, *shape))),
    )
