"""Memory-efficient loading is on, and every rank allocates the weights all the same."""

from __future__ import annotations

from trueup.rules.definition import Rule, Sighting
from trueup.rules.environment_facts import asks_for_fsdp, configured, installed_as, said, version_of
from trueup.rules.facts import installed, is_on
from trueup.rules.loading import HEAVY, efficient_loading, ranks_with_all
from trueup.schema.environment import Environment
from trueup.schema.finding import Evidence, Remedy
from trueup.schema.record import Record

ON_RANK_ZERO = Remedy(
    id="load-on-rank-zero",
    kind="code",
    automatic=False,
    how="build the model on meta on ranks other than 0 and broadcast, or let the ranks load one after the other",
)


def detect(record: Record) -> Sighting | None:
    """Real weights on several ranks of a host, measured; so whatever the version."""
    ranks, memory = ranks_with_all(record), record.actual.memory
    if len(ranks) < 2 or not efficient_loading(record):
        return None
    total, version = memory.loaded_total or 0, installed(record).get("transformers", "")
    return Sighting(
        message=f"Memory-efficient loading is on, and each of {len(ranks)} ranks loaded all weights into host memory: "
        f"{len(ranks)} x {total / 1e6:.0f} MB, where one copy was asked for.",
        evidence=(
            Evidence(what="bytes of weights loaded by each rank", value=total, at=memory.loaded_at, ranks=ranks),
            Evidence(what="FSDP_CPU_RAM_EFFICIENT_LOADING", value=True),
            Evidence(what="version of transformers", value=version or None),
        ),
        severity="warning" if total * (len(ranks) - 1) >= HEAVY else "note",
    )


def detect_in_environment(environment: Environment) -> Sighting | None:
    sharded, efficient = asks_for_fsdp(environment), configured(environment, "fsdp_cpu_ram_efficient_loading")
    transformers = version_of(environment, "transformers")
    if sharded is None or transformers is None or efficient is None or not is_on(efficient.value):
        return None
    if not (5, 0) <= transformers.release[:2] < (5, 2):
        return None
    return Sighting(
        message=f"transformers {transformers} fills weights on ranks that should keep them empty while loading.",
        evidence=(installed_as(environment.packages["transformers"]), said(efficient)),
        confidence="possible",
        severity="note",
    )


RULE = Rule(
    id="memory/ram-efficient-loading-materializes-weights",
    title="Memory-efficient loading still allocates weights on every rank",
    layers=("memory", "sharding", "trainer", "environment"),
    severity="warning",
    silent="Every rank takes host memory of the model's size for the time of loading, and then gives it back.",
    cause=(
        "The loader of transformers 5 reads the checkpoint on every rank whatever the flag says (seen in 5.24); that "
        "of 5.0 also fills missing weights with real zeros on ranks that should stay on meta."
    ),
    remedies=(ON_RANK_ZERO,),
    caution="Measure the peak of host memory of each rank.",
    sources=("https://github.com/modelscope/ms-swift/pull/9982",),
    from_record=detect,
    from_environment=detect_in_environment,
)
