"""What of torch.compile a fault comes from: over runs that are known beforehand, and of real jobs."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from descents import JOBS, Descent

from trueup.procedures.bisection.inside.compile import narrow
from trueup.procedures.bisection.inside.graphs import FUNCTION, OVERRIDE, beyond
from trueup.procedures.bisection.inside.halving import first, needed
from trueup.procedures.bisection.inside.subsystems import BACKEND, LAST, SETTINGS, SUBSYSTEM
from trueup.procedures.bisection.oracle import Oracle
from trueup.procedures.bisection.signatures import signature_of
from trueup.procedures.bisection.trials import Trials
from trueup.procedures.bisection.walk import bisect
from trueup.runs.probe import EAGER_RANDOM
from trueup.schema.bisection import Attempt, Kind, Narrowed, Outcome, Signature
from trueup.schema.record import Actual, Applied, CapturedGraph, Compile, Exit, Precision, Rank, Record, Steps
from trueup.schema.variant import Variant

FAULT = "ValueError: this and that went wrong"
LONG = 1800
"""Seconds of a search within Inductor: a dozen runs that compile."""
LADDER = ["eager", "aot_eager", "aot_eager_decomp_partition", "inductor"]


class Simulated:
    """A job with some graphs, a fault of one stage in some of them, and perhaps of one application in them."""

    def __init__(
        self,
        stage: str,
        *,
        graphs: int = 1,
        guilty: Callable[[set[int]], bool] = bool,
        subsystem: tuple[str, int] | None = None,
        setting: str | None = None,
        odd: Callable[[Attempt], bool] = lambda attempt: False,
        own: str = "inductor",
        kind: Kind = "exception",
        heeds: bool = True,
        functions: tuple[str, ...] = (),
        dtype: str = "float32",
    ) -> None:
        self.stage, self.graphs, self.guilty, self.subsystem = stage, graphs, guilty, subsystem
        self.setting, self.odd, self.own, self.heeds = setting, odd, own, heeds
        self.functions, self.kind, self.dtype = functions, kind, dtype
        self.counts = {"post_grad_passes": 31, "lowerings": 25, "decomposition": 9}
        self.trials = Trials(lambda attempts, timeout: [self.run(each) for each in attempts], limit=40)
        self.trials.oracle = Oracle(Signature(kind=kind, text="fault", given=True))
        self.base = Attempt()
        self.record = self.trials.run([self.base])[0]
        self.trials.note(self.base, self.record)

    def run(self, attempt: Attempt) -> Record:
        outcome: Outcome = "fails" if self._fails(attempt) else "passes"
        if self.odd(attempt):
            outcome = "unresolved"
        error = {"fails": "RuntimeError: the fault", "passes": None, "unresolved": "KeyError: another"}[outcome]
        last = attempt.variant.environment.get(LAST)
        captured = tuple(
            CapturedGraph(frame=each, function=f"{self._function(each)} (train.py:{each})")
            for each in range(self.graphs)
        )
        actual = Compile(
            captured=captured,
            applied=self.counts if BACKEND in attempt.variant.environment else {},
            last_applied=f"application {last}" if last else None,
        )
        ends_well = self.kind == "not finite" and outcome != "unresolved"
        return Record(
            exit=Exit(code=1 if error and not ends_well else 0),
            ranks=(Rank(rank=0, error=None if ends_well else error),),
            steps=Steps(count=1, not_finite=(1,) if outcome == "fails" else ()),
            order=(Applied(layer="compile", event="torch.compile", detail={"backend": self.own}),),
            actual=Actual(compile=actual, precision=Precision(matmul={self.dtype: 1.0})),
        )

    def _function(self, graph: int) -> str:
        return self.functions[graph % len(self.functions)] if self.functions else "forward"

    def _backend(self, attempt: Attempt) -> str:
        return attempt.variant.layers.get("compile", self.own)

    def _fails(self, attempt: Attempt) -> bool:
        backend = self._backend(attempt)
        if LADDER.index(backend) < LADDER.index(self.stage) or backend == "off":
            return False
        environment = attempt.variant.environment
        on = set(range(self.graphs))
        if (override := environment.get(OVERRIDE)) and self.heeds:
            off, _, below = override.partition(":")
            assert LADDER.index(below) < LADDER.index(self.stage)
            on -= {each for each in on if any(_has(part, each) for part in off.split(","))}
        if only := environment.get(FUNCTION):
            on = {each for each in on if self._function(each) == only}
        return self.guilty(on) and self._is_applied(environment)

    def _is_applied(self, environment: dict[str, str]) -> bool:
        if self.setting and self.setting in environment.get(SETTINGS, ""):
            return False
        if self.subsystem and environment.get(SUBSYSTEM) == self.subsystem[0]:
            assert environment[BACKEND] == self.stage
            return int(environment[LAST]) >= self.subsystem[1]
        return True

    def narrowed(self) -> list[Narrowed]:
        return list(narrow(self.trials, self.base, self.record))

    def answers(self) -> dict[str, str]:
        return {each.what: each.answer for each in self.narrowed()}


def _has(part: str, number: int) -> bool:
    """As torch's GraphIdFilter reads it."""
    if part.startswith(">"):
        return number > int(part[1:])
    low, _, high = part.partition("-")
    return int(low) <= number <= int(high or low)


