"""A compiled block inside of a selective checkpoint runs eager in some releases of torch."""

from __future__ import annotations

from trueup.rules.compilation import compile_asked, coverage, no_frame_seen, switched_off
from trueup.rules.definition import Rule, Sighting
from trueup.rules.facts import applied, installed, places
from trueup.schema.finding import Evidence, Remedy
from trueup.schema.record import Record


def detect(record: Record) -> Sighting | None:
    wraps = tuple(
        wrap
        for wrap in applied(record, "checkpoint_wrapper", "apply_activation_checkpointing")
        if wrap.detail.get("selective") and wrap.detail.get("compiled_inside")
    )
    if not wraps or "torch" not in installed(record) or not compile_asked(record):
        return None
    if not no_frame_seen(record) or switched_off(record):
        return None
    return Sighting(
        message=f"Compiled modules lie inside of selective checkpoints, and Dynamo saw no frame in "
        f"{record.steps.count} steps.",
        evidence=(
            Evidence(what="frames that Dynamo started to compile", value=0),
            *coverage(record.actual.compile),
            *places(wraps[:2], "selective checkpoint around"),
        ),
        confidence="likely",
    )


RULE = Rule(
    id="checkpointing/selective-checkpoint-hides-compiled-function",
    title="Selective checkpointing outside compile hides the compiled function",
    layers=("compile", "checkpointing"),
    severity="warning",
    silent="Nothing is printed; the report of compile is empty and speed equals eager.",
    cause=(
        "The policy of selective checkpointing is a dispatch mode around the call; Dynamo of these releases skips "
        "frames under that mode, and a policy per operator cannot see into a compiled region anyway."
    ),
    remedies=(
        Remedy(
            id="compile-around-checkpoint",
            kind="code",
            automatic=False,
            how="swap the order: checkpoint_wrapper(block, context_fn=...) first, then .compile() of the wrapper",
        ),
        Remedy(id="upgrade-torch", kind="install", automatic=False, how="torch >= 2.10"),
    ),
    caution="Newer torch compiles within a selective checkpoint: the order alone is no fault.",
    sources=("https://github.com/pytorch/pytorch/issues/161889",),
    versions={"torch": ">=2.8,<2.10"},
    explains=("compile/requested-and-not-applied", "compile/regional-compile-not-applied"),
    from_record=detect,
)
