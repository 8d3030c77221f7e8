"""accelerate before 1.14 replaces blocks by compile's wrapper before FSDP2 shards them."""

from __future__ import annotations

from trueup.rules.definition import Rule, Sighting
from trueup.rules.environment_facts import asks_for_compile, asks_for_fsdp, configured, installed_as, said
from trueup.rules.facts import applied, installed, is_on, places, switched
from trueup.schema.environment import Environment, Setting
from trueup.schema.finding import Evidence, Remedy
from trueup.schema.record import Applied, Record

BEFORE_IN_PLACE = {"accelerate": "<1.14"}


def detect(record: Record) -> Sighting | None:
    release = installed(record).get("accelerate")
    accelerators = tuple(each for each in applied(record, "Accelerator") if _asks_for_both(each))
    regions, shards = applied(record, "compile_regions"), applied(record, "fully_shard")
    if release is None or not accelerators or not regions or not shards or switched(record, "compile"):
        return None
    if record.order.index(regions[0]) > record.order.index(shards[0]):
        return None
    blocks = regions[0].detail.get("compiled") or "the"
    gathers = record.actual.sharding.collectives.get("all_gather")
    return Sighting(
        message=f"accelerate {release} replaced {blocks} blocks by compile's wrapper "
        "before FSDP2 sharded them: gathering does not overlap with compute.",
        evidence=(
            Evidence(what="accelerate", value=release),
            *places(regions[:1]),
            *places(shards[:1]),
            Evidence(what="all-gathers in the last sampled step", value=gathers),
        ),
        confidence="likely",
    )


def _asks_for_both(accelerator: Applied) -> bool:
    detail = accelerator.detail
    return detail.get("fsdp_version") == 2 and detail.get("distributed_type") == "FSDP" and bool(detail.get("regional"))


def detect_in_environment(environment: Environment) -> Sighting | None:
    compiled, sharded = asks_for_compile(environment), asks_for_fsdp(environment)
    version, regional = configured(environment, "fsdp_version"), _regional(environment)
    package = environment.packages.get("accelerate")
    if compiled is None or sharded is None or version is None or version.value != "2" or package is None:
        return None
    if regional is None or not is_on(regional.value):
        return None
    return Sighting(
        message=f"FSDP2 and regional compilation are on, and accelerate {package.version} replaces blocks by compile's "
        "wrapper before it shards them.",
        evidence=(installed_as(package), said(regional), said(sharded), said(compiled)),
        confidence="likely",
    )


def _regional(environment: Environment) -> Setting | None:
    """The key that accelerate's wizard writes, and the one that its plugin reads."""
    return configured(environment, "dynamo_use_regional_compilation") or configured(
        environment, "use_regional_compilation"
    )


RULE = Rule(
    id="compile/regional-compile-bypasses-fsdp-hooks",
    title="Compiled block wrapper loses FSDP2 overlap",
    layers=("compile", "sharding", "trainer"),
    severity="warning",
    silent="Nothing is printed; steps take longer than without compile.",
    cause=(
        "Blocks replaced by compile's wrapper are not called as modules are, so that the hooks of FSDP2, which gather "
        "and prefetch block by block, do not run as intended."
    ),
    remedies=(
        Remedy(
            id="upgrade-accelerate",
            kind="install",
            automatic=False,
            how="accelerate >= 1.14, which compiles blocks in place",
        ),
        Remedy(
            id="compile-blocks-in-place",
            kind="in-process",
            automatic=True,
            how="block.compile() for each block before accelerator.prepare, and no dynamo plugin",
        ),
    ),
    caution=(
        "The loss of speed was measured upstream; with torch 2.13 every block was seen to be gathered. Measure a step "
        "without compile."
    ),
    sources=("https://github.com/huggingface/accelerate/pull/4022",),
    versions=BEFORE_IN_PLACE,
    from_record=detect,
    from_environment=detect_in_environment,
)
