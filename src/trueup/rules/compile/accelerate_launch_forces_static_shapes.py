"""accelerate launch exports dynamic=False although nobody asked for it."""

from __future__ import annotations

from trueup.rules.compilation import compile_calls, effect, storm_evidence
from trueup.rules.definition import Rule, Sighting
from trueup.rules.facts import is_on, variable
from trueup.rules.guards import storms
from trueup.schema.finding import Evidence, Remedy
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
            automatic=False,
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
)
