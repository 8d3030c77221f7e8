"""A compiled FSDP1 model with flattened parameters breaks at every unit."""

from __future__ import annotations

from trueup.rules.breaks import break_evidence, breaks, times
from trueup.rules.compilation import compile_asked, coverage, partly_eager
from trueup.rules.definition import LogText, Rule, Sighting
from trueup.rules.environment_facts import asks_for_compile, asks_for_fsdp, configured, said
from trueup.rules.facts import applied, errors, is_on
from trueup.schema.environment import Environment
from trueup.schema.finding import Evidence, Remedy
from trueup.schema.record import Record


def detect(record: Record) -> Sighting | None:
    found = breaks(record.actual.compile, "flat parameters")
    crashed = errors(record, r"Dynamo only supports FSDP with use_orig_params=True")
    wraps = applied(record, "FullyShardedDataParallel")
    flat = tuple(wrap for wrap in wraps if wrap.detail.get("use_orig_params") is False)
    lost = bool(flat) and compile_asked(record) and partly_eager(record.actual.compile)
    if not (found or crashed or lost):
        return None
    return Sighting(
        message=f"FSDP1 runs with use_orig_params=False under compile: {times(found)} graph breaks at its units.",
        evidence=(
            *(Evidence(what="use_orig_params", value=False, at=wrap.at) for wrap in flat[:1]),
            *break_evidence(found),
            *crashed,
            *coverage(record.actual.compile),
        ),
        confidence="established" if found or crashed else "likely",
        severity="error" if crashed else "warning",
    )


def detect_in_environment(environment: Environment) -> Sighting | None:
    compiled, sharded = asks_for_compile(environment), asks_for_fsdp(environment)
    version, originals = configured(environment, "fsdp_version"), configured(environment, "fsdp_use_orig_params")
    if compiled is None or sharded is None or originals is None or is_on(originals.value):
        return None
    if version is not None and version.value != "1":
        return None
    return Sighting(
        message="FSDP1 is set to flatten parameters (use_orig_params off) and torch.compile to compile them.",
        evidence=(said(originals), said(sharded), said(compiled)),
        confidence="likely",
    )


RULE = Rule(
    id="compile/fsdp1-flattened-parameters",
    title="Compile needs FSDP1 with use_orig_params",
    layers=("compile", "sharding", "trainer"),
    severity="warning",
    silent="Newer torch breaks the graph at every wrapped unit where older torch raised.",
    cause="Flattened parameters hide the original ones, which Dynamo needs to see as attributes of their modules.",
    remedies=(
        Remedy(
            id="fsdp-use-orig-params",
            kind="env-var",
            automatic=True,
            how="FSDP_USE_ORIG_PARAMS=true (accelerate), use_orig_params=True in code, or FSDP2",
        ),
    ),
    caution=(
        "Plugin class, launcher and wizard have different defaults: read the effective value, not the configuration."
    ),
    sources=("https://github.com/huggingface/transformers/issues/24641",),
    explains=("compile/requested-and-not-applied",),
    from_record=detect,
    log=(
        LogText(text="Dynamo only supports FSDP with use_orig_params=True", versions="torch 2.0 and newer"),
        LogText(text="FSDP with use_orig_params=False", versions="torch 2.7 and newer, type of a graph break"),
    ),
    from_environment=detect_in_environment,
)
