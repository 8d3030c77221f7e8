"""What was run before is not run again, as long as nothing that it depends on has changed."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from trueup.procedures.probes import Interrupted, Probes
from trueup.runs.probe import ProbeError
from trueup.runs.remembered import KNOWN, Remembered
from trueup.schema.bisection import Attempt
from trueup.schema.record import Exit, Record, Steps
from trueup.schema.variant import Variant

COMMAND = (sys.executable, "train.py")
COMPILED_OFF = Attempt(variant=Variant(layers={"compile": "off"}))


class Runs:
    """Makes records without running anything, numbered as they are asked for."""

    def __init__(self) -> None:
        self.made: list[Attempt] = []
        self.exit = Exit(code=1)
        self.fails_at: int | None = None

    def __call__(
        self, attempts: Sequence[Attempt], timeout: float | None, keep: Callable[[int, Record], object]
    ) -> list[Record]:
        records = []
        for index, attempt in enumerate(attempts):
            self.made.append(attempt)
            if len(self.made) == self.fails_at:
                raise ProbeError("lost")
            record = Record(exit=self.exit, duration_s=float(len(self.made)), steps=Steps(losses=(float("nan"), 1.0)))
            records.append(record)
            keep(index, record)
        return records


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "work"
    (folder / "inner").mkdir(parents=True)
    (folder / "train.py").write_text("import inner.model")
    (folder / "inner" / "model.py").write_text("pass")
    monkeypatch.chdir(folder)
    return folder


def again(*attempts: Attempt, command: Sequence[str] = COMMAND, timeout: float | None = None, **options: object) -> int:
    """How many of these attempts a new procedure has to run."""
    runs = Runs()
    Remembered(runs, command, options=options)(attempts, timeout)
    return len(runs.made)


def test_the_nth_run_of_an_attempt_is_the_nth_again(work: Path) -> None:
    first = Remembered(Runs(), COMMAND)
    before = [*first([Attempt()]), *first([COMPILED_OFF, Attempt()]), *first([Attempt()])]
    assert first.remembered == 0

    runs = Runs()
    second = Remembered(runs, COMMAND)
    after = [*second([Attempt(), COMPILED_OFF, Attempt()]), *second([Attempt(), Attempt()])]
    assert [record.duration_s for record in after] == [1.0, 2.0, 3.0, 4.0, 1.0]
    assert [record.duration_s for record in before] == [1.0, 2.0, 3.0, 4.0]
    assert second.remembered == 4
    assert runs.made == [Attempt()], "the fifth is new"
    assert after[0].steps.losses == (None, 1.0)


def test_attempts_are_told_apart(work: Path) -> None:
    assert again(Attempt()) == 1
    assert again(Attempt()) == 0
    assert again(Attempt(variant=Variant(name="another name"))) == 0
    assert again(COMPILED_OFF) == 1
    assert again(Attempt(variant=Variant(remedies=("free-port",)))) == 1
    assert again(Attempt(variant=Variant(environment={"A": "1"}))) == 1
    assert again(Attempt(command=(sys.executable, "train.py", "1"))) == 1
    assert again(Attempt(), command=(sys.executable, "train.py", "1")) == 0, "the same command"
    assert again(Attempt(), steps=3) == 1


def changed_source(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = work / "inner" / "model.py"
    state = file.stat()
    file.write_text("fail")
    os.utime(file, ns=(state.st_atime_ns, state.st_mtime_ns))


def new_file(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (work / "config.yaml").write_text("lr: 1")


def touched_data(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.utime(work / "data.bin", (1, 1))


def variable(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_SWITCH", "1")


def package(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another version of an installed package, where the interpreter finds it first."""
    information = work.parent / "site" / "lightest-1.0.dist-info"
    information.rename(information.with_name("lightest-1.1.dist-info"))
    metadata = information.with_name("lightest-1.1.dist-info") / "METADATA"
    metadata.write_text(metadata.read_text().replace("1.0", "1.1"))


