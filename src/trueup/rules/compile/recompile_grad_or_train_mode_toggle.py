"""Switching between train and eval, or frozen and trainable inputs, compiles again and again."""

from __future__ import annotations

from trueup.rules.compilation import effect, storm_evidence, variants_expected
from trueup.rules.definition import LogText, Rule, Sighting
from trueup.rules.guards import storms
from trueup.rules.recompile_logs import storm
from trueup.schema.finding import Confidence, Remedy
from trueup.schema.log import Log
from trueup.schema.record import Record


def detect(record: Record) -> Sighting | None:
    compile = record.actual.compile
    found = storms(compile, "mode", at_least=3)
    if not found:
        return None
    limited = any(storm.limit for storm in found)
    if not limited and variants_expected(record):
        return None
    return Sighting(
        message=f"{found[0].function} was compiled again {found[0].count} times because grad mode, training mode or "
        f"requires_grad changed{effect(compile)}.",
        evidence=storm_evidence(found, compile),
        severity="warning" if limited else "note",
    )


def detect_log(log: Log) -> Sighting | None:
    """A guard on grad mode, train mode or requires_grad."""
    found = storm(log, "mode")
    if found is None:
        return None
    confidence: Confidence = "established" if found.repeated else "possible"
    return found.sighting(f"a mode changed ({found.guards[-1].text})", confidence=confidence)


RULE = Rule(
    id="compile/recompile-grad-or-train-mode-toggle",
    title="Switching train/eval or requires_grad recompiles",
    layers=("compile", "trainer"),
    severity="warning",
    silent="The first step after each switch is slow, nothing else shows.",
    cause=(
        "Grad mode, the training flag and requires_grad of inputs are guarded, so each combination is a "
        "variant of its own; torch before 2.2 compiled at every toggle."
    ),
    remedies=(
        Remedy(
            id="keep-modes-uniform",
            kind="in-process",
            automatic=True,
            how="keep requires_grad of inputs constant, also under no_grad",
        ),
        Remedy(
            id="raise-recompile-limit",
            kind="in-process",
            automatic=True,
            how="torch._dynamo.config.recompile_limit above the number of mode combinations",
        ),
    ),
    caution="Two variants, one for training and one for evaluation, are normal.",
    sources=("https://github.com/pytorch/pytorch/issues/110803",),
    explains=("compile/recompile-limit-reached", "compile/requested-and-not-applied"),
    from_record=detect,
    log=(
        LogText(
            text="requires_grad mismatch. expected requires_grad=",
            strength="supporting",
            versions="torch 2.0 and newer, a guard alone",
        ),
    ),
    from_log=detect_log,
)
