"""A tensor that a CUDA graph returned was used after the next replay wrote over it."""

from __future__ import annotations

from trueup.rules.definition import Rule, Sighting
from trueup.rules.log_facts import mention
from trueup.schema.finding import Remedy
from trueup.schema.log import Log

OVERWRITTEN = r"accessing (?P<gradient>gradient )?tensor output of CUDAGraphs that has been overwritten"


def detect_log(log: Log) -> Sighting | None:
    """Which tensor it was decides what helps: a step mark saves outputs, not gradients."""
    seen = mention(log, OVERWRITTEN)
    if seen is None:
        advised = mention(log, r"call torch\.compiler\.cudagraph_mark_step_begin\(\) before each model invocation")
        if advised is None:
            return None
        return Sighting(
            message="An output of a CUDA graph was used after it was overwritten.",
            evidence=(advised.evidence(log),),
            confidence="likely",
            failure=advised.failure,
        )
    gradient = bool(seen.found["gradient"])
    return Sighting(
        message=f"{'A gradient' if gradient else 'An output'} of a CUDA graph was used after the next run had "
        "overwritten it.",
        evidence=(seen.evidence(log),),
        failure=seen.failure,
        remedies=tuple(each for each in RULE.remedies if not gradient or each.id != "mark-cudagraph-step"),
    )


RULE = Rule(
    id="compile/cudagraph-output-overwritten",
    title="CUDA graph output reused after being overwritten",
    layers=("compile", "checkpointing", "trainer"),
    severity="error",
    silent="",
    cause=(
        "Outputs, and gradients that were first allocated during capture, live in the memory pool of the graph, "
        "and the "
        "next replay writes over them: gradient accumulation, several forwards a step, a chunked loss."
    ),
    remedies=(
        Remedy(
            id="compile-without-cudagraphs",
            kind="in-process",
            automatic=True,
            how="mode='default' or 'max-autotune-no-cudagraphs' in torch.compile",
        ),
        Remedy(
            id="mark-cudagraph-step",
            kind="code",
            automatic=False,
            how="torch.compiler.cudagraph_mark_step_begin() before each micro-batch; clone() outputs that are kept",
        ),
        Remedy(
            id="allocate-gradients-first",
            kind="code",
            automatic=False,
            how="parameter.grad = torch.zeros_like(parameter) before the first compiled backward, and zero_grad(False)",
        ),
    ),
    caution="Marking the step does not help when the overwritten tensor is a gradient.",
    sources=("https://github.com/minerva4ai-eu/minerva-benchmarks/issues/41",),
    from_log=detect_log,
)
