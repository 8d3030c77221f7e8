"""Memory-efficient loading is on, and every rank allocates the weights all the same."""

from __future__ import annotations

from trueup.rules.definition import Rule, Sighting
from trueup.rules.environment_facts import asks_for_fsdp, configured, installed_as, said, version_of
from trueup.rules.facts import is_on
from trueup.schema.environment import Environment
from trueup.schema.finding import Remedy


def detect_in_environment(environment: Environment) -> Sighting | None:
    sharded, efficient = asks_for_fsdp(environment), configured(environment, "fsdp_cpu_ram_efficient_loading")
    transformers = version_of(environment, "transformers")
    if sharded is None or transformers is None or efficient is None or not is_on(efficient.value):
        return None
    if not (5, 0) <= transformers.release[:2] < (5, 20):
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
        "The loader of transformers 5.0 reads the checkpoint before it looks at the flag, and fills missing weights "
        "with real zeros on ranks that should stay on meta."
    ),
    remedies=(
        Remedy(id="upgrade-transformers", kind="install", automatic=False, how='pip install -U "transformers>=5.2"'),
        Remedy(
            id="load-on-rank-zero",
            kind="code",
            automatic=False,
            how="build the model on meta on ranks other than 0 and broadcast, or let the ranks load one after the "
            "other",
        ),
    ),
    caution="Measure the peak of host memory of each rank.",
    sources=("https://github.com/modelscope/ms-swift/pull/9982",),
    versions={"transformers": ">=5.0,<5.2"},
    from_environment=detect_in_environment,
)
