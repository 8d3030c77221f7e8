"""A compiled helper of an optimizer meets more parameter shapes than the recompile limit."""

from __future__ import annotations

from trueup.rules.compilation import storm_evidence
from trueup.rules.definition import LogText, Rule, Sighting
from trueup.rules.guards import of_optimizer, storms
from trueup.rules.recompile_logs import Storm, limits_of, storm
from trueup.schema.finding import Confidence, Remedy
from trueup.schema.log import Log
from trueup.schema.record import Record


def detect(record: Record) -> Sighting | None:
    compile = record.actual.compile
    found = tuple(storm for storm in storms(compile, "size", "parameter size", at_least=6) if of_optimizer(storm))
    if not any(storm.limit for storm in found):  # a variant for each shape is what was asked for
        return None
    return Sighting(
        message=f"The optimizer's compiled {found[0].function} was compiled again {found[0].count} times, once per "
        "parameter shape, and the limit was reached.",
        evidence=storm_evidence(found, compile),
    )


def detect_log(log: Log) -> Sighting | None:
    """A guard on the size of a parameter, or an optimizer's function at the limit for a size or no known reason."""
    found = storm(log, "parameter size", "optimizer state")
    if found is not None:
        return found.sighting("parameters have more shapes than the limit allows")
    for limit in limits_of(log):
        if limit.of_optimizer and (limit.guard is None or limit.guard.kind in ("size", "other")):
            confidence: Confidence = "established" if limit.guard and limit.guard.kind == "size" else "likely"
            return Storm(log, limit, ()).sighting(
                "the function belongs to an optimizer, whose parameters have many shapes", confidence=confidence
            )
    return None


RULE = Rule(
    id="compile/recompile-optimizer-parameter-shapes",
    title="Compiled per-parameter helper meets more shapes than the limit",
    layers=("compile", "trainer"),
    severity="warning",
    silent="Without fullgraph the remaining shapes run eager after one log line.",
    cause=(
        "Parameters are compiled with static shapes, so a helper such as Muon's needs a variant per "
        "distinct parameter shape, legitimately more than eight."
    ),
    remedies=(
        Remedy(
            id="raise-recompile-limit",
            kind="in-process",
            automatic=True,
            how="torch._dynamo.config.recompile_limit above the number of parameter shapes, before the first step",
        ),
        Remedy(
            id="dynamic-parameter-shapes",
            kind="in-process",
            automatic=True,
            how="torch._dynamo.config.force_parameter_static_shapes = False",
        ),
    ),
    caution="The function that recompiles must belong to the optimizer; sizes of inputs are recompile-dynamic-shape.",
    sources=("https://github.com/PrimeIntellect-ai/prime-rl/pull/1778",),
    explains=("compile/recompile-limit-reached",),
    from_record=detect,
    log=(
        LogText(
            text=(
                "Guard failed on a parameter, consider using torch._dynamo.config.force_parameter_static_shapes = False"
            ),
            strength="supporting",
            versions="torch 2.3 and newer",
        ),
    ),
    from_log=detect_log,
)
