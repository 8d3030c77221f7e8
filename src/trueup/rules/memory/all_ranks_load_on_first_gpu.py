"""Ranks run out of memory on GPU 0 although they have a GPU of their own."""

from __future__ import annotations

from trueup.rules.definition import Rule, Sighting
from trueup.schema.finding import Evidence, Remedy
from trueup.schema.record import Record


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
)
