"""Another number of processes trained together than was asked for."""

from __future__ import annotations

from trueup.rules.definition import Rule, Sighting
from trueup.schema.finding import Evidence, Remedy
from trueup.schema.record import Record


def detect(record: Record) -> Sighting | None:
    return apart(record) or fewer(record)


def apart(record: Record) -> Sighting | None:
    """Several ranks trained, and none joined a process group: each trained alone."""
    training = [rank for rank in record.ranks if rank.trained]
    alone = [rank for rank in training if rank.process_group is None]
    if len(training) < 2 or len(alone) < len(training):
        return None
    return Sighting(
        message=f"{len(training)} processes trained, and none initialised a process group: each trained alone.",
        evidence=(
            Evidence(
                what="ranks that trained without a process group",
                value=len(alone),
                ranks=tuple(rank.rank for rank in alone),
            ),
        ),
    )


def fewer(record: Record) -> Sighting | None:
    """Ranks that were asked for never came, and nothing crashed."""
    launch = record.launch
    wanted, trained = launch.requested_world_size, launch.world_size
    if not wanted or not trained or wanted == trained or record.exit.code not in (0, None):
        return None
    if any(rank.error for rank in record.ranks) or any(rank.world_size == wanted for rank in record.ranks):
        return None  # a crash, or ranks of other hosts that do not report here
    return Sighting(
        message=f"{wanted} processes were requested and {trained} trained.",
        evidence=(
            Evidence(what=f"processes requested ({launch.source or 'launcher'})", value=wanted),
            Evidence(what="processes that trained", value=trained),
        ),
        confidence="likely",
    )


RULE = Rule(
    id="launcher/world-size-differs",
    title="Not the requested number of processes trained together",
    layers=("launcher",),
    severity="warning",
    silent="Every process prints a falling loss of its own.",
    cause="The launcher started fewer processes, or the script never joined them with init_process_group.",
    remedies=(
        Remedy(
            id="start-and-join",
            kind="config-edit",
            automatic=False,
            how="torchrun --nproc-per-node N script.py, and torch.distributed.init_process_group in the script",
        ),
    ),
    caution="Ranks of hosts that do not share the run's folder do not report; a rank that crashed is another matter.",
    residual=True,
    from_record=detect,
)