def code_beside(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a folder outside of the working folder that the interpreter searches."""
    (work.parent / "site" / "own.py").write_text("print(1)")


CHANGES = [changed_source, new_file, touched_data, variable, package, code_beside]


@pytest.fixture
def site(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    information = work.parent / "site" / "lightest-1.0.dist-info"
    information.mkdir(parents=True)
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: lightest\nVersion: 1.0\n")
    (work.parent / "site" / "own.py").write_text("pass")
    monkeypatch.setenv("PYTHONPATH", str(work.parent / "site"))
    with (work / "data.bin").open("wb") as file:
        file.truncate(1 << 20)


@pytest.mark.usefixtures("site")
@pytest.mark.parametrize("change", CHANGES)
def test_a_change_of_what_a_run_depends_on_runs_it_again(
    work: Path, monkeypatch: pytest.MonkeyPatch, change: Callable[[Path, pytest.MonkeyPatch], None]
) -> None:
    assert again(Attempt()) == 1
    assert again(Attempt()) == 0
    change(work, monkeypatch)
    assert again(Attempt()) == 1
    assert again(Attempt()) == 0


def test_what_no_run_depends_on_changes_nothing(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def procedure() -> int:
        runs = Runs()
        Remembered(runs, COMMAND, ignored=[Path("answer.json")])([Attempt()])
        return len(runs.made)

    assert procedure() == 1
    monkeypatch.setenv("COLUMNS", "77")
    monkeypatch.setenv("SSH_CLIENT", "192.0.2.1")
    (work / "answer.json").write_text("{}")
    (work / "nohup.out").write_text("printed")
    (work / "inner" / "__pycache__").mkdir()
    (work / "inner" / "__pycache__" / "model.pyc").write_text("code")
    (work / ".trueup" / "runs").mkdir()
    assert procedure() == 0


def test_a_script_outside_of_the_working_folder_counts(work: Path) -> None:
    script = work.parent / "outside.py"
    script.write_text("import model")
    beside = work.parent / "model.py"
    beside.write_text("pass")
    command = (sys.executable, "../outside.py")
    assert [again(Attempt(), command=command) for _ in range(2)] == [1, 0]
    script.write_text("import model, os")
    assert [again(Attempt(), command=command) for _ in range(2)] == [1, 0]
    beside.write_text("fail")
    assert [again(Attempt(), command=command) for _ in range(2)] == [1, 0]


def test_fresh_runs_again_and_replaces(work: Path) -> None:
    assert again(Attempt()) == 1
    runs = Runs()
    runs.exit = Exit(code=5)
    fresh = Remembered(runs, COMMAND, fresh=True)
    assert [record.exit.code for record in fresh([Attempt()])] == [5]
    assert fresh.remembered == 0
    assert [record.exit.code for record in Remembered(Runs(), COMMAND)([Attempt()])] == [5]


def test_a_run_that_its_time_limit_ended_counts_for_no_longer_limit(work: Path) -> None:
    runs = Runs()
    runs.exit = Exit(code=124, reason="timeout")
    Remembered(runs, COMMAND)([Attempt()], 1.0)
    assert again(Attempt(), timeout=1.0) == 0
    assert again(Attempt(), timeout=60.0) == 1
    assert again(Attempt()) == 0, "the longer run ended by itself"


def test_lost_and_interrupted_runs_are_not_kept_but_what_had_ended_is(work: Path) -> None:
    runs = Runs()
    runs.fails_at = 2
    with pytest.raises(ProbeError):
        Remembered(runs, COMMAND)([Attempt(), COMPILED_OFF])
    assert again(Attempt()) == 0
    runs = Runs()
    runs.exit = Exit(code=143, reason="interrupted")
    Remembered(runs, COMMAND)([COMPILED_OFF])
    assert again(COMPILED_OFF) == 1


def test_a_torn_record_is_run_again(work: Path) -> None:
    assert again(Attempt()) == 1
    (record,) = KNOWN.glob("*/1.json")
    record.write_bytes(record.read_bytes()[:40])
    assert again(Attempt()) == 1
    assert again(Attempt()) == 0


def test_a_real_procedure_goes_on_where_it_was_stopped(work: Path) -> None:
    (work / "train.py").write_text(
        "import os, signal, sys\n"
        "if os.environ.get('STOPS') and not os.path.exists(os.environ['STOPS']):\n"
        "    open(os.environ['STOPS'], 'w').close()\n"
        "    os.kill(os.getppid(), signal.SIGINT)\n"
        "sys.exit(4)\n"
    )
    stops = Attempt(variant=Variant(environment={"STOPS": str(work.parent / "stopped")}))

    def procedure() -> tuple[list[int | None], int]:
        with Probes(COMMAND, steps=None, timeout=60, say=lambda text: None, kind="bisect") as probes:
            run = Remembered(probes.run_all, COMMAND)
            records = [*run([Attempt()]), *run([stops])]
            return [record.exit.code for record in records], run.remembered

    with pytest.raises(Interrupted):
        procedure()
    assert procedure() == ([4, 4], 1)
    assert procedure() == ([4, 4], 2)