@pytest.mark.parametrize("stage", LADDER)
def test_the_stage_is_the_lowest_backend_that_fails_and_takes_two_runs(stage: str) -> None:
    job = Simulated(stage)
    assert job.narrowed()[0].answer == stage
    backends = [each.name for each in job.trials.made() if each.name.startswith("compile=") and "," not in each.name]
    assert len(backends) == 2


def test_no_backend_above_the_jobs_own_is_run() -> None:
    job = Simulated("aot_eager", own="aot_eager")
    assert job.answers()["backend"] == "aot_eager"
    assert [each.name for each in job.trials.made()] == ["as is", "compile=eager"]


def test_a_backend_that_ends_otherwise_leaves_the_stage_open() -> None:
    job = Simulated("aot_eager_decomp_partition", odd=lambda each: each.variant.layers.get("compile") == "aot_eager")
    (found,) = job.narrowed()
    assert found.answer == "aot_eager_decomp_partition"
    assert found.evidence.endswith("it ends otherwise with aot_eager")


@pytest.mark.parametrize("graphs", [2, 3, 4, 5, 16, 33])
def test_the_one_guilty_graph(graphs: int) -> None:
    guilty = graphs * 2 // 3
    job = Simulated("inductor", graphs=graphs, guilty=lambda on: guilty in on)
    found = {each.what: each for each in job.narrowed()}
    assert found["graph"].answer == f"graph {guilty}, forward (train.py:{guilty})"
    assert "not the only one" not in found["graph"].evidence
    assert job.trials.runs <= 7 + max(4, graphs.bit_length() + 2)


def test_each_of_few_graphs_that_fails_by_itself() -> None:
    found = Simulated("aot_eager", graphs=4, guilty=lambda on: bool(on & {1, 3})).answers()
    assert found["graph"] == "graph 1, forward (train.py:1); graph 3, forward (train.py:3)"


def test_one_of_many_graphs_that_fail_by_themselves_is_told_as_one_of_several() -> None:
    found = {each.what: each for each in Simulated("aot_eager", graphs=12).narrowed()}
    assert found["graph"].answer == "graph 0, forward (train.py:0)"
    assert "not the only one" in found["graph"].evidence


@pytest.mark.parametrize("graphs", [3, 9])
def test_graphs_that_fail_together_only(graphs: int) -> None:
    job = Simulated("aot_eager", graphs=graphs, guilty=lambda on: {0, 2} <= on)
    assert job.answers()["graph"] == "graph 0, forward (train.py:0); graph 2, forward (train.py:2)"


@pytest.mark.parametrize("graphs", [3, 9])
def test_a_torch_that_does_not_heed_the_variable_blames_no_graph(graphs: int) -> None:
    assert set(Simulated("inductor", graphs=graphs, heeds=False).answers()) == {"backend"}


@pytest.mark.parametrize("number", [0, 1, 17, 24])
def test_the_lowering(number: int) -> None:
    job = Simulated("inductor", graphs=2, guilty=lambda on: 1 in on, subsystem=("lowerings", number))
    found = job.answers()
    assert (found["backend"], found["subsystem"]) == ("inductor", "lowerings")
    assert found["lowering"] == f"lowering {number + 1}, application {number}"
    assert job.trials.runs <= 15


def test_the_pass() -> None:
    found = Simulated("inductor", subsystem=("post_grad_passes", 30)).answers()
    assert found["pass"] == "pass 31, application 30"


def test_the_decomposition() -> None:
    found = Simulated("aot_eager_decomp_partition", subsystem=("decomposition", 4)).answers()
    assert found["decomposition"] == "decomposition 5, application 4"


def test_a_setting_of_inductor() -> None:
    assert Simulated("inductor", setting="emulate_precision_casts").answers()["setting"] == "emulate_precision_casts"


def test_rounding_is_named_before_a_lowering_in_low_precision() -> None:
    rounding, fault = ({"subsystem": ("lowerings", 3)} | more for more in ({"setting": "emulate_precision_casts"}, {}))
    assert "lowering" not in Simulated("inductor", dtype="bfloat16", **rounding).answers()  # type: ignore[arg-type]
    assert "lowering" in Simulated("inductor", dtype="bfloat16", **fault).answers()  # type: ignore[arg-type]
    assert "lowering" in Simulated("inductor", **rounding).answers()  # type: ignore[arg-type]


def test_a_lowering_that_cannot_be_left_out_gives_a_range() -> None:
    def odd(attempt: Attempt) -> bool:
        environment = attempt.variant.environment
        return environment.get(SUBSYSTEM) == "lowerings" and 9 <= int(environment[LAST]) <= 14

    found = Simulated("inductor", subsystem=("lowerings", 12), odd=odd).answers()
    assert re.fullmatch(r"lowering \d+ to \d+", found["lowering"])


