"""Graph breaks at ordinary Python, when no more specific class fits."""

from __future__ import annotations

from trueup.rules.break_logs import break_line
from trueup.rules.breaks import break_evidence, break_severity, break_text, breaks, times
from trueup.rules.compilation import effect
from trueup.rules.definition import Rule, Sighting
from trueup.schema.finding import Remedy
from trueup.schema.log import Log
from trueup.schema.record import Record

REPEATED = "autograd.Function.apply: duplicate tensor input"
"""Since torch 2.13."""
DISTINCT = Remedy(
    id="bridge-attention",
    kind="in-process",
    automatic=True,
    how="two tensors, cu_seqlens_k = cu_seqlens_q.clone(), as trueup.attention.packed makes them",
)


def detect(record: Record) -> Sighting | None:
    found = breaks(record.actual.compile, "python")
    if not found:
        return None
    if all(REPEATED in break_text(each) for each in found):
        return Sighting(
            message=f"A function with a backward of its own was given one tensor twice, which broke the graph "
            f"{times(found)} times{effect(record.actual.compile)}.",
            evidence=break_evidence(found),
            severity=break_severity(record, found),
            cause="Dynamo traces no autograd.Function that is given one tensor twice, as flash-attn over documents "
            "gets their boundaries for queries and for keys.",
            remedies=(DISTINCT, *RULE.remedies),
        )
    return Sighting(
        message=f"Python that Dynamo cannot trace broke the graph {times(found)} times{effect(record.actual.compile)}.",
        evidence=break_evidence(found),
        severity=break_severity(record, found),
    )


PLAIN = r"\b(?:print|logging|logger|importlib|__import__|inspect|_?warnings)\b|register_hook|LOSS_MAPPING|loss_function"


def detect_log(log: Log) -> Sighting | None:
    """The rest of the breaks: sure to be one, but which class it is stays open unless Python itself is named."""
    seen = break_line(log, "python")
    if seen is None:
        return None
    # While executing lines and warnings about the compiler itself have no code that could be moved.
    named = seen.says(PLAIN)
    at = f" at {seen.told.at}" if seen.told.at else ""
    return seen.sighting(
        log, f"Dynamo could not trace a line{at}.", "likely" if named and seen.user else "possible", specificity=5
    )


RULE = Rule(
    id="compile/untraceable-python-in-model-code",
    title="Model or hook code uses Python that Dynamo cannot trace",
    layers=("compile", "trainer"),
    severity="warning",
    silent="Without fullgraph the code goes on in several graphs.",
    cause="Dynamo supports a subset of Python; print, logging, name look-ups or hooks in forward are outside of it.",
    remedies=(
        Remedy(
            id="move-python-out",
            kind="code",
            automatic=False,
            how="move the line that the break names out of the compiled part, or upgrade the library it belongs to",
        ),
    ),
    caution="A residual class: any more specific class of graph break comes first.",
    sources=("https://github.com/huggingface/transformers/issues/34615",),
    from_record=detect,
    from_log=detect_log,
)
