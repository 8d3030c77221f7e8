"""A function reached Dynamo's recompile limit and runs eager from then on, for a reason that no rule knows."""

from __future__ import annotations

from trueup.rules.compilation import coverage, effect
from trueup.rules.definition import Rule, Sighting
from trueup.rules.facts import listed, switched
from trueup.rules.guards import guard
from trueup.rules.log_facts import mention
from trueup.rules.recompile_logs import HARD, Storm, hard_failure, limits_of
from trueup.schema.finding import Evidence, Remedy
from trueup.schema.log import Log
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


def detect_log(log: Log) -> Sighting | None:
    """The warning, or the exception that it becomes under fullgraph, whatever the reason."""
    limit = next(iter(limits_of(log)), None)
    if limit is not None:
        why = f"the last reason was {limit.guard.text}" if limit.guard else "the log does not show the reason"
        return Storm(log, limit, ()).sighting(why, specificity=50)
    hard, told = hard_failure(log), mention(log, HARD.pattern)
    if hard is None or told is None:
        return None
    return Sighting(
        message="A compiled function reached the recompile limit, and fullgraph=True made that an error.",
        evidence=(told.evidence(log),),
        severity="error",
        failure=hard,
        specificity=50,
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
            automatic=True,
            how="torch._dynamo.config.recompile_limit = 64, after a look at the reason",
        ),
    ),
    caution="The last reason tells the class; where a more specific rule fires, that one is meant.",
    residual=True,
    from_record=detect,
    from_log=detect_log,
)
