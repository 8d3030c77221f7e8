"""accelerate launch exports dynamic=False although nobody asked for it."""

from __future__ import annotations

from trueup.rules.compilation import compile_calls, effect, storm_evidence
from trueup.rules.definition import Rule, Sighting
from trueup.rules.environment_facts import asks_for_compile, configured, installed_as, said
from trueup.rules.facts import is_on, variable
from trueup.rules.guards import storms
from trueup.rules.log_facts import mention, passes
from trueup.schema.environment import Environment
from trueup.schema.finding import Evidence, Remedy
from trueup.schema.log import Log
from trueup.schema.record import Record

VARIABLE = "ACCELERATE_DYNAMO_USE_DYNAMIC"


def detect(record: Record) -> Sighting | None:
    value = variable(record, VARIABLE)
    compile = record.actual.compile
    found = storms(compile, "size", at_least=2)
    if value is None or is_on(value) or not found:
        return None
    dynamic = [call.detail["dynamic"] for call in compile_calls(record) if "dynamic" in call.detail]
    if dynamic and False not in dynamic:
        return None  # the variable is set, and the code compiled without it
    return Sighting(
        message=f"accelerate launch set dynamic=False, and {found[0].function} was compiled again "
        f"{found[0].count} times, once per new size{effect(compile)}.",
        evidence=(Evidence(what=f"environment variable {VARIABLE}", value=value), *storm_evidence(found, compile)),
        confidence="established" if dynamic else "likely",
    )


def detect_in_environment(environment: Environment) -> Sighting | None:
    compiled, dynamic = asks_for_compile(environment), configured(environment, "dynamo_use_dynamic")
    accelerate = environment.packages.get("accelerate")
    if accelerate is None or compiled is None or (dynamic is not None and is_on(dynamic.value)):
        return None
    return Sighting(
        message="accelerate launch will compile for fixed shapes: each new sequence length compiles the model again.",
        evidence=(installed_as(accelerate), said(compiled), *((said(dynamic),) if dynamic else ())),
        confidence="possible",
        severity="note",
    )


LAUNCHER = r"accelerate[/.]commands[/.]launch|accelerate launch|ACCELERATE_DYNAMO_USE_DYNAMIC"


def detect_log(log: Log) -> Sighting | None:
    """Recompiles for sizes, up to the limit, in a job that accelerate launch started."""
    from trueup.rules.recompile_logs import storm

    found = storm(log, "size")
    launched = mention(log, LAUNCHER) is not None or any(
        passes(each, "accelerate/commands/launch.py") for each in log.failures
    )
    if found is None or found.confidence == "possible" or not launched:
        return None
    return found.sighting(
        "accelerate launch compiles with dynamic=False unless told otherwise", confidence="likely", specificity=1050
    )


RULE = Rule(
    id="compile/accelerate-launch-forces-static-shapes",
    title="accelerate launch forces static shapes",
    layers=("compile", "launcher", "trainer"),
    severity="warning",
    silent="The same script compiles twice under torchrun; nothing says that the launcher changed the shapes policy.",
    cause=(
        "accelerate launch always exports ACCELERATE_DYNAMO_USE_DYNAMIC, False unless --dynamo_use_dynamic "
        "is given, and TorchDynamoPlugin turns that into dynamic=False where unset would mean automatic."
    ),
    remedies=(
        Remedy(
            id="unset-accelerate-dynamic",
            kind="in-process",
            automatic=True,
            how='os.environ.pop("ACCELERATE_DYNAMO_USE_DYNAMIC", None) before the Accelerator or Trainer is made',
        ),
        Remedy(
            id="dynamo-use-dynamic",
            kind="config-edit",
            automatic=False,
            how="accelerate launch --dynamo_use_dynamic ..., or launch with torchrun",
        ),
    ),
    caution=(
        "Setting the variable outside has no effect, the launcher overwrites it. Inputs of one size are not affected."
    ),
    explains=(
        "compile/recompile-dynamic-shape",
        "compile/recompile-limit-reached",
        "compile/requested-and-not-applied",
    ),
    from_record=detect,
    from_environment=detect_in_environment,
    from_log=detect_log,
)
