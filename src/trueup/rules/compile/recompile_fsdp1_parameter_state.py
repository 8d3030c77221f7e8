"""FSDP1 changes what guards look at while it shards and gathers parameters."""

from __future__ import annotations

from trueup.rules.definition import Rule, Sighting
from trueup.rules.recompile_logs import storm
from trueup.schema.finding import Remedy
from trueup.schema.log import Log

STATE = ("_fsdp_wrapped_module", "_flat_param", "_fsdp_", "_is_root", "_handle", "_unsharded", "FlatParameter")


def detect_log(log: Log) -> Sighting | None:
    """A guard on the state that FSDP1 keeps on modules."""
    found = storm(log, "attribute", "state", "parameter size", "size", "mode", "other")
    if found is None or not any(name in each.text for each in found.guards for name in STATE):
        return None
    text = next(each.text for each in found.guards if any(name in each.text for name in STATE))
    return found.sighting(f"state of FSDP1 changed ({text})", confidence="likely", specificity=1060)


RULE = Rule(
    id="compile/recompile-fsdp1-parameter-state",
    title="FSDP1 units recompile as parameters change state",
    layers=("compile", "sharding"),
    severity="warning",
    silent="Slow steps for each wrapped block, and nothing that names FSDP.",
    cause=(
        "FSDP1 swaps sharded for gathered views of parameters and keeps hook state on the module, which guards watch."
    ),
    remedies=(
        Remedy(
            id="fsdp2",
            kind="config-edit",
            automatic=False,
            how="fsdp_version: 2 (accelerate), or block.compile() for each block, then fully_shard",
        ),
        Remedy(
            id="compile-inner-module",
            kind="code",
            automatic=False,
            how="compile the module inside of each FSDP wrapper instead of the wrapper",
        ),
    ),
    caution="The cause is inferred, not confirmed upstream: look at the guard that is printed.",
    sources=("https://github.com/pytorch/pytorch/issues/138813",),
    explains=("compile/recompile-limit-reached",),
    from_log=detect_log,
)
