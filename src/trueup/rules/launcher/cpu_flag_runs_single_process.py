"""accelerate launch --cpu starts one process, whatever number was asked for."""

from __future__ import annotations

from trueup.rules.definition import Rule, Sighting
from trueup.rules.environment_facts import configured, installed_as, processes, said
from trueup.rules.facts import applied, has_gpu, is_on, variable
from trueup.schema.environment import Environment
from trueup.schema.finding import Evidence, Remedy
from trueup.schema.record import Record


def detect(record: Record) -> Sighting | None:
    launch = record.launch
    wanted = launch.requested_world_size or 1
    if not any("accelerate" in name for name in launch.launchers) or wanted < 2 or launch.world_size != 1:
        return None
    if any((rank.world_size or 1) > 1 for rank in record.ranks) or record.exit.signal:
        return None
    on_cpu = "--cpu" in record.command or is_on(variable(record, "ACCELERATE_USE_CPU"))
    if has_gpu(record) and not on_cpu:
        return None
    kinds = [str(each.detail.get("distributed_type")) for each in applied(record, "Accelerator")]
    return Sighting(
        message=f"accelerate launch was asked for {wanted} processes on a CPU and started one.",
        evidence=(
            Evidence(what=f"processes requested ({launch.source or 'launcher'})", value=wanted),
            Evidence(what="processes that trained", value=1),
            *(Evidence(what="distributed type of the Accelerator", value=kind) for kind in kinds[:1]),
        ),
        confidence="established" if on_cpu else "likely",
    )


def detect_in_environment(environment: Environment) -> Sighting | None:
    accelerate, on_cpu, wanted = (
        environment.packages.get("accelerate"),
        configured(environment, "use_cpu"),
        processes(environment),
    )
    kind = configured(environment, "distributed_type")
    by_mpi = configured(environment, "mpirun_hostfile")
    cpu = [
        each
        for each in (on_cpu, kind)
        if each is not None and (each.value == "MULTI_CPU" or (each is on_cpu and is_on(each.value)))
    ]
    if accelerate is None or wanted is None or wanted.source == "environment" or not cpu or by_mpi is not None:
        return None
    return Sighting(
        message=f"accelerate launch is configured for {wanted.value} processes on a CPU and will start one.",
        evidence=(said(wanted), *map(said, cpu), installed_as(accelerate)),
        confidence="likely",
    )


RULE = Rule(
    id="launcher/cpu-flag-runs-single-process",
    title="accelerate launch --cpu ignores the number of processes",
    layers=("launcher", "trainer"),
    severity="warning",
    silent="No rank variables are set and nothing is said about it; the loss curve is that of one process.",
    cause=(
        "Without an MPI host file the CPU path of accelerate launch uses its simple launcher, which starts the script "
        "once."
    ),
    remedies=(
        Remedy(
            id="launch-with-torchrun",
            kind="config-edit",
            automatic=True,
            how="torchrun --nproc-per-node N script.py; accelerate then detects MULTI_CPU",
        ),
    ),
    caution="--cpu together with --multi_gpu or --use_fsdp is refused, not ignored.",
    explains=(
        "launcher/world-size-differs",
        "sharding/requested-and-not-applied",
        "sharding/fsdp-plugin-ignored-on-cpu",
    ),
    from_record=detect,
    from_environment=detect_in_environment,
)
