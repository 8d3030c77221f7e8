"""SDPA ran the math kernel, which materialises the whole score matrix."""

from __future__ import annotations

import re

from trueup.rules.definition import Rule, Sighting
from trueup.rules.facts import FUSED, asked, explicit_masks, has_gpu, listed, percent, switched
from trueup.rules.log_facts import mention
from trueup.rules.log_parts import frames
from trueup.schema.finding import Evidence, Remedy
from trueup.schema.log import Frame, Log
from trueup.schema.record import Attention, Record

FORCING = {
    " dropout": "dropout",
    " gqa": "fewer key/value heads than query heads",
    " sizes": "values of another size than queries and keys",
    " 3d": "inputs of three dimensions",
    " 2d": "inputs of two dimensions",
}
"""Mark in a kind of call → what it was given, in words."""


def detect(record: Record) -> Sighting | None:
    attention = record.actual.attention
    math = [kernel for kernel in attention.kernels if "math" in kernel.name]
    part = sum(kernel.share for kernel in math)
    fused_asked = FUSED.search(str(attention.requested).lower()) is not None or fused_only(record)
    masks = explicit_masks(attention)
    if part < 0.05 or switched(record, "attention") or wants_math_only(record):
        return None
    # On a CPU the math path is normal; what the calls were given may have forced it, and then a GPU may do the same.
    forced = forcing(attention) or ((STRIDED,) if strided(record, attention) else ())
    if not (has_gpu(record) or fused_asked or masks or forced):
        return None
    backends = asked(record, "attention", "backends") or ()
    given = [*(f"{kind} mask x{calls}" for kind, calls in masks.items()), *forced]
    return Sighting(
        message=f"{percent(part)} of the attention calls ran the math kernel of SDPA"
        f"{'; calls with ' if given else ''}{', '.join(given)}.",
        evidence=(
            *(Evidence(what=f"calls of {kernel.op or kernel.name}", value=kernel.calls) for kernel in math),
            Evidence(what="share of attention calls that ran a fused kernel", value=attention.fused_fraction),
            *(Evidence(what=f"calls with a mask of kind {kind}", value=calls) for kind, calls in masks.items()),
            *(Evidence(what="calls with what fused kernels decline", value=reason) for reason in forced),
            *((Evidence(what="sdpa_kernel allows", value=listed(map(str, backends))),) if backends else ()),
        ),
        confidence="established" if has_gpu(record) or fused_asked else "likely",
        severity="warning" if has_gpu(record) or fused_asked else "note",
    )


def forcing(attention: Attention) -> tuple[str, ...]:
    """What the calls were given, beside a mask, that makes fused kernels of one device or another decline."""
    seen = {words for kind in attention.sdpa_calls for mark, words in FORCING.items() if mark in kind}
    return tuple(words for words in FORCING.values() if words in seen)


STRIDED = "no mask, no dropout and equal heads: a last dimension is not contiguous, or batches differ in size"
PLAIN = {"no mask", "no mask causal"}


def strided(record: Record, attention: Attention) -> bool:
    """True when nothing but strides or batch sizes is left to explain why the fused kernel of a CPU declined."""
    return (
        bool(attention.sdpa_calls)
        and set(attention.sdpa_calls) <= PLAIN
        and len(attention.kernels) == 1
        and list(record.environment.get("devices") or ()) == ["cpu"]
        and attention.toggles.get("flash") is True
        and not asked(record, "attention", "backends")
    )


def fused_only(record: Record) -> bool:
    """True when a context of the code allows fused kernels and not math."""
    contexts = [str(each).lower() for each in asked(record, "attention", "backends") or ()]
    return any(FUSED.search(each) and "math" not in each for each in contexts)


def wants_math_only(record: Record) -> bool:
    """True when the code itself restricted SDPA to math."""
    backends = str(asked(record, "attention", "backends") or "").lower()
    return "math" in backends and FUSED.search(backends) is None


