"""accelerate drops its FSDP plugin on a CPU and runs DDP, or nothing."""

from __future__ import annotations

from trueup.rules.definition import Rule, Sighting
from trueup.rules.environment_facts import asks_for_fsdp, configured, installed_as, said, torch_cuda
from trueup.rules.facts import applied, asked, has_gpu, is_on, trained
from trueup.schema.environment import Environment
from trueup.schema.finding import Evidence, Remedy
from trueup.schema.record import Record


def detect(record: Record) -> Sighting | None:
    requested = str(asked(record, "sharding", "strategy") or "")
    accelerators = applied(record, "Accelerator")
    sharding = record.actual.sharding
    if not requested.upper().startswith("FSDP") or not accelerators:
        return None
    kind = str(accelerators[-1].detail.get("distributed_type") or "").rpartition(".")[2]
    sharded = applied(record, "fully_shard", "FullyShardedDataParallel") or (sharding.fraction or 0) > 0
    if kind not in ("MULTI_CPU", "NO") or sharded or not trained(record):
        return None
    if kind == "NO" and (has_gpu(record) or (record.launch.world_size or 1) > 1):
        return None
    return Sighting(
        message=f"{requested} was requested through accelerate, whose distributed type is {kind}: "
        f"{sharding.strategy or 'nothing'} ran and 0 % of the parameters are sharded.",
        evidence=(
            Evidence(what="sharding requested", value=requested),
            Evidence(what="distributed type of the Accelerator", value=kind, at=accelerators[-1].at),
            Evidence(what="sharding that ran", value=sharding.strategy),
            Evidence(what="share of parameter bytes sharded", value=sharding.fraction),
        ),
    )


def detect_in_environment(environment: Environment) -> Sighting | None:
    sharded, accelerate = asks_for_fsdp(environment), environment.packages.get("accelerate")
    on_cpu = configured(environment, "use_cpu")
    forced = on_cpu is not None and is_on(on_cpu.value)
    if (
        sharded is None
        or accelerate is None
        or not (forced or (not environment.gpus and torch_cuda(environment) is None))
    ):
        return None
    return Sighting(
        message="FSDP is asked for where there is no GPU to use; accelerate will run DDP or nothing instead.",
        evidence=(
            said(sharded),
            *((said(on_cpu),) if forced and on_cpu else (Evidence(what="GPUs", value=len(environment.gpus)),)),
            installed_as(accelerate),
        ),
        confidence="likely" if forced else "possible",
        severity="warning" if forced else "note",
    )


RULE = Rule(
    id="sharding/fsdp-plugin-ignored-on-cpu",
    title="accelerate silently replaces FSDP by DDP on CPU",
    layers=("sharding", "launcher", "trainer"),
    severity="warning",
    silent="The run passes, and nothing is printed; the model is a DistributedDataParallel or unwrapped.",
    cause=(
        "AcceleratorState enables the FSDP plugin for GPU-like distributed types only; on a CPU the type is MULTI_CPU "
        "and the plugin is dropped."
    ),
    remedies=(
        Remedy(
            id="fully-shard-on-cpu",
            kind="in-process",
            automatic=True,
            how=(
                "fully_shard on a CPU device mesh with gloo before the optimizer is made, and the model left out of "
                "prepare"
            ),
        ),
    ),
    caution="Such a CPU run says nothing about whether the FSDP path works.",
    explains=("sharding/requested-and-not-applied", "trainer/fsdp-plugin-argument-overwritten"),
    from_record=detect,
    from_environment=detect_in_environment,
)
