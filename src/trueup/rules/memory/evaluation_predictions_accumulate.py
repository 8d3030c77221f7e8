"""The evaluation loop keeps the logits of all steps on the device."""

from __future__ import annotations

import re

from trueup.rules.definition import LogText, Rule, Sighting
from trueup.rules.facts import applied, errors, percent
from trueup.rules.log_facts import mentions, passes
from trueup.schema.finding import Evidence, Remedy
from trueup.schema.log import Log
from trueup.schema.record import Record

LARGE = 128 * 2**20
"""Bytes kept, below which nothing is said of them."""
LARGE_PART = 0.25
"""Of the peak of the rank's memory."""
SEVERAL = 3
"""Batches kept at once: fewer are a batch size, no accumulation."""


def detect(record: Record) -> Sighting | None:
    """What the loop really held at once, of all evaluations the one that held most."""
    loops = applied(record, "evaluation_loop")
    if not loops:
        return None
    loop = max(loops, key=lambda each: int(each.detail.get("kept_bytes") or 0))
    kept, batches = int(loop.detail.get("kept_bytes") or 0), int(loop.detail.get("batches") or 0)
    peak = record.actual.memory.per_rank.get(str(loop.rank)) or record.actual.memory.peak_bytes
    if kept < LARGE or batches < SEVERAL or not peak or kept < LARGE_PART * peak:
        return None
    failed = () if loop.detail.get("finished") else errors(record, OUT_OF_MEMORY)
    shape = " x ".join(str(size) for size in loop.detail.get("batch_shape") or ())
    return Sighting(
        message=f"Evaluation kept the predictions of {batches} batches on the device ({loop.detail.get('device')}): "
        f"{kept / 1e6:.0f} MB, {percent(min(1.0, kept / peak))} of the peak, growing with the evaluation set.",
        evidence=(
            Evidence(what="bytes of predictions kept at once", value=kept, at=loop.at, ranks=(loop.rank,)),
            Evidence(what="largest tensor of one batch", value=f"{shape} {loop.detail.get('dtype')}"),
            Evidence(what="eval_accumulation_steps", value=loop.detail.get("eval_accumulation_steps")),
            Evidence(what="peak of memory, bytes", value=peak),
            *failed,
        ),
        severity="error" if failed else "warning",
    )


OUT_OF_MEMORY = r"out of memory|OutOfMemoryError|Killed"
KEEPING = ("nested_concat", "torch_pad_and_concatenate", "_nested_gather", "nested_truncate", "pad_across_processes")
"""Functions that put the predictions of steps together."""

KEEPING_QUOTED = re.compile(rf"\bin (?:{'|'.join(KEEPING)})\b")
KEEPING_SHOWN = re.compile(r"= (?:all_|host_)?(?:preds|logits)\w* if \w+ is None else nested_concat\(")
"""The line of the evaluation loop of transformers up to 4.40 that does so, where the log ends with it."""
EVALUATING = ("evaluation_loop", "prediction_loop", "evaluate", "predict", "prediction_step")
IN_LOOP = ("gather_function", "gather_for_metrics", "EvalLoopContainer", "add")


def detect_log(log: Log) -> Sighting | None:
    for seen in mentions(log, OUT_OF_MEMORY):
        quoted = KEEPING_QUOTED.search(seen.part.said) or KEEPING_SHOWN.search(seen.part.shown)
        keeping = passes(seen.failure, *KEEPING)
        in_trainer = keeping is not None and keeping.file.endswith("trainer_pt_utils.py")
        if not passes(seen.failure, *EVALUATING) and not quoted and not in_trainer:
            continue
        if keeping is None and not quoted and not passes(seen.failure, *IN_LOOP):
            continue
        frame = keeping or passes(seen.failure, *IN_LOOP)
        return Sighting(
            message="Out of memory while the evaluation loop keeps the predictions of its steps.",
            evidence=(
                seen.evidence(log),
                *((Evidence(what="innermost code", value=frame.function, at=frame.file),) if frame else ()),
            ),
            confidence="established" if keeping or quoted else "likely",
            failure=seen.failure,
        )
    return None


RULE = Rule(
    id="memory/evaluation-predictions-accumulate",
    title="Evaluation keeps the logits of all steps",
    layers=("memory", "trainer", "precision"),
    severity="error",
    silent="",
    cause="The evaluation loop gathers full logits on the device until the end of the set.",
    remedies=(
        Remedy(
            id="prediction-loss-only",
            kind="config-edit",
            automatic=False,
            how="prediction_loss_only=True in TrainingArguments, where no metric needs the predictions",
        ),
        Remedy(
            id="preprocess-logits",
            kind="code",
            automatic=False,
            how="Trainer(preprocess_logits_for_metrics=lambda logits, labels: logits.argmax(-1)), which keeps one "
            "number a token",
        ),
        Remedy(
            id="eval-accumulation-steps",
            kind="config-edit",
            automatic=True,
            how="eval_accumulation_steps=1 moves the predictions to the host after every step",
        ),
    ),
    caution="A failure in the first step of an evaluation is the batch size or the logits of that step alone.",
    sources=("https://github.com/hiyouga/LlamaFactory/issues/6040",),
    log=(
        LogText(
            text="Starting from v4.46, the `logits` model output will have the same type as the model",
            strength="supporting",
            versions="transformers 4.45, a notice",
        ),
    ),
    from_record=detect,
    from_log=detect_log,
)
