"""Ranks run out of memory on GPU 0 although they have a GPU of their own."""

from __future__ import annotations

from collections.abc import Mapping

from trueup.rules.definition import Rule, Sighting
from trueup.rules.log_facts import passes
from trueup.rules.log_parts import ranks_of
from trueup.rules.out_of_memory import OutOfMemory, out_of_memory
from trueup.schema.finding import Evidence, Remedy
from trueup.schema.log import Log
from trueup.schema.record import Record

LOADING = (
    "load_file",
    "safe_open",
    "load_model",
    "load",
    "_load",
    "from_pretrained",
    "load_checkpoint",
    "load_state_dict",
)


def detect(record: Record) -> Sighting | None:
    strangers = [
        rank
        for rank in record.ranks
        if (rank.local_rank or 0) > 0
        and rank.steps == 0
        and rank.error
        and "out of memory" in rank.error
        and "GPU 0 has a total capacity" in rank.error
    ]
    if not strangers:
        return None
    numbers = tuple(rank.rank for rank in strangers)
    return Sighting(
        message=f"{len(numbers)} ranks with a GPU of their own ran out of memory on GPU 0 before the first step.",
        evidence=(Evidence(what="out of memory on GPU 0 before the first step", value=True, ranks=numbers),),
        confidence="likely",
    )


def detect_log(log: Log) -> Sighting | None:
    """A rank other than the first that fails on GPU 0, or several processes on GPU 0 while weights are loaded."""
    for memory in out_of_memory(log):
        ranks = tuple(rank for rank in ranks_of(memory.seen.failure) if rank > 0)
        loading = passes(memory.seen.failure, *LOADING)
        if memory.gpu != 0 or not ((ranks or len(memory.others) > 1) and loading):
            if memory.gpu == 0 and alike(memory.others):
                return processes_alike(log, memory)
            continue
        who = "other ranks" if ranks else f"{len(memory.others) + 1} processes"
        return Sighting(
            message=f"Weights are loaded onto GPU 0 by {who}.",
            evidence=(
                memory.seen.evidence(log),
                Evidence(what="loaded in", value=loading.function if loading else None, ranks=ranks),
            ),
            confidence="likely",
            failure=memory.seen.failure,
            specificity=1100,
        )
    return None


def alike(processes: Mapping[int, float]) -> bool:
    """True for three and more processes with the same memory in use, as ranks of one job have."""
    sizes = sorted(processes.values())
    return len(sizes) >= 3 and sizes[-1] <= 1.05 * sizes[0]


def processes_alike(log: Log, memory: OutOfMemory) -> Sighting:
    """Only a possibility: workers of a test run look the same."""
    return Sighting(
        message=f"{len(memory.others)} other processes have the same memory in use on GPU 0, as ranks of one job "
        "would.",
        evidence=(memory.seen.evidence(log),),
        confidence="possible",
        failure=memory.seen.failure,
        specificity=1100,
    )


RULE = Rule(
    id="memory/all-ranks-load-on-first-gpu",
    title="Every rank loads the checkpoint onto the first GPU",
    layers=("memory", "sharding", "trainer", "environment"),
    severity="error",
    silent="",
    cause="A load with device cuda and no index resolves to device 0 in every process.",
    remedies=(
        Remedy(
            id="load-on-own-device",
            kind="in-process",
            automatic=False,
            how="torch.cuda.set_device(LOCAL_RANK) first, and map_location=f'cuda:{LOCAL_RANK}' or cpu",
        ),
    ),
    caution="Where each process sees one GPU only, its own GPU is called 0.",
    from_record=detect,
    from_log=detect_log,
)
