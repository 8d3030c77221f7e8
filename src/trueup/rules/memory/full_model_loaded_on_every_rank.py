"""Every rank loads the complete weights into host memory."""

from __future__ import annotations

from trueup.rules.definition import LogText, Rule, Sighting
from trueup.rules.environment_facts import asks_for_fsdp, configured, processes, said
from trueup.rules.facts import is_on
from trueup.rules.loading import HEAVY, efficient_loading, ranks_with_all
from trueup.rules.log_facts import is_build, mention
from trueup.schema.environment import Environment
from trueup.schema.finding import Evidence, Remedy
from trueup.schema.log import Log
from trueup.schema.record import Record


def detect(record: Record) -> Sighting | None:
    ranks, memory = ranks_with_all(record), record.actual.memory
    if len(ranks) < 2 or efficient_loading(record):
        return None
    total = memory.loaded_total or 0
    return Sighting(
        message=f"Each of {len(ranks)} ranks loaded the whole model into host memory before sharding it: "
        f"{len(ranks)} x {total / 1e6:.0f} MB, where one copy would do.",
        evidence=(
            Evidence(what="bytes of weights loaded by each rank", value=total, at=memory.loaded_at, ranks=ranks),
            Evidence(what="strategy", value=record.actual.sharding.strategy),
        ),
        severity="warning" if total * (len(ranks) - 1) >= HEAVY else "note",
    )


KILLED = (
    r"(?:exitcode ?: ?-9|Signal 9 \(SIGKILL\)|died with <Signals\.SIGKILL|oom-kill|OOM killer|Out of memory: "
    r"Killed process)"
)


def detect_log(log: Log) -> Sighting | None:
    """A rank ended by the kernel. Nothing in its log tells what it had in memory, so this is a possibility only."""
    seen = mention(log, KILLED)
    if seen is None or is_build(log) or any(failure.role == "root" and failure.frames for failure in log.failures):
        return None
    return Sighting(
        message="A rank was killed from outside, as the kernel does when host memory ends.",
        evidence=(seen.evidence(log),),
        confidence="possible",
        failure=seen.failure,
    )


def detect_in_environment(environment: Environment) -> Sighting | None:
    sharded, efficient = asks_for_fsdp(environment), configured(environment, "fsdp_cpu_ram_efficient_loading")
    several = processes(environment)
    if sharded is None or several is None or efficient is None or is_on(efficient.value):
        return None
    return Sighting(
        message=f"Memory-efficient loading is off: each of {several.value} processes will load the whole model.",
        evidence=(said(efficient), said(sharded), said(several, "processes")),
        confidence="likely",
        severity="note",
    )


RULE = Rule(
    id="memory/full-model-loaded-on-every-rank",
    title="Every rank loads the complete weights into host memory",
    layers=("memory", "sharding", "trainer", "environment"),
    severity="error",
    silent="Host memory is the number of local ranks times the model, for the time of loading.",
    cause=(
        "Loading is not memory-efficient: from_pretrained runs before ACCELERATE_USE_FSDP and "
        "FSDP_CPU_RAM_EFFICIENT_LOADING are set, or the script loads the model in each process."
    ),
    remedies=(
        Remedy(
            id="ram-efficient-loading",
            kind="env-var",
            automatic=False,
            how="accelerate launch --use_fsdp --fsdp_cpu_ram_efficient_loading true --fsdp_sync_module_states true",
        ),
        Remedy(
            id="load-on-rank-zero",
            kind="code",
            automatic=False,
            how="load on rank 0, with torch.device('meta') on the others, and set_model_state_dict(..., "
            "options=StateDictOptions(full_state_dict=True, broadcast_from_rank0=True))",
        ),
    ),
    caution="Where the variables are set and all ranks still use that much, the loader itself materialises the "
    "weights.",
    sources=("https://github.com/pytorch/pytorch/issues/104755",),
    log=(
        LogText(
            text="DefaultCPUAllocator: can't allocate memory",
            strength="supporting",
            versions="torch any",
        ),
        LogText(
            text="DefaultCPUAllocator: not enough memory",
            strength="supporting",
            versions="torch any",
        ),
    ),
    from_record=detect,
    from_log=detect_log,
    from_environment=detect_in_environment,
)
