"""The evaluation loop keeps the logits of all steps on the device."""

from __future__ import annotations

import re

from trueup.rules.definition import LogText, Rule, Sighting
from trueup.rules.log_facts import mentions, passes
from trueup.schema.finding import Evidence, Remedy
from trueup.schema.log import Log

OUT_OF_MEMORY = r"out of memory|OutOfMemoryError|Killed"
KEEPING = ("nested_concat", "torch_pad_and_concatenate", "_nested_gather", "nested_truncate", "pad_across_processes")
"""Functions that put the predictions of steps together."""

KEEPING_QUOTED = re.compile(rf"\bin (?:{'|'.join(KEEPING)})\b")
EVALUATING = ("evaluation_loop", "prediction_loop", "evaluate", "predict", "prediction_step")
IN_LOOP = ("gather_function", "gather_for_metrics", "EvalLoopContainer", "add")


def detect_log(log: Log) -> Sighting | None:
    for seen in mentions(log, OUT_OF_MEMORY):
        quoted = KEEPING_QUOTED.search(seen.part.said)
        if not passes(seen.failure, *EVALUATING) and not quoted:
            continue
        keeping = passes(seen.failure, *KEEPING)
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
            automatic=False,
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
    from_log=detect_log,
)
