"""The model has adapters, and they do not learn."""

from __future__ import annotations

from collections.abc import Sequence

from trueup.rules.definition import Rule, Sighting
from trueup.rules.facts import adapters_among, applied, listed, places, trained
from trueup.schema.finding import Evidence, Remedy
from trueup.schema.record import Applied, Record


def detect(record: Record) -> Sighting | None:
    adapter, training = record.actual.adapter, record.actual.training
    if not adapter.adapter_parameters or not trained(record):
        return None
    orphans = adapters_among(training.in_no_optimizer)
    dry = adapters_among(training.without_gradient)
    left_out = (training.in_no_optimizer_count or 0) - len(training.in_no_optimizer)
    unreached = (training.without_gradient_count or 0) - len(training.without_gradient)
    total, trainable = adapter.adapter_parameters, adapter.adapter_trainable
    further = added(record)
    late = [each for each in further if orphans and any(f".{each.detail.get('adapter')}." in name for name in orphans)]
    partly = False
    if trainable == 0:
        what = "none requires a gradient"
    elif orphans:
        what = f"{_number(orphans, left_out)} are in no optimizer ({listed(orphans, 2)})"
    elif dry:
        what = f"{_number(dry, unreached)} got no gradient ({listed(dry, 2)})"
    elif adapter.adapter_changed == 0:
        what = "none changed in the sampled steps"
    elif trainable < total and not frozen_by_choice(record):
        partly = True  # a second adapter, or one half of each, may be frozen on purpose
        what = f"only {trainable} require a gradient"
        if further:
            what += f"; {listed(names_of(further))} was added and never chosen by set_adapter"
    else:
        return None
    return Sighting(
        message=f"Of {total} adapter parameters {what}.",
        evidence=(
            Evidence(what="adapter parameters", value=total),
            Evidence(what="adapter parameters that require a gradient", value=trainable),
            Evidence(what="adapter parameters in no optimizer", value=len(orphans)),
            Evidence(what="adapter parameters without a gradient", value=len(dry)),
            Evidence(what="adapter parameters that changed in a sampled step", value=adapter.adapter_changed),
            *places(applied(record, "get_peft_model")[:1]),
            *(
                Evidence(what=f"adapter {each.detail['adapter']} added by {each.event}", at=each.at, ranks=(each.rank,))
                for each in (late or further)[:3]
            ),
        ),
        cause=SECOND_ADAPTER if late or (partly and further) else "",
        remedies=(UNFREEZE, choose(names_of(late or further))) if late or (partly and further) else (),
        confidence="established" if trainable == 0 or orphans else "possible" if partly else "likely",
        severity="note" if partly else "warning",
    )


def added(record: Record) -> tuple[Applied, ...]:
    """Adapters that came to the model beside its first."""
    return tuple(each for each in applied(record, "add_adapter", "load_adapter") if each.detail.get("adapter"))


def frozen_by_choice(record: Record) -> bool:
    """True where set_adapter chose which of several adapters learns, or the others were loaded to be used only."""
    further = added(record)
    used_only = [each for each in further if each.event == "load_adapter" and not each.detail.get("is_trainable")]
    return bool(applied(record, "set_adapter")) or (bool(further) and used_only == list(further))


def names_of(events: Sequence[Applied]) -> list[str]:
    return list(dict.fromkeys(str(each.detail["adapter"]) for each in events))


def choose(adapters: list[str]) -> Remedy:
    """The line that makes the adapters learn; the last one where several were added."""
    return Remedy(
        id="choose-the-adapter",
        kind="code",
        automatic=False,
        how=(
            f"model.set_adapter({adapters[-1]!r}) behind add_adapter, and only then the optimizer, "
            "over the parameters that require a gradient"
        ),
    )


def _number(adapters: list[str], unnamed: int) -> str:
    """How many adapters these are; at least, where the record does not name every parameter."""
    return f"at least {len(adapters)}" if unnamed > 0 else str(len(adapters))


SECOND_ADAPTER = (
    "add_adapter leaves a new adapter frozen; set_adapter makes it trainable and freezes the others. "
    "An optimizer that was made before that does not hold it."
)
UNFREEZE = Remedy(
    id="unfreeze-adapters",
    kind="in-process",
    automatic=True,
    how="set requires_grad on the adapter parameters (is_trainable=True when loading), then make the optimizer",
)

RULE = Rule(
    id="adapter/adapters-not-trained",
    title="Adapters are attached and do not learn",
    layers=("adapter",),
    severity="warning",
    silent="The loss is a number like any other; it just does not fall through the adapters.",
    cause=(
        "The adapters were frozen after they were attached (requires_grad_(False) on the whole model), "
        "loaded for inference, or attached or chosen (add_adapter, set_adapter) after the optimizer was made."
    ),
    remedies=(UNFREEZE,),
    caution=(
        "lora_A has a gradient of zero in the first step because lora_B starts at zero. A second adapter "
        "that is frozen on purpose is no fault."
    ),
    explains=("trainer/parameters-missing-from-optimizer", "trainer/parameters-without-gradient"),
    from_record=detect,
)
