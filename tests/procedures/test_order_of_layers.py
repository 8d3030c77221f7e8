"""Whether the order of the guilty layers matters: by runs in another order that really came about."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec
import pytest
from records import finding, record

from trueup.procedures.bisection.oracle import Oracle
from trueup.procedures.bisection.order import order
from trueup.procedures.bisection.trials import Trials
from trueup.schema.bisection import Attempt, Signature
from trueup.schema.record import Actual, Adapter, Applied, Compile, Exit, Note, Rank, Record, Sharding, unchanged
from trueup.schema.variant import WHICHEVER, Variant

RULE = "compile/fsdp2-hooks-inside-compiled-module"
BASE = Variant(name="attention=math", layers={"attention": "math"})
BOTH = Actual(
    compile=Compile(graphs=2, fraction=0.9),
    sharding=Sharding(strategy="FSDP2", fraction=1.0),
    adapter=Adapter(adapter_trainable=4),
)
SHARDED = Applied(layer="sharding", event="fully_shard", module="Block")
COMPILED = Applied(layer="compile", event="torch.compile", module="Model", detail={"target": "module"})
WHOLE = msgspec.structs.replace(COMPILED, event="Module.compile", detail={"target": "module", "whole_model": True})
ADAPTED = Applied(layer="adapter", event="get_peft_model", module="Model")


def shown(fails: bool, actual: Actual = BOTH, *notes: str) -> Record:
    made = record(*[finding(RULE)] if fails else [])
    return msgspec.structs.replace(
        made, ranks=(Rank(rank=0),), actual=actual, notes=tuple(Note(what=note) for note in notes)
    )


def nothing(first: str, second: str) -> str:
    return unchanged(f"{first} before {second}") + ": the job has them in this order"


def job(*steps: Applied) -> Record:
    return msgspec.structs.replace(shown(True), order=steps)


class Runs:
    """Runs that show what `answer` gives for an order."""

    def __init__(self, answer: Callable[[tuple[str, ...]], Record]) -> None:
        self.asked: list[tuple[str, ...]] = []
        self._answer = answer
        self.trials = Trials(self._run, limit=9)
        self.trials.oracle = Oracle(Signature(kind="finding", text="hooks", rule=RULE))

    def _run(self, attempts: Sequence[Attempt], timeout: float | None) -> list[Record]:
        for attempt in attempts:
            assert attempt.variant.layers == BASE.layers
            self.asked.append(attempt.variant.order)
        return [self._answer(attempt.variant.order) for attempt in attempts]


def test_it_matters_where_the_fault_is_gone_and_both_ran() -> None:
    runs = Runs(lambda order: shown(False))
    matters, words = order(runs.trials, BASE, ("sharding", "compile"), job(SHARDED, COMPILED))
    assert matters is True
    assert words is not None
    assert words.startswith("with compile before sharding it passes, and both run")
    assert runs.asked == [("compile", "sharding")]
    assert [(trial.name, trial.stage) for trial in runs.trials.made()] == [
        ("attention=math, compile before sharding", "order")
    ]


def test_it_does_not_matter_where_the_fault_stays() -> None:
    runs = Runs(lambda order: shown(True))
    assert order(runs.trials, BASE, ("sharding", "compile"), job(COMPILED, SHARDED)) == (
        False,
        "with sharding before compile it fails as before",
    )
    assert runs.asked == [("sharding", "compile")]


def test_a_model_compiled_as_a_whole_is_around_what_is_sharded_later() -> None:
    runs = Runs(lambda order: shown(False))
    assert order(runs.trials, BASE, ("compile", "sharding"), job(WHOLE, SHARDED))[0] is True
    assert runs.asked == [("compile", "sharding")]


def test_where_they_do_not_change_places_the_other_order_is_tried_and_nothing_is_concluded() -> None:
    runs = Runs(lambda order: shown(False, BOTH, nothing(*order)))
    matters, words = order(runs.trials, BASE, ("compile", "sharding"), job(COMPILED, SHARDED))
    assert (matters, words) == (None, nothing("sharding", "compile"))
    assert runs.asked == [("sharding", "compile"), ("compile", "sharding")]


def test_it_does_not_matter_where_changing_places_makes_no_difference() -> None:
    same = f"{unchanged('checkpointing before adapter')}: the model is prepared {WHICHEVER}"
    runs = Runs(lambda order: shown(True, BOTH, same))
    checkpointed = Applied(layer="checkpointing", event="gradient_checkpointing_enable", module="Model")
    found = order(runs.trials, BASE, ("adapter", "checkpointing"), job(ADAPTED, checkpointed))
    assert found == (False, same)


@pytest.mark.parametrize(
    ("seen", "words"),
    [
        (shown(False, Actual(sharding=BOTH.sharding)), "it passes, but compile did not run"),
        (msgspec.structs.replace(shown(False), exit=Exit(code=1, reason="KeyError")), "it ends in another way"),
        (shown(True, BOTH, "compile before sharding did not reach everything: FSDP1"), "not all could change places"),
    ],
)
def test_a_run_that_shows_something_else_decides_nothing(seen: Record, words: str) -> None:
    runs = Runs(lambda order: seen)
    matters, told = order(runs.trials, BASE, ("sharding", "compile"), job(SHARDED, COMPILED))
    assert matters is None
    assert told is not None
    assert words in told


def test_what_has_no_step_of_its_own_or_no_way_is_not_run() -> None:
    runs = Runs(lambda order: shown(False))
    backward = Applied(layer="compile", event="compiled_autograd")
    assert order(runs.trials, BASE, ("sharding", "compile"), job(SHARDED, backward))[0] is False
    assert order(runs.trials, BASE, ("checkpointing", "compile"), job(COMPILED))[0] is False
    matters, words = order(runs.trials, BASE, ("adapter", "sharding"), job(ADAPTED, SHARDED))
    assert matters is False
    assert words is not None
    assert "adapters have to come first, as they do here" in words
    cast = Applied(layer="precision", event="to", module="Model")
    assert order(runs.trials, BASE, ("precision", "compile"), job(cast, COMPILED))[0] is False
    assert order(runs.trials, BASE, ("precision", "sharding"), job(cast, SHARDED)) == (
        None,
        "sharding before precision cannot be brought about from outside",
    )
    assert order(runs.trials, BASE, ("sharding",), job(SHARDED)) == (None, None)
    assert runs.asked == []


def test_a_step_that_failed_was_the_last_one() -> None:
    runs = Runs(lambda order: shown(False))
    failed = msgspec.structs.replace(
        job(SHARDED), exit=Exit(code=1, reason="ValueError"), requested={"adapter": {"type": "LORA"}}
    )
    assert order(runs.trials, BASE, ("adapter", "sharding"), failed)[0] is True
    assert runs.asked == [("adapter", "sharding")]


def test_of_three_layers_one_pair_is_enough() -> None:
    runs = Runs(lambda order: shown(order != ("compile", "sharding")))
    found = order(runs.trials, BASE, ("adapter", "sharding", "compile"), job(ADAPTED, SHARDED, COMPILED))
    assert found[0] is True
    assert runs.asked == [("compile", "adapter"), ("compile", "sharding")]
