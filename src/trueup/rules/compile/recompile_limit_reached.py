"""A function reached Dynamo's recompile limit and runs eager from then on, for a reason that no rule knows."""

from __future__ import annotations

from trueup.rules.compilation import coverage, effect
from trueup.rules.definition import Rule, Sighting
from trueup.rules.facts import listed, switched
from trueup.rules.guards import guard
from trueup.schema.finding import Evidence, Remedy
from trueup.schema.record import Record


def detect(record: Record) -> Sighting | None:
    compile = record.actual.compile
    if not compile.limits or switched(record, "compile"):
        return None
    names = listed(dict.fromkeys(each.function for each in compile.limits))
    return Sighting(
        message=f"{names} reached the {compile.limits[0].limit} and runs eager for every further variant"
        f"{effect(compile)}.",
        evidence=(
            *(
                Evidence(what=f"last reason before the limit, {each.function}", value=guard(each.reason).text)
                for each in compile.limits
                if each.reason
            ),
            *coverage(compile),
        ),
    )


RULE = Rule(
    id="compile/recompile-limit-reached",
    title="A compiled function reached the recompile limit",
    layers=("compile",),
    severity="warning",
    silent="One log line; the loss is right and the speed is that of eager code.",
    cause="A guard of the compiled function failed for more variants than torch._dynamo.config.recompile_limit allows.",
    remedies=(
        Remedy(
            id="raise-recompile-limit",
            kind="in-process",
            automatic=False,
            how="torch._dynamo.config.recompile_limit = 64, after a look at the reason",
        ),
    ),
    caution="The last reason tells the class; where a more specific rule fires, that one is meant.",
    residual=True,
    from_record=detect,
)