OUT_OF_MEMORY = r"CUDA out of memory\.?[^\n]*Tried to allocate (?P<size>[\d.]+) (?P<unit>[KMGT]i?B)"
GROUPED = r"enable_gqa ?= ?True"
CALL = re.compile(r"scaled_dot_product_attention\(")


def detect_log(log: Log) -> Sighting | None:
    """Out of memory inside of SDPA, whose fused kernels allocate no more than their output."""
    full = mention(log, OUT_OF_MEMORY)
    if full is None:
        return None
    stack = list(frames(full.failure))
    called = next((frame for frame in stack[-3:] if frame.code and CALL.search(frame.code)), None)
    grouped = mention(log, GROUPED)
    asked = next((frame for frame in stack[-3:] if frame.code and re.search(GROUPED, frame.code)), None)
    if grouped is None and asked is None and (called is None or not _large(full.found)):
        return None
    size = f"{full.found['size']} {full.found['unit']}"
    gqa = grouped is not None or asked is not None
    frame = asked or called
    return Sighting(
        message=f"An allocation of {size} failed inside of scaled_dot_product_attention"
        f"{' with enable_gqa=True' if gqa else ''}: only the math kernel allocates a score matrix.",
        evidence=(
            full.evidence(log),
            *((Evidence(what="call", value=frame.code, at=_at(frame)),) if frame else ()),
            *((grouped.evidence(log, "call"),) if grouped is not None and frame is None else ()),
        ),
        confidence="likely" if gqa else "possible",
        severity="error",
        failure=full.failure,
        specificity=1000 if gqa else 60,
    )


def _large(found: re.Match[str]) -> bool:
    """More than an output or its log-sum-exp of usual sizes needs."""
    return found["unit"][0] in "GT" and float(found["size"]) >= 1


def _at(frame: Frame) -> str:
    return f"{frame.file}:{frame.line}" if frame.line else frame.file


RULE = Rule(
    id="attention/kernel-math-fallback",
    title="SDPA silently runs the math kernel for grouped-query attention",
    layers=("attention", "trainer", "environment", "memory"),
    severity="warning",
    silent="No message says which kernel was chosen; memory grows with the square of the length.",
    cause=(
        "Every fused kernel declined the inputs: grouped-query attention with a mask, a head size above "
        "256, values of another size than the keys, a mask of a shape or dtype that it does not take, dropout, or a "
        "GPU below sm_80. Math then builds the whole score matrix."
    ),
    remedies=(
        Remedy(
            id="fused-attention-shapes",
            kind="in-process",
            automatic=True,
            how="inputs and masks of four dimensions, the last contiguous, values padded to the size of the queries",
        ),
        Remedy(
            id="expand-kv-heads",
            kind="in-process",
            automatic=True,
            how="repeat key and value heads instead of enable_gqa=True where a mask is given; upgrade transformers",
        ),
        Remedy(
            id="exclude-math-kernel",
            kind="in-process",
            automatic=False,
            how="sdpa_kernel([FLASH_ATTENTION, EFFICIENT_ATTENTION]) around the model: an error then says why",
        ),
        Remedy(
            id="no-attention-dropout-on-cpu",
            kind="code",
            automatic=False,
            how="dropout_p=0.0 in attention on a CPU, whose fused kernel takes none; on a GPU the fused kernels do",
        ),
        Remedy(
            id="drop-plain-mask",
            kind="in-process",
            automatic=True,
            how="pass no mask and is_causal=True where the mask is all ones or causal",
        ),
    ),
    caution=(
        "On a CPU the math path is normal and a note only; with dropout it is the one there is. The kernel must be "
        "proved by the operator that ran; TRANSFORMERS_SDPA_FORCE_GQA=1 brings the fallback back."
    ),
    sources=(
        "https://github.com/Comfy-Org/ComfyUI/pull/15135",
        "https://github.com/huggingface/transformers/pull/46960",
        "https://github.com/huggingface/transformers/pull/45776",
    ),
    explains=("attention/explicit-mask-deselects-flash",),
    from_record=detect,
    from_log=detect_log,
)
