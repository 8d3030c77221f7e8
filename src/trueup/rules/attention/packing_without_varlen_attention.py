"""Packed rows run through attention that takes them for one long sequence."""

from __future__ import annotations

from trueup.rules.attention_leakage import leak_evidence, leak_in_words, leaks, measured_clean
from trueup.rules.definition import LogText, Rule, Sighting, within
from trueup.rules.facts import argument, installed, listed
from trueup.rules.log_facts import mention
from trueup.schema.finding import Evidence, Remedy
from trueup.schema.log import Log
from trueup.schema.record import Attention, Record

BEFORE_BLOCK_MASKS = {"transformers": "<4.53"}
"""Later releases mask packed rows themselves where neither mask nor cache is given."""


def detect(record: Record) -> Sighting | None:
    attention = record.actual.attention
    packed = attention.packed or bool(argument(record, "padding_free"))
    dense = [kernel for kernel in attention.kernels if kernel.name.startswith(("sdpa", "eager"))]
    # Later transformers mask packed rows themselves; a call that has no mask proves that nothing did.
    unmasked = sum(calls for kind, calls in attention.sdpa_calls.items() if kind.startswith("no mask"))
    known = within(installed(record), BEFORE_BLOCK_MASKS) and "transformers" in installed(record)
    open_to_all = dense and not attention.boundaries and not attention.masks.get("other") and (known or unmasked)
    if measured_clean(attention):
        return None
    if leaks(attention):
        return _measured(attention, unmasked)
    if not packed or not open_to_all:
        return None
    return Sighting(
        message=f"Rows are packed, and attention ran {listed(kernel.name for kernel in dense)} without document "
        "boundaries or a block mask.",
        evidence=(
            Evidence(what="position ids restart within a row", value=attention.packed),
            *(Evidence(what=f"calls of {kernel.op or kernel.name}", value=kernel.calls) for kernel in dense),
            Evidence(what="attention calls without a mask", value=unmasked),
        ),
        confidence="likely",
    )


def _measured(attention: Attention, unmasked: int) -> Sighting:
    """Whatever the cause: one document moved another."""
    ran = listed(kernel.name for kernel in attention.kernels)
    return Sighting(
        message=f"Rows are packed, and {f'attention ({ran})' if ran else 'attention'} does not keep their documents "
        f"apart{leak_in_words(attention)}.",
        evidence=(
            *leak_evidence(attention),
            *(
                Evidence(what=f"calls of {kernel.op or kernel.name}", value=kernel.calls)
                for kernel in attention.kernels
            ),
            Evidence(what="attention calls without a mask", value=unmasked),
        ),
    )


REFUSED = (
    r"(?P<function>[\w.]*(?:forward|Attention\w*|__call__))\(\) got an unexpected keyword argument "
    r"(?P<name>cu_seq_?lens\w*|max_seqlens?\w*|max_length_[qk]|seq_?idx)\b"
)


def detect_log(log: Log) -> Sighting | None:
    """A patched layer hands document boundaries to an attention that knows none."""
    seen = mention(log, REFUSED)
    if seen is None:
        return None
    boundaries = seen.found["name"].startswith("cu_seq")
    return Sighting(
        message=f"{seen.found['function']} was given {seen.found['name']} and does not know it: the layer was patched "
        "for packed rows, its attention was not.",
        evidence=(seen.evidence(log),),
        confidence="established" if boundaries else "likely",
        severity="error",
        failure=seen.failure,
    )


RULE = Rule(
    id="attention/packing-without-varlen-attention",
    title="Packed batch runs through attention that ignores document boundaries",
    layers=("attention", "sharding", "compile", "trainer"),
    severity="error",
    silent="The loss is higher than with padding, and nothing else shows.",
    cause=(
        "Packing was switched on while the model was created with, or fell back to, an implementation that "
        "sees one long sequence."
    ),
    remedies=(
        Remedy(
            id="request-varlen-attention",
            kind="config-edit",
            automatic=False,
            how=(
                'attn_implementation="flash_attention_2" or flex_attention, or a block-diagonal mask; '
                "trueup run --probe packing measures it"
            ),
        ),
    ),
    caution=(
        "transformers from 4.53 on builds the block mask itself for sdpa and eager when position ids "
        "restart and neither mask nor cache is given: probe before you believe it."
    ),
    sources=(
        "https://github.com/huggingface/trl/issues/2834",
        "https://github.com/axolotl-ai-cloud/axolotl/issues/1386",
    ),
    from_record=detect,
    log=(
        LogText(text="got an unexpected keyword argument 'cu_seqlens'", versions="patched layers, cut short"),
        LogText(
            text="You are using packing, but the attention implementation is not set to",
            strength="supporting",
            versions="trl 0.18 and newer, a warning",
        ),
        LogText(
            text="Padding-free training is enabled, but the attention implementation is not set to",
            strength="supporting",
            versions="trl 0.16 and newer, a warning",
        ),
    ),
    from_log=detect_log,
)
