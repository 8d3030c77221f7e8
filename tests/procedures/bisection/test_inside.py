"""What is asked within a layer, over runs that are known beforehand."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import pytest

from trueup.procedures.bisection.inside import attention, data, descend, precision, ranks, sharding
from trueup.procedures.bisection.inside.few import few
from trueup.procedures.bisection.inside.parts import most
from trueup.procedures.bisection.oracle import Oracle
from trueup.procedures.bisection.trials import OutOfRuns, Trials
from trueup.schema.bisection import Attempt, Kind, Narrowed, Outcome, Signature
from trueup.schema.record import (
    Actual,
    Applied,
    Exit,
    Launch,
    Note,
    Rank,
    Record,
    Steps,
    Training,
    unchanged,
)
from trueup.schema.variant import Variant

FAULT = "ValueError: this and that went wrong"
JOB = Attempt(variant=Variant(layers={"compile": "off"}))

Fails = Callable[[Attempt], Outcome]


def ended(outcome: Outcome, steps: int = 0, parts: dict[str, tuple[str, ...]] | None = None, note: str = "") -> Record:
    error = {"fails": FAULT, "passes": None, "unresolved": "KeyError: another"}[outcome]
    return Record(
        exit=Exit(code=0 if error is None else 1),
        ranks=(Rank(rank=0, error=error, steps=steps),),
        parts=parts or {},
        notes=(Note(what=note),) if note else (),
    )


def trials_of(run: Callable[[Attempt], Record], kind: Kind = "exception", limit: int = 60) -> Trials:
    trials = Trials(lambda attempts, timeout: [run(each) for each in attempts], limit=limit)
    text = {"exception": FAULT, "hang": "hangs"}.get(kind, kind)
    trials.oracle = Oracle(Signature(kind=kind, text=text, given=True))
    return trials


def asked(attempt: Attempt, layer: str) -> tuple[str, list[str]]:
    kind, _, parts = attempt.variant.layers.get(layer, "").partition(":")
    return kind, parts.split(",") if parts else []


# -- the few of many ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("guilty", [{"m17"}, {"m0"}, {"m63"}, {"m3", "m40"}, {"m1", "m2", "m60"}])
def test_the_few_parts_that_are_needed_are_found_in_few_tries(guilty: set[str]) -> None:
    parts = [f"m{index}" for index in range(64)]
    found = few(parts, lambda on: "fails" if guilty <= set(on) else "passes", most=most(64))
    assert (set(found.parts), found.settled) == (guilty, True)
    assert found.tries <= len(guilty) * (math.log2(64) + 1)


def test_when_all_parts_are_needed_the_tries_end_and_what_failed_is_told() -> None:
    parts = [f"m{index}" for index in range(64)]
    found = few(parts, lambda on: "fails" if len(on) == 64 else "passes", most=10)
    assert (found.parts, found.settled, found.tries) == (tuple(parts), False, 10)


# -- precision and units -----------------------------------------------------------------------------------------------

NAMES = ("embed", "layers.0.up", "layers.0.down", "layers.1.up", "layers.1.down", "head")


def in_low_precision(guilty: set[str], told: tuple[str, ...] = NAMES) -> Callable[[Attempt], Record]:
    def run(attempt: Attempt) -> Record:
        wide = asked(attempt, "precision")[1]
        return ended("passes" if guilty & set(wide) else "fails", parts={"precision": told})

    return run


def test_the_module_that_must_compute_in_low_precision_is_named() -> None:
    trials = trials_of(in_low_precision({"layers.1.down"}))
    (found,) = precision.narrow(trials, JOB, Record())
    assert (found.what, found.answer) == ("modules", "layers.1.down in low precision")
    assert trials.runs <= most(len(NAMES))
    assert all(trial.stage == "inside" for trial in trials.made())


def test_a_model_that_tells_no_modules_is_not_narrowed() -> None:
    trials = trials_of(in_low_precision(set(), told=()))
    assert list(precision.narrow(trials, JOB, Record())) == []
    assert trials.runs == 1


def test_what_fails_with_all_modules_in_float32_is_no_modules() -> None:
    trials = trials_of(lambda attempt: ended("fails", parts={"precision": NAMES}))
    assert list(precision.narrow(trials, JOB, Record())) == []
    assert trials.runs == 2


FSDP = Record(order=(Applied(layer="sharding", event="fully_shard"),))


def test_strategy_and_unit_of_fsdp() -> None:
    units = ("layers.0", "layers.1", "layers.2")

    def run(attempt: Attempt) -> Record:
        kind, whole = asked(attempt, "sharding")
        passes = kind == "replicate" or "layers.1" in whole
        return ended("passes" if passes else "fails", parts={"sharding": units})

    strategy, unit = sharding.narrow(trials_of(run), JOB, FSDP)
    assert (strategy.what, strategy.answer[:29]) == ("strategy", "split gradients and optimizer")
    assert (unit.what, unit.answer) == ("unit", "layers.1")


def test_a_job_under_ddp_is_asked_nothing() -> None:
    trials = trials_of(lambda attempt: ended("fails"))
    assert list(sharding.narrow(trials, JOB, Record())) == []
    assert trials.runs == 0


# -- attention ---------------------------------------------------------------------------------------------------------


def test_kernels_that_fail_and_that_pass_and_those_that_changed_nothing() -> None:
    def run(attempt: Attempt) -> Record:
        value = asked(attempt, "attention")[0]
        note = unchanged("--set attention=sdpa") + ": for just that" if value == "sdpa" else ""
        return ended("fails" if value in ("flash", "sdpa") else "passes", note=note)

    record = Record(environment={"devices": ["cpu"], "packages": {"transformers": "5.0"}})
    (found,) = attention.narrow(trials_of(run), JOB, record)
    assert found.answer == "flash; fails with flash, not with math, eager"
    assert found.evidence.endswith("ends otherwise or changes nothing with attention=sdpa")


# -- ranks -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("command", "rewritten"),
    [
        ("torchrun --nproc-per-node 2 train.py", "torchrun --nproc-per-node 1 train.py"),
        ("torchrun --nproc_per_node=4 train.py --n 3", "torchrun --nproc_per_node=1 train.py --n 3"),
        ("python -m torch.distributed.run --nproc-per-node=gpu t.py", "python -m torch.distributed.run --nproc-per-node=1 t.py"),  # noqa: E501
        ("accelerate launch --num_processes 8 train.py", "accelerate launch --num_processes 1 train.py"),
        ("accelerate launch --debug t.py", "accelerate launch --num_processes 1 --debug t.py"),
        ("mpirun -np 2 python train.py", "mpirun -np 1 python train.py"),
        ("python train.py", None),
        ("torchrun --nnodes 2 --nproc-per-node 2 train.py", None),
    ],
)  # fmt: skip
def test_the_number_of_ranks_in_a_command(command: str, rewritten: str | None) -> None:
    changed = ranks.with_ranks(tuple(command.split()), 1)
    assert changed == (None if rewritten is None else tuple(rewritten.split()))


def test_the_number_of_ranks_in_a_line_for_a_shell() -> None:
    line = ("bash", "-c", "cd $HOME && torchrun --nproc-per-node=2 'my train.py' > out.txt")
    assert ranks.with_ranks(line, 1) == (*line[:2], "cd $HOME && torchrun --nproc-per-node=1 'my train.py' > out.txt")


def torchrun(size: int) -> Record:
    return Record(command=("torchrun", "--nproc-per-node", str(size), "t.py"), launch=Launch(world_size=size))


@pytest.mark.parametrize(
    ("size", "least", "answer", "runs"),
    [
        (4, 1, "one is enough", 1),
        (2, 2, "needs two", 1),
        (4, 2, "needs two", 2),
        (4, 3, "needs more than two of 4", 2),
    ],
)
def test_with_how_many_ranks_it_fails(size: int, least: int, answer: str, runs: int) -> None:
    def run(attempt: Attempt) -> Record:
        assert attempt.command is not None
        return ended("fails" if int(attempt.command[2]) >= least else "passes")

    trials = trials_of(run)
    (found,) = ranks.narrow(trials, JOB, torchrun(size))
    assert (found.layer, found.what, found.answer, trials.runs) == ("launcher", "ranks", answer, runs)


def test_with_one_rank_it_may_end_otherwise() -> None:
    assert list(ranks.narrow(trials_of(lambda attempt: ended("unresolved")), JOB, torchrun(2))) == []


# -- data --------------------------------------------------------------------------------------------------------------


class Loader:
    """A job over batches of these lengths, of which `fails(numbers, lengths)` says whether it fails."""

    def __init__(self, lengths: Sequence[int], fails: Callable[[list[int], list[int]], bool]) -> None:
        self.lengths = lengths
        self.fails = fails

    def run(self, attempt: Attempt) -> Record:
        kind, parts = asked(attempt, "data")
        first, _, last = (parts or ["0"])[0].partition("-")
        chosen = range(int(first), int(last or first) + 1)
        numbers = list(range(1, len(self.lengths) + 1))
        if kind == "only":
            numbers = [list(chosen)[place % len(chosen)] for place in range(len(numbers))]
        if kind == "without":
            numbers = [number for number in numbers if number not in chosen]
        cut = int(first) if kind == "length" else max(self.lengths)
        lengths = [min(cut, self.lengths[number - 1]) for number in numbers]
        shapes = tuple(f"2x{length}" for length in self.lengths)
        for step in range(len(numbers)):
            if self.fails(numbers[: step + 1], lengths[: step + 1]):
                return ended("fails", steps=step, parts={"data": shapes})
        return ended("passes", steps=len(numbers), parts={"data": shapes})

    def narrowed(self) -> list[Narrowed]:
        trials = trials_of(self.run)
        trials.settled(JOB)
        found = list(data.narrow(trials, JOB, Record()))
        assert trials.runs <= 1 + data.BATCHES + data.LENGTHS
        return found


EVEN = [24] * 12


def test_a_batch_that_fails_by_its_content() -> None:
    batch, length = Loader(EVEN, lambda numbers, lengths: 6 in numbers).narrowed()
    assert (batch.layer, batch.what, batch.answer) == ("data", "batch", "batch 6 of 2x24, those before of 2x24")
    assert length.answer == "any: 8 tokens are enough"


def test_sequences_from_some_length_on() -> None:
    lengths = [24, 30, 64, 24, 24]
    batch, length = Loader(lengths, lambda numbers, lengths: lengths[-1] > 48).narrowed()
    assert batch.answer == "batch 3 of 2x64, those before of 2x24, 2x30"
    assert (length.what, length.answer) == ("length", "49 tokens")


def test_a_batch_of_another_length_than_those_before() -> None:
    lengths = [24, 24, 24, 40, 24, 24]
    loader = Loader(lengths, lambda numbers, lengths: len(set(lengths)) > 1)
    batch, length = loader.narrowed()
    assert batch.answer == "batch 4 of 2x40, those before of 2x24, after those before"
    assert length.answer == "25 tokens"


def test_a_step_whatever_its_batch() -> None:
    (batch,) = Loader(EVEN, lambda numbers, lengths: len(numbers) == 8).narrowed()
    assert batch.answer == "no one batch: it fails at batch 8, whatever that is"


def test_every_batch() -> None:
    batch, length = Loader(EVEN, lambda numbers, lengths: lengths[-1] >= 16).narrowed()
    assert (batch.answer, length.answer) == ("any", "16 tokens")


def test_a_job_without_a_data_loader_is_not_asked_on() -> None:
    def run(attempt: Attempt) -> Record:
        value = attempt.variant.layers.get("data")
        return ended("fails", steps=4, note=unchanged(f"--set data={value}") if value else "")

    trials = trials_of(run)
    trials.settled(JOB)
    assert list(data.narrow(trials, JOB, Record())) == []
    assert trials.runs == 2


def test_the_batches_of_a_step_that_accumulates() -> None:
    steps = Steps(count=4, not_finite=(3, 4))
    record = Record(steps=steps, actual=Actual(training=Training(accumulation=4)))
    assert data.failing_batches(record, "not finite") == data.Batches(9, 12)
    assert data.failing_batches(record, "hang") is None


# -- all of them -------------------------------------------------------------------------------------------------------


def test_what_is_known_is_told_before_the_runs_are_used_up() -> None:
    def run(attempt: Attempt) -> Record:
        return ended("passes") if attempt.command else in_low_precision({"head"})(attempt)

    answers = descend(trials_of(run, limit=4), JOB, ("precision",), torchrun(2))
    assert next(answers).answer == "needs two"
    with pytest.raises(OutOfRuns):
        next(answers)


def test_a_hang_is_not_looked_for_module_by_module() -> None:
    trials = trials_of(lambda attempt: ended("passes"), kind="hang")
    assert list(descend(trials, JOB, ("precision",), Record())) == []
    assert trials.runs == 0
