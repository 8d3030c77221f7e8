"""Logits of all positions over the whole vocabulary are in memory at once."""

from __future__ import annotations

import re

from trueup.rules.definition import Rule, Sighting
from trueup.rules.facts import percent
from trueup.rules.log_parts import frames
from trueup.rules.out_of_memory import OutOfMemory, out_of_memory
from trueup.schema.finding import Evidence, Remedy
from trueup.schema.log import Frame, Log
from trueup.schema.record import Record

LOGITS = re.compile(
    r"lm_head\(|(?<!, )\blogits = (?!outputs|model|self\.(?:prediction|compute))|\blogits\.(?:float|to|view"
    r"|contiguous|log)"
    r"|log_softmax\(|logsumexp\(|cross_entropy\(|per_token_logps|entropy_from_logits|get_log_?probs|logprobs_from_logits"
)
"""Code that computes logits or works on all of them, not code that passes them on."""

LOSSES = re.compile(r"loss_utils\.py|/loss/|vocab_parallel|cross_entropy")
ATTENTION = re.compile(r"scaled_dot_product_attention|attention_mask|attn_weights|enable_gqa|softmax\(attn")
INNERMOST = 6
LARGE = 2**30
VOCABULARIES: tuple[int, ...] = (
    32000,
    32064,
    49152,
    50257,
    50304,
    64000,
    65024,
    92544,
    100352,
    102400,
    128256,
    129280,
    131072,
    151552,
)
VOCABULARIES += (151643, 151936, 152064, 163840, 200064, 201088, 248320, 250880, 255000, 256000, 256256, 262144, 262208)
"""Sizes of vocabularies in use, in the sizes that models pad them to."""


NOTABLE = 256 * 2**20
"""Bytes of all copies, below which nothing is said of them."""
DOMINANT_PART = 0.4
"""Of the peak of the rank's memory."""
HEAVY, HEAVY_PART = 2**30, 0.5
"""Bytes and share of the peak from which it is more than a note."""
IN_WORDS = {"head": "of the head", "log_softmax": "their log-softmax", "gradient": "their gradient"}


def detect(record: Record) -> Sighting | None:
    """Scores that take a dominant part of the measured peak; smaller ones are as any model has them."""
    memory = record.actual.memory
    logits, peak = memory.logits, memory.peak_bytes
    if logits is None or not peak or logits.bytes < NOTABLE or logits.bytes < DOMINANT_PART * peak:
        return None
    copies = ", ".join(f"{IN_WORDS.get(what, what)} in {dtype}" for what, dtype in logits.copies.items())
    return Sighting(
        message=f"A training step holds the logits of all {logits.positions} positions over {logits.vocabulary} tokens "
        f"at once: {logits.bytes / 1e6:.0f} MB ({copies}), {percent(min(1.0, logits.bytes / peak))} of the peak.",
        evidence=(
            Evidence(what="bytes of logits held at once", value=logits.bytes, at=logits.at),
            Evidence(what="positions x vocabulary", value=f"{logits.positions} x {logits.vocabulary}"),
            Evidence(what=f"peak of memory, bytes ({memory.source})", value=peak),
        ),
        severity="warning" if logits.bytes >= HEAVY and logits.bytes >= HEAVY_PART * peak else "note",
    )


def detect_log(log: Log) -> Sighting | None:
    for memory in out_of_memory(log):
        frame = computing_logits(memory)
        shape = as_logits(memory.tried)
        if frame is None and (memory.tried < LARGE or is_attention(memory)):
            continue
        evidence = [memory.seen.evidence(log)]
        if frame is not None:
            evidence.append(Evidence(what="innermost code", value=frame.code or frame.function, at=frame.file))
        if shape:
            evidence.append(Evidence(what="the size as logits", value=shape))
        return Sighting(
            message="Out of memory where the logits of all positions are computed."
            if frame
            else "A single request of this size may be the logits of all positions.",
            evidence=tuple(evidence),
            confidence="likely" if frame else "possible",
            failure=memory.seen.failure,
            specificity=200 if frame else 20,
        )
    return None


def computing_logits(memory: OutOfMemory) -> Frame | None:
    """The innermost frame of the head or the loss."""
    if is_attention(memory):
        return None
    for frame in list(frames(memory.seen.failure))[::-1][:INNERMOST]:
        if LOGITS.search(frame.code or "") or LOSSES.search(frame.file) or LOGITS.search(f"{frame.function or ''}("):
            return frame
    return None


def is_attention(memory: OutOfMemory) -> bool:
    """True when it is attention that asked for the memory."""
    innermost = list(frames(memory.seen.failure))[::-1][:2]
    return any(ATTENTION.search(frame.code or "") for frame in innermost) or bool(
        ATTENTION.search(memory.seen.part.said)
    )


def as_logits(size: float) -> str | None:
    """Tokens x vocabulary x bytes that make this size, when the tokens are a round number."""
    for vocabulary in VOCABULARIES:
        for width in (4, 2):
            tokens = size / (width * vocabulary)
            nearest = round(tokens / 512) * 512
            if nearest and abs(tokens - nearest) / nearest < 0.0005:
                return f"{nearest} tokens x {vocabulary} x {width} bytes"
    return None


RULE = Rule(
    id="memory/full-vocabulary-logits",
    title="Full-vocabulary logits of all positions are materialised",
    layers=("memory", "trainer", "precision", "compile"),
    severity="error",
    silent="",
    cause=(
        "Hidden states of every position are projected to the vocabulary, and often copied to float32, before the "
        "needed tokens are selected. Long packed rows multiply it."
    ),
    remedies=(
        Remedy(
            id="fused-linear-cross-entropy",
            kind="in-process",
            automatic=False,
            how="use_liger_kernel=True (transformers), or another fused or chunked linear cross entropy",
        ),
        Remedy(
            id="logits-to-keep",
            kind="code",
            automatic=False,
            how="model(..., logits_to_keep=N), or hidden[:, positions] before the head",
        ),
        Remedy(
            id="fewer-tokens-per-micro-batch",
            kind="config-edit",
            automatic=False,
            how="a limit of tokens for each micro-batch: the failing size / (4 x vocabulary) is the number of tokens "
            "it had",
        ),
    ),
    caution="Do the arithmetic: a size that fits batch x heads x length x length is attention with the math kernel.",
    sources=("https://github.com/THUDM/slime/issues/2253",),
    from_record=detect,
    from_log=detect_log,
)
