"""Each new input size is compiled anew."""

from __future__ import annotations

from trueup.rules.compilation import compile_calls, effect, storm_evidence, twins
from trueup.rules.definition import LogText, Rule, Sighting
from trueup.rules.guards import Storm, of_optimizer, storms
from trueup.rules.recompile_logs import storm
from trueup.schema.finding import Confidence, Remedy
from trueup.schema.log import Log
from trueup.schema.record import Record


def detect(record: Record) -> Sighting | None:
    compile = record.actual.compile
    static = any(call.detail.get("dynamic") is False for call in compile_calls(record))
    # One recompile per varying dimension, and one for size 1, are how automatic dynamic shapes work.
    found = tuple(storm for storm in storms(compile, "size", at_least=2 if static else 4) if not of_optimizer(storm))
    lasting = tuple(storm for storm in found if over_time(storm, record))
    if not found or (not lasting and twins(record)):
        return None  # models of several sizes that share their code: another class
    found = lasting or found
    why = " under dynamic=False" if static else ""
    return Sighting(
        message=f"{found[0].function} was compiled again {found[0].count} times for new input sizes{why}"
        f"{effect(compile)}.",
        evidence=storm_evidence(found, compile),
        severity=None if lasting or any(storm.limit for storm in found) else "note",
    )


def over_time(storm: Storm, record: Record) -> bool:
    """True when it went on from step to step; parts of different widths are compiled within the first steps."""
    passes = record.actual.training.accumulation or 1
    return storm.steps is None or storm.steps >= 3 or storm.steps * passes >= storm.count


def detect_log(log: Log) -> Sighting | None:
    """A guard on the size of an input; one recompile per varying size is how automatic dynamic shapes work."""
    found = storm(log, "size")
    if found is None or (found.limit is not None and found.limit.of_optimizer):
        return None
    confidence: Confidence = "established" if found.repeated else "possible"
    return found.sighting(f"the size of {found.sources[-1]} changed", confidence=confidence)


RULE = Rule(
    id="compile/recompile-dynamic-shape",
    title="Every new input size compiles again",
    layers=("compile", "sharding"),
    severity="warning",
    silent="Only the step time tells: steps with a new length are slow, and after the limit new lengths run eager.",
    cause=(
        "Batch or sequence sizes vary and automatic dynamic shapes did not engage: dynamic=False, a "
        "specialised dimension, or several dimensions in turn."
    ),
    remedies=(
        Remedy(
            id="automatic-dynamic-shapes",
            kind="in-process",
            automatic=True,
            how="leave dynamic unset in torch.compile, or torch._dynamo.mark_dynamic on the varying dimension",
        ),
        Remedy(
            id="mark-dynamic",
            kind="in-process",
            automatic=True,
            how="torch._dynamo.maybe_mark_dynamic(input, dimension) on what varies, before the compiled call",
        ),
        Remedy(
            id="bucket-lengths",
            kind="in-process",
            automatic=True,
            how="pad to a few lengths (pad_to_multiple_of in the collator)",
        ),
    ),
    caution=(
        "One recompile for the second size is normal. Under accelerate launch look at "
        "accelerate-launch-forces-static-shapes first."
    ),
    sources=("https://github.com/pytorch/pytorch/issues/139474",),
    explains=("compile/recompile-limit-reached", "compile/requested-and-not-applied"),
    from_record=detect,
    log=(
        LogText(
            text="size mismatch at index <index>. expected <size>, actual <size>",
            strength="supporting",
            versions="torch 2.0 and newer, a guard alone",
            not_with=("Guard failed on a parameter",),
        ),
    ),
    from_log=detect_log,
)
