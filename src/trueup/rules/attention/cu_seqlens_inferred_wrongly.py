"""Flash attention makes document boundaries out of position ids that are none."""

from __future__ import annotations

import re

from trueup.rules.definition import Rule, Sighting
from trueup.rules.facts import asked, errors, installed
from trueup.rules.log_facts import mention, passes
from trueup.rules.log_parts import frames, place
from trueup.schema.finding import Evidence, Remedy
from trueup.schema.log import Failure, Frame, Log
from trueup.schema.record import Record

HELPER = "transformers/modeling_flash_attention_utils.py"
EMPTY = r"max\(\): Expected reduction dim to be specified for input\.numel\(\) == 0"
OUT_OF_BOUNDS = r"an illegal memory access was encountered"
THREE_AXES = re.compile(r"models/(?:qwen\w*vl\w*|qwen\w*omni\w*|qwen3_5\w*|glm4\w*v\w*)/")
"""Models with one position id for time, height and width each."""
UNPADDED = re.compile(r"out_unpad\w*\s*=|_upad_input|_unpad_input")
"""Lines of the other path into the varlen kernel, whose boundaries come from a padding mask."""


def detect(record: Record) -> Sighting | None:
    crashed = errors(record, EMPTY)
    requested = str(record.actual.attention.requested or asked(record, "attention", "implementation") or "")
    release = installed(record).get("transformers", "")
    if not crashed or "flash" not in requested or not release.startswith("4.54."):
        return None
    return Sighting(
        message=f"Flash attention of transformers {release} found no document in the position ids: none of them is 0.",
        evidence=(*crashed, Evidence(what="attention implementation", value=requested)),
        confidence="likely",
    )


def detect_log(log: Log) -> Sighting | None:
    empty = mention(log, EMPTY)
    helper = passes(empty.failure, HELPER) if empty else None
    if empty and helper:
        return Sighting(
            message="Flash attention found no document in the position ids: none of them is 0, so the list of "
            "boundaries is empty.",
            evidence=(empty.evidence(log), _at(log, empty.failure, helper)),
            failure=empty.failure,
        )
    lost = mention(log, OUT_OF_BOUNDS)
    helper = passes(lost.failure, HELPER) if lost else None
    if lost is None or helper is None or _unpadded(lost.failure):
        return None
    model = _frame(lost.failure, THREE_AXES)
    return Sighting(
        message="A flash kernel read beyond its inputs, called by the helper that infers document boundaries from "
        f"position ids{'; the model has three position ids for each token' if model else ''}.",
        evidence=(
            lost.evidence(log),
            _at(log, lost.failure, helper),
            *((_at(log, lost.failure, model),) if model else ()),
        ),
        confidence="likely" if model else "possible",
        failure=lost.failure,
    )


def _unpadded(failure: Failure) -> bool:
    return any(UNPADDED.search(frame.code or "") for frame in frames(failure))


def _frame(failure: Failure, path: re.Pattern[str]) -> Frame | None:
    return next((frame for frame in frames(failure) if path.search(frame.file.replace("\\", "/"))), None)


def _at(log: Log, failure: Failure, frame: Frame) -> Evidence:
    file = frame.file.replace("\\", "/").rpartition("site-packages/")[2]
    return Evidence(what="ran in", value=f"{file}:{frame.line}" if frame.line else file, at=place(log, failure))


RULE = Rule(
    id="attention/cu-seqlens-inferred-wrongly",
    title="Sequence boundaries guessed wrongly from position ids",
    layers=("attention", "trainer"),
    severity="error",
    silent="Where the wrong boundaries stay within the inputs, attention is quietly wrong.",
    cause=(
        "Without cu_seqlens the flash helper of transformers takes document boundaries from position ids that it "
        "expects to be two-dimensional and to restart at zero. A chunk that starts elsewhere, or ids with three "
        "axes, give boundaries that are empty or lie beyond the tokens."
    ),
    remedies=(
        Remedy(
            id="pass-sequence-boundaries",
            kind="code",
            automatic=False,
            how=(
                "cu_seq_lens_q/k and max_length_q/k in the call, as from "
                "DataCollatorWithFlattening(return_flash_attn_kwargs=True); the last boundary is the number of tokens"
            ),
        ),
        Remedy(
            id="position-ids-from-zero",
            kind="code",
            automatic=False,
            how="give decoder layers 2-D position ids that restart at 0 for each document",
        ),
        Remedy(
            id="upgrade-transformers",
            kind="install",
            automatic=False,
            how="transformers >= 4.55 for chunks that start elsewhere, newer than 5.3 for ids with three axes",
        ),
    ),
    caution=(
        "An illegal memory access has many causes and is reported late: run with CUDA_LAUNCH_BLOCKING=1. Boundaries "
        "out of a padding mask are another path of the same helper."
    ),
    sources=(
        "https://github.com/huggingface/transformers/issues/39814",
        "https://github.com/huggingface/transformers/issues/44643",
        "https://github.com/axolotl-ai-cloud/axolotl/issues/3453",
    ),
    from_record=detect,
    from_log=detect_log,
)
