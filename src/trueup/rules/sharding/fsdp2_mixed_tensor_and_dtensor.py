"""A sharded parameter met a plain tensor outside of its unit."""

from __future__ import annotations

from trueup.rules.definition import LogText, Rule, Sighting
from trueup.rules.facts import applied, errors, places
from trueup.rules.log_facts import mention
from trueup.schema.finding import Evidence, Remedy
from trueup.schema.log import Log
from trueup.schema.record import Record

TEXT = r"got mixed torch\.Tensor and DTensor|need to convert all torch\.Tensor to DTensor"
MIXED = r"(?:(?P<op>[\w.]+): )?got mixed (?:torch\.Tensor and DTensor|DTensor and torch\.Tensor|distributed)"


def detect(record: Record) -> Sighting | None:
    crashed = errors(record, TEXT)
    if not crashed:
        return None
    return Sighting(
        message=(
            "An operator was given a sharded parameter and a plain tensor: the parameter was used outside of its "
            "FSDP2 unit."
        ),
        evidence=(*crashed, *places(applied(record, "fully_shard", "parallelize_module", "get_peft_model")[:3])),
    )


def detect_log(log: Log) -> Sighting | None:
    seen = mention(log, MIXED)
    if seen is None:
        return None
    operator = seen.found["op"]
    return Sighting(
        message=f"{operator or 'An operator'} received a sharded parameter and a plain tensor.",
        evidence=(seen.evidence(log), *((Evidence(what="operator", value=operator),) if operator else ())),
        failure=seen.failure,
    )


RULE = Rule(
    id="sharding/fsdp2-mixed-tensor-and-dtensor",
    title="Sharded parameter used outside its FSDP2 unit",
    layers=("sharding", "adapter", "trainer"),
    severity="error",
    silent="",
    cause=(
        "FSDP2 gathers parameters in the hooks of forward; a method other than forward, a root that was not sharded, "
        "or an adapter attached after sharding meets the shards themselves."
    ),
    remedies=(
        Remedy(
            id="shard-root",
            kind="in-process",
            automatic=True,
            how="fully_shard(model) after its blocks, and before the optimizer",
        ),
        Remedy(
            id="register-forward-method",
            kind="in-process",
            automatic=True,
            how=(
                "torch.distributed.fsdp.register_fsdp_forward_method(model, name) for entry points other than "
                "forward; attach adapters before sharding"
            ),
        ),
    ),
    caution="Tensor-parallel code with missing placements raises the same text.",
    sources=("https://github.com/pytorch/pytorch/issues/153354",),
    from_record=detect,
    log=(
        LogText(text="'weight' must be 2-D", strength="supporting", versions="a shard stands where the weight should"),
        LogText(text="got mixed torch.Tensor and DTensor", versions="torch 2.2 or newer"),
        LogText(
            text="need to convert all torch.Tensor to DTensor before calling distributed operators",
            versions="torch 2.2 or newer",
        ),
        LogText(
            text="aten.<operator>: got mixed distributed tensor and non distributed tensor",
            versions="torch 2.0 and 2.1",
        ),
    ),
    from_log=detect_log,
)
