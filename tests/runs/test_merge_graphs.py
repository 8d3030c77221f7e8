"""The graphs of a run by the numbers of their frames, and what torch's CompilerBisector was asked for."""

from __future__ import annotations

from typing import Any

from written_events import event, merged, process, steps

from trueup.schema.record import CapturedGraph


def compiled(what: str, **fields: Any) -> dict[str, Any]:
    return event("compile", what=what, **fields)


def test_each_frame_that_gave_a_graph_once_with_its_first_place() -> None:
    record = merged(
        process(
            steps(1.0),
            compiled("start", id="0/0", function="forward (train.py:3)", at="train.py:3"),
            compiled("start", id="1/0", function="step (train.py:9)", at="train.py:9"),  # it gives no graph
            compiled("graph", id="0/0", checkpoints=0),
            compiled("start", id="12/0", function="encode (train.py:5)", at="train.py:7"),
            compiled("graph", id="12/0", checkpoints=0),
            compiled("start", id="0/1", function="forward (train.py:3)", at="train.py:30"),
            compiled("graph", id="0/1", checkpoints=0),
            compiled("graph", id="None/None", checkpoints=0),  # of compiled autograd
        )
    )
    assert record.actual.compile.graphs == 4
    assert record.actual.compile.captured == (
        CapturedGraph(frame=0, function="forward (train.py:3)", at="train.py:3"),
        CapturedGraph(frame=12, function="encode (train.py:5)", at="train.py:7"),
    )


def test_what_the_bisector_came_to_is_the_most_that_was_told() -> None:
    record = merged(
        process(
            steps(1.0),
            compiled("bisected", applied={"lowerings": 2}),
            compiled("bisected", applied={"lowerings": 3, "post_grad_passes": 4}, last="mul = aten.mul.Tensor"),
            compiled("bisected", applied={"lowerings": 25, "post_grad_passes": 30}),
        )
    )
    assert record.actual.compile.applied == {"lowerings": 25, "post_grad_passes": 30}
    assert record.actual.compile.last_applied == "mul = aten.mul.Tensor"