def test_where_dynamo_is_the_stage_the_function() -> None:
    names = ("encode", "attend", "decode")
    job = Simulated("eager", graphs=3, guilty=lambda on: 1 in on, functions=names, kind="not finite")
    assert job.answers() == {"backend": "eager", "function": "attend (train.py:1)"}


def test_an_exception_of_dynamo_names_its_frame_itself() -> None:
    job = Simulated("eager", graphs=3, functions=("encode", "attend", "decode"))
    assert set(job.answers()) == {"backend"}


@pytest.mark.parametrize("kind", ["coverage", "slow"])
def test_what_a_backend_shows_by_what_it_is_has_no_stage(kind: Kind) -> None:
    job = Simulated("inductor")
    job.trials.oracle = Oracle(Signature(kind=kind, text="fault", layer="compile", given=True))
    assert job.narrowed() == []


def test_numbers_of_graphs_as_torch_takes_them() -> None:
    assert beyond((3,), tuple(range(8))) == "0-2,4-7,>7"
    assert beyond((0, 1), (0, 1)) == ">1"
    assert beyond((2,), (0, 2, 4)) == "0-1,3-4,>4"
    assert beyond((), (0,)) == "0,>0"


def test_halving() -> None:
    def fails_from(place: int) -> Callable[[int], Outcome]:
        return lambda number: "fails" if number >= place else "passes"

    assert all(first(0, 100, fails_from(place)) == (place - 1, place) for place in range(1, 101))
    assert needed("abcdefgh", lambda on: "fails" if {"b", "e", "h"} <= set(on) else "passes") == ("b", "e", "h")
    assert needed("abc", lambda on: "unresolved") is None


# -- real jobs ---------------------------------------------------------------------------------------------------------


class Compiled(Descent):
    """A job whose losses are those of eager code, but for the fault. Random numbers are drawn alike."""

    def __init__(self, folder: Path, job: str, threads: int = 1) -> None:
        self.command = (sys.executable, str(JOBS / job))
        self.made: list[Attempt] = []
        self._folder = folder
        self.trials = Trials(self._run, limit=40, timeout=500)
        variables = {EAGER_RANDOM: "1", "OMP_NUM_THREADS": str(threads)}
        self.base = Attempt(variant=Variant(environment=variables))
        off = Attempt(variant=Variant(layers={"compile": "off"}, environment=variables))
        control, self.record = self.trials.run([off, self.base])
        signature = signature_of(self.record, [control])
        assert signature is not None, "the job does not fail"
        assert signature.kind == "loss", signature.text
        self.trials.oracle = Oracle(signature, [control])

    def answers(self) -> dict[str, str]:
        return {each.what: each.answer for each in narrow(self.trials, self.base, self.record)}


def test_an_operator_that_does_not_declare_what_it_changes(tmp_path: Path) -> None:
    """AOTAutograd drops it, as nothing uses a result of it."""
    job = Compiled(tmp_path, "undeclared_mutation.py")
    found = job.answers()
    assert set(found) == {"backend", "graph"}
    assert found["backend"] == "aot_eager"
    assert found["graph"].startswith("graph 1, forward (")
    assert found["graph"].endswith("undeclared_mutation.py:26)")
    assert job.trials.runs == 5


@pytest.mark.slow
@pytest.mark.timeout(LONG)
def test_gradients_that_inductor_computes_wrong(tmp_path: Path) -> None:
    found = Compiled(tmp_path, "wrong_gradient.py", threads=2).answers()
    assert found["backend"] == "inductor"
    assert found["graph"].endswith("wrong_gradient.py:29)")
    assert found["subsystem"] == "lowerings"
    assert re.match(r"lowering \d+, ", found["lowering"])


@pytest.mark.slow
@pytest.mark.timeout(LONG)
def test_a_pass_of_the_users_own(tmp_path: Path) -> None:
    found = Compiled(tmp_path, "wrong_pass.py").answers()
    assert (found["backend"], found["subsystem"]) == ("inductor", "post_grad_passes")
    assert found["pass"].endswith("post_grad_custom_post_pass")


@pytest.mark.slow
@pytest.mark.timeout(LONG)
def test_a_decomposition_of_the_users_own(tmp_path: Path) -> None:
    found = Compiled(tmp_path, "wrong_decomposition.py").answers()
    assert (found["backend"], found["subsystem"]) == ("aot_eager_decomp_partition", "decomposition")
    assert "aten.gelu" in found["decomposition"]


@pytest.mark.slow
@pytest.mark.timeout(LONG)
def test_rounding_of_bfloat16_is_no_fault(tmp_path: Path) -> None:
    job = object.__new__(Descent)
    job.command, job.made, job._folder = (sys.executable, str(JOBS / "bf16_rounding.py")), [], tmp_path
    found = bisect(job._run, layers=("compile",))
    assert found.verdict == "nothing fails", found.why
    assert found.record is None or found.record.actual.compile.graphs
