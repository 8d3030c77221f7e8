"""accelerate launch --cpu starts one process, whatever number was asked for."""

from __future__ import annotations

from trueup.rules.definition import Rule, Sighting
from trueup.rules.facts import applied, has_gpu, is_on, variable
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


RULE = Rule(
    id="launcher/cpu-flag-runs-single-process",
    title="accelerate launch --cpu ignores the number of processes",
    layers=("launcher", "trainer"),
    severity="warning",
    silent="No rank variables are set and nothing is said about it; the loss curve is that of one process.",
    cause=(
        "Without an MPI host file the CPU path of accelerate launch uses its simple launcher, which starts "
        "the script once."
    ),
    remedies=(
        Remedy(
            id="launch-with-torchrun",
            kind="config-edit",
            automatic=False,
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
)
