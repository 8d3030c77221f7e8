"""Several models of one class fill one compile cache together."""

from __future__ import annotations

from trueup.rules.compilation import DEFAULT_LIMIT, effect, storm_evidence, twins, variants_expected
from trueup.rules.definition import Rule, Sighting
from trueup.rules.guards import Storm, storms
from trueup.rules.log_facts import mentions
from trueup.rules.recompile_logs import storm
from trueup.schema.finding import Evidence, Remedy
from trueup.schema.log import Log
from trueup.schema.record import Record


def detect(record: Record) -> Sighting | None:
    compile = record.actual.compile
    several = twins(record)
    found = storms(compile, "mode", "parameter size", "size", "other", at_least=4)
    if not several or not found:
        return None
    name, number = max(several.items(), key=lambda item: item[1])
    limited = any(storm.limit for storm in found)
    if not limited and variants_expected(record):
        return None
    ahead = not limited and _limit_lies_ahead(record, number, found[0])
    more = f"; a variant for each model passes the limit of {DEFAULT_LIMIT} after the last step of this run" * ahead
    return Sighting(
        message=f"{number} models of class {name} share the compile cache of {found[0].function}, which was compiled "
        f"again {found[0].count} times{more or effect(compile)}.",
        evidence=(Evidence(what=f"models of class {name}", value=number), *storm_evidence(found, compile)),
        confidence="likely" if limited or ahead else "possible",
        severity="warning" if limited or ahead else "note",
    )


def _limit_lies_ahead(record: Record, models: int, storm: Storm) -> bool:
    """True when a run that was cut short has compiled for the sizes of one model after the other, and more models than
    the limit allows are there."""
    one_each = all(guard.kind == "parameter size" for guard in storm.guards)
    return record.exit.reason == "steps reached" and models > DEFAULT_LIMIT and one_each


SEVERAL = r"\b(?P<model>ref(?:erence)?|reward|critic|value|policy|actor|teacher|student|target|ema)_?[Mm]odel\b"


def detect_log(log: Log) -> Sighting | None:
    """The limit, for a mode in which models differ, in a job that names several models."""
    found = storm(log, "mode")
    if found is None or found.limit is None:
        return None
    models = {each.found["model"].lower() for each in mentions(log, SEVERAL)}
    if len(models) < 2:
        return None
    return found.sighting(
        f"the modes of several models ({', '.join(sorted(models))}) are added up", confidence="likely", specificity=1050
    )


RULE = Rule(
    id="compile/recompile-shared-code-object",
    title="Several models of one class share a compile cache",
    layers=("compile", "trainer"),
    severity="warning",
    silent="Each model alone stays below the limit; together they pass it, and the rest runs eager.",
    cause=(
        "The cache belongs to the code object, not to the model, so variants for grad mode, requires_grad "
        "and shapes of all models of a class are added up against one limit."
    ),
    remedies=(
        Remedy(
            id="isolate-recompiles",
            kind="in-process",
            automatic=True,
            how="model.compile(isolate_recompiles=True): graphs and a limit of its own for each model (torch 2.13)",
        ),
        Remedy(
            id="raise-recompile-limit",
            kind="in-process",
            automatic=True,
            how="torch._dynamo.config.recompile_limit = 8 x number of models",
        ),
        Remedy(
            id="compile-subclass-per-model",
            kind="code",
            automatic=False,
            how="compile a subclass or function object of its own for each model; keep grad mode and shapes uniform",
        ),
    ),
    caution="With one model in the process it is another recompile class.",
    sources=("https://github.com/pytorch/pytorch/issues/141589",),
    explains=(
        "compile/recompile-limit-reached",
        "compile/requested-and-not-applied",
        "compile/recompile-grad-or-train-mode-toggle",
    ),
    from_record=detect,
    from_log=detect_log,
)
