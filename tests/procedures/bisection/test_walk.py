"""The walk of a bisect over runs that are made up: what it blames, what it does not, and what it says when stopped."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from made_up_jobs import LOSSES, Job, crashed, found, hung, well

from trueup.procedures.bisection.fails_when import signature_from
from trueup.procedures.bisection.walk import bisect
from trueup.procedures.probes import Interrupted
from trueup.runs.probe import EAGER_RANDOM
from trueup.schema.bisection import Attempt
from trueup.schema.record import Record

ERROR = "RuntimeError: expected both tensors to have the same dtype, got float and c10::BFloat16\nat train.py:40"


def test_a_pair_is_found_proved_and_told_with_its_runs() -> None:
    job = Job(lambda on: crashed(ERROR) if {"adapter", "compile"} <= on else well())
    result = bisect(job, inside=0)
    assert result.verdict == "found"
    assert result.minimal == ("adapter", "compile")
    assert result.one_minimal
    assert result.control == "passes"
    assert result.signature is not None
    assert result.signature.exception == "RuntimeError"
    assert result.rate == 1.0
    assert {trial.on for trial in result.probes if trial.outcome == "fails"} >= {("adapter", "compile")}
    assert sum(trial.runs for trial in result.probes) == len(job.asked)
    assert len(result.probes) == len(job.asked), "a steady fault needs no run twice"


def test_an_error_with_other_numbers_and_paths_is_the_same_and_another_one_tells_nothing() -> None:
    def shows(on: frozenset[str]) -> Record:
        if {"checkpointing", "compile"} <= on:
            return crashed(
                f"ValueError: shape {len(on)} at /run/{len(on)}/x.py does not fit the saved tensor of 0x7f{len(on)}"
            )
        return crashed("ImportError: no module named apex") if "compile" not in on and "adapter" in on else well()

    result = bisect(Job(shows), inside=0)
    assert result.minimal == ("checkpointing", "compile")
    assert any(trial.outcome == "unresolved" for trial in result.probes)
    assert all(trial.outcome != "fails" for trial in result.probes if "compile" not in trial.on)


def test_a_script_that_exits_1_whatever_is_on_is_no_layers_fault() -> None:
    result = bisect(Job(lambda on: Record(duration_s=1.0, exit=crashed("x: y").exit, ranks=())), inside=0)
    assert result.verdict == "not of the layers"
    assert result.minimal == ()


def test_a_job_without_layers_has_none_to_blame() -> None:
    result = bisect(Job(lambda on: crashed(ERROR), has=()), inside=0)
    assert result.verdict == "not of the layers"
    assert result.signature is not None
    assert result.signature.exception == "RuntimeError"
    assert result.control == "fails"
    assert result.record is not None


def test_a_hang_of_a_job_without_layers_is_told_with_its_stacks() -> None:
    result = bisect(Job(lambda on: hung(), has=()), inside=0)
    assert result.verdict == "not of the layers"
    assert result.signature is not None
    assert result.signature.kind == "hang"
    assert result.stacks == ("rank 0: all_reduce (distributed_c10d.py:3252), called from train.py:36",)


def test_a_healthy_job_is_left_alone() -> None:
    result = bisect(Job(lambda on: well()), inside=0)
    assert result.verdict == "nothing fails"
    assert result.minimal == ()


def test_a_job_that_shows_no_losses_is_not_said_to_have_the_same() -> None:
    assert "losses are those" in bisect(Job(lambda on: well()), inside=0).why
    assert "no losses were seen" in bisect(Job(lambda on: well(losses=()), has=()), inside=0).why


def test_a_job_that_draws_no_seeds_is_told_to() -> None:
    runs = iter(range(99))

    def shows(on: frozenset[str]) -> Record:
        number = next(runs)
        return well(losses=[value * (1 + 0.1 * (number % 3)) for value in LOSSES])

    result = bisect(Job(shows), inside=0)
    assert result.verdict == "nothing fails"
    assert "seeds" in result.why


def test_a_finding_is_looked_for_when_the_job_ends_well() -> None:
    rule = "checkpointing/compiled-region-falls-back-to-eager"
    job = Job(
        lambda on: well(found(rule, "checkpointing", "compile")) if {"checkpointing", "compile"} <= on else well()
    )
    result = bisect(job, inside=0)
    assert result.minimal == ("checkpointing", "compile")
    assert result.finding is not None
    assert result.finding.rule == rule


def test_wrong_numbers_are_compared_with_controls_that_train_the_same() -> None:
    def shows(on: frozenset[str]) -> Record:
        factor = 1.3 if "compile" in on else 1.0
        return well(losses=[value * factor * (1 if "adapter" in on else 2) for value in LOSSES])

    job = Job(shows)
    result = bisect(job, inside=0)
    assert result.minimal == ("compile",)
    assert result.signature is not None
    assert result.signature.kind == "loss"
    assert "adapter" not in result.layers, "without its adapters the job trains something else"
    assert all(EAGER_RANDOM in attempt.variant.environment for attempt in job.asked[-3:])


def test_rounding_of_half_precision_is_no_fault() -> None:
    def shows(on: frozenset[str]) -> Record:
        record = well(losses=[value * (1.001 if "precision" in on else 1.0) for value in LOSSES])
        dtype = "bfloat16" if "precision" in on else "float32"
        return _with_matmul(record, dtype)

    assert bisect(Job(shows), inside=0).verdict == "nothing fails"


def _with_matmul(record: Record, dtype: str) -> Record:
    import msgspec

    precision = msgspec.structs.replace(record.actual.precision, matmul={dtype: 1.0})
    actual = msgspec.structs.replace(record.actual, precision=precision)
    return msgspec.structs.replace(record, actual=actual)


def test_a_hang_is_found_as_one_and_its_stacks_are_told() -> None:
    result = bisect(Job(lambda on: hung() if {"precision", "compile"} <= on else well()), inside=0)
    assert result.minimal == ("precision", "compile")
    assert result.stacks == ("rank 0: all_reduce (distributed_c10d.py:3252), called from train.py:36",)


def test_the_time_limit_follows_the_control() -> None:
    job = Job(lambda on: hung() if "compile" in on else well())
    bisect(job, inside=0)
    assert job.timeouts[0] == 900
    assert set(job.timeouts[1:]) == {123.0}
    job = Job(lambda on: hung() if "precision" in on else well(), has=("precision",))
    bisect(job, inside=0)
    assert set(job.timeouts[1:]) == {33.0}
    job = Job(lambda on: hung() if "compile" in on else well())
    bisect(job, inside=0, timeout=7)
    assert set(job.timeouts) == {7}


def test_a_layer_without_which_the_job_ends_otherwise_stays_on() -> None:
    def shows(on: frozenset[str]) -> Record:
        if "adapter" not in on:
            return crashed("ValueError: nothing can be trained in a model of integers")
        return crashed(ERROR) if {"checkpointing", "compile"} <= on else well()

    result = bisect(Job(shows), inside=0)
    assert result.minimal == ("checkpointing", "compile")
    assert any("adapter stays on" in note for note in result.notes)


def test_what_is_looked_for_can_be_given() -> None:
    def shows(on: frozenset[str]) -> Record:
        return well(found("compile/other", "compile"), seconds=0.3 if "checkpointing" in on else 0.1)

    result = bisect(Job(shows), fault=signature_from("slower>1.5"), inside=0)
    assert result.minimal == ("checkpointing",)
    result = bisect(Job(shows), fault=signature_from("hang"), inside=0)
    assert result.verdict == "not reproduced"


def test_an_interrupt_leaves_what_is_known() -> None:
    job = Job(lambda on: crashed(ERROR) if {"adapter", "compile"} <= on else well())

    def run(attempts: Sequence[Attempt], timeout: float | None) -> list[Record]:
        if len(job.asked) == 5:
            raise Interrupted
        return job(attempts, timeout)

    result = bisect(run, inside=0)
    assert result.verdict == "interrupted"
    assert result.signature is not None
    assert len(result.probes) == 5
    assert result.belief is not None


def test_too_few_runs_settle_nothing_and_say_so() -> None:
    result = bisect(Job(lambda on: crashed(ERROR) if {"adapter", "compile"} <= on else well()), limit=4, inside=0)
    assert result.verdict == "not settled"
    assert "4 runs" in result.why


@pytest.mark.parametrize("at_once", [2, 3])
def test_runs_side_by_side_find_the_same(at_once: int) -> None:
    job = Job(lambda on: crashed(ERROR) if {"adapter", "compile"} <= on else well())
    assert bisect(job, at_once=at_once, inside=0).minimal == ("adapter", "compile")


def test_the_time_to_look_within_the_layers_ends_that_and_keeps_the_answer() -> None:
    job = Job(lambda on: crashed(ERROR) if {"adapter", "compile"} <= on else well())
    result = bisect(job, inside=1e-9)
    assert result.verdict == "found"
    assert result.one_minimal
    assert "the time to look within the layers is over" in result.why
