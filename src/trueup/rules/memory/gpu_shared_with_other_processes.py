"""Other processes hold the memory of the GPU."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trueup.rules.definition import LogText, Rule, Sighting
from trueup.rules.facts import percent
from trueup.schema.environment import Environment
from trueup.schema.finding import Evidence, Remedy
from trueup.schema.log import Log

if TYPE_CHECKING:
    from trueup.rules.out_of_memory import OutOfMemory

LARGE_PART = 0.2
"""Of the device, held by others, from which they are the reason."""


def detect_log(log: Log) -> Sighting | None:
    from trueup.rules.out_of_memory import out_of_memory

    for memory in out_of_memory(log):
        held = memory.held_by_others
        if held is None or not memory.total or held / memory.total < LARGE_PART:
            continue
        if not memory.others and (memory.own or 0) > held:
            continue  # the driver's context and graphs are not named either
        return Sighting(
            message=f"Other processes hold {percent(min(1.0, held / memory.total))} of the GPU's memory.",
            evidence=(memory.seen.evidence(log), *numbers(memory, held)),
            confidence="established" if memory.others else "likely",
            failure=memory.seen.failure,
        )
    return None


def numbers(memory: OutOfMemory, held: float) -> tuple[Evidence, ...]:
    processes = ", ".join(map(str, memory.others))
    return (
        Evidence(what=f"bytes held by other processes{f' ({processes})' if processes else ''}", value=round(held)),
        Evidence(what="bytes of the device", value=round(memory.total or 0)),
    )


NOTABLE = 0.1
"""Share of a GPU's memory; a display and an idle context take less."""


def detect_in_environment(environment: Environment) -> Sighting | None:
    used = [
        (gpu, gpu.memory_used_bytes / gpu.memory_bytes)
        for gpu in environment.gpus
        if gpu.memory_bytes and gpu.memory_used_bytes and gpu.memory_used_bytes / gpu.memory_bytes >= NOTABLE
    ]
    if not used:
        return None
    gpu, share = max(used, key=lambda each: each[1])
    return Sighting(
        message=f"{round(share * 100)} % of the memory of GPU {gpu.index} is taken before this job starts.",
        evidence=tuple(
            Evidence(what=f"bytes in use on GPU {each.index} ({each.name})", value=each.memory_used_bytes)
            for each, _ in used
        ),
        confidence="likely",
        severity="warning",
        remedies=(
            Remedy(
                id="find-gpu-holders",
                kind="code",
                automatic=False,
                how="nvidia-smi --query-compute-apps=pid,used_memory,process_name --format=csv shows who holds it",
            ),
        ),
    )


RULE = Rule(
    id="memory/gpu-shared-with-other-processes",
    title="Other processes hold the GPU's memory",
    layers=("memory", "environment"),
    severity="error",
    silent="",
    cause="Several jobs, test workers, ranks or leftover processes share the device.",
    remedies=(
        Remedy(
            id="end-leftovers",
            kind="code",
            automatic=False,
            how="nvidia-smi --query-compute-apps=pid,used_memory,name --format=csv; end leftovers of your own",
        ),
        Remedy(
            id="choose-free-device",
            kind="env-var",
            automatic=False,
            how="CUDA_VISIBLE_DEVICES=N with a GPU that is free",
        ),
        Remedy(
            id="limit-memory-fraction",
            kind="code",
            automatic=False,
            how="torch.cuda.set_per_process_memory_fraction(0.4), and fewer workers on one GPU, where it is shared as "
            "planned",
        ),
    ),
    caution="The advice about the allocator in the same message does not help here.",
    log=(
        LogText(
            text="CUDA-capable device(s) is/are busy or unavailable",
            strength="supporting",
            versions="CUDA, a device in exclusive mode",
        ),
    ),
    from_log=detect_log,
    from_environment=detect_in_environment,
)
