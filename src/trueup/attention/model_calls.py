"""What transformers makes of a call before its kernel sees it: masks, grouped heads, casts (5.24, causal decoders).

A decoder hides the future by itself: the kinds of mask are what it is given besides. `document` is told by position ids
with neither a mask nor a cache beside them: with either, transformers takes the row for one text. Held against the real
library by tests/attention/test_predict_models.py; lines are those of transformers 5.24.
"""

from __future__ import annotations

from dataclasses import replace

from trueup.attention.call import Call, Mask

LEAVES_MASKS_OUT_OF_GRAPHS_SINCE = (2, 14)
"""Release of torch before which a model that is compiled as a whole always gets a mask (masking_utils.py:280)."""


def sdpa(call: Call) -> Call:
    """integrations/sdpa_attention.py:73 and masking_utils.py:274."""
    mask = _shown(call, _causal_or(call))
    if mask.is_tensor and mask.shape is None:
        mask = replace(mask, shape=(call.batch, 1, call.length, call.key_length))
    given = replace(call, mask=mask, causal=False)
    if not call.is_grouped:
        return given
    if not mask.is_tensor and call.key[-1] == call.value_size <= 256:
        return replace(given, enable_gqa=True)
    if call.length == 1 and not call.compiled:
        return _packed(given)
    return _expanded(given)


def eager(call: Call) -> Call:
    """models/llama/modeling_llama.py:180"""
    return _expanded(replace(call, mask=Mask(kind="float"), causal=False))


def flash(call: Call) -> Call:
    """integrations/flash_attention.py:26 and masking_utils.py:639: padding and documents become lengths."""
    mask = _causal_or(call)
    if mask.kind in ("all-ones", "causal-tensor"):
        mask = Mask(kind="causal")
    if mask.kind == "window" and call.key_length <= (mask.window or 0):
        mask = Mask(kind="causal")
    value = call.value
    if call.value_size < call.head_size:
        value = (*call.value[:-1], call.head_size)
    return replace(call, mask=mask, value=value, causal=False, enable_gqa=False)


def flash_without_dropout(call: Call) -> Call:
    """FlashAttention 3 and 4 take no dropout, and transformers then passes none (a warning at load time says so)."""
    return replace(flash(call), dropout=0.0)


def flex(call: Call) -> Call:
    """integrations/flex_attention.py:247: compiled by transformers itself, with a block mask."""
    given = replace(call, mask=_causal_or(call), causal=False, compiled=True, enable_gqa=True)
    power_of_two = call.heads & (call.heads - 1) == 0
    return given if power_of_two else replace(_expanded(given), compiled=True)


def _causal_or(call: Call) -> Mask:
    """The mask, which for a decoder is causal where none is given."""
    return Mask(kind="causal") if call.mask.kind == "none" else call.mask


def _shown(call: Call, mask: Mask) -> Mask:
    """`is_causal` for what it can say, else the tensor (`_ignore_causal_mask_sdpa`)."""
    if call.compiled and call.place.torch < LEAVES_MASKS_OUT_OF_GRAPHS_SINCE:
        return replace(mask, kind="causal-tensor" if mask.is_plain else mask.kind, traced=True)
    one, square = call.length == 1, call.length == call.key_length
    if mask.kind == "window" and call.key_length < (mask.window or 0):
        mask = Mask(kind="causal")
    if mask.kind == "all-ones":
        mask = mask if call.compiled else Mask(kind="causal")
    if mask.kind != "causal":
        return mask
    if one:
        return Mask()
    return mask if square else Mask(kind="causal-tensor")


def _expanded(call: Call) -> Call:
    """repeat_kv"""
    if call.rank != 4 or not call.key_heads or call.heads % call.key_heads:
        return replace(call, enable_gqa=False)
    return replace(
        call,
        key=(call.key[0], call.heads, *call.key[2:]),
        value=(call.value[0], call.heads, *call.value[2:]),
        enable_gqa=False,
    )


def _packed(call: Call) -> Call:
    """pack_gqa: the queries of a group become the rows of one head."""
    groups = call.heads // call.key_heads
    shape = call.mask.shape
    if shape is not None and len(shape) == 4 and shape[1] != 1:
        shape = (shape[0], call.key_heads, groups, shape[3])
    query = (call.query[0], call.key_heads, groups, call.head_size)
    return replace(call, query=query, mask=replace(call.mask, shape=shape), enable_gqa=False)
