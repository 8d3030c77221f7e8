"""However a process ends: exit code and output are its own, and the record says what is known and what is missing."""

from __future__ import annotations

from pathlib import Path

import psutil
import pytest

from trueup_runs import PYTHON, Run, plain_run, trueup_run

JOBS = Path(__file__).parent / "jobs"
ENDINGS = JOBS / "endings.py"
RANK = {"RANK": "0", "WORLD_SIZE": "1"}


def ended(folder: Path, way: str, **variables: str) -> Run:
    """The run of one way to end; its output is that of the same command alone."""
    run = trueup_run(folder, PYTHON, ENDINGS, way, **RANK, **variables)
    alone = plain_run(folder, PYTHON, ENDINGS, way, **RANK)
    code = alone.returncode if alone.returncode >= 0 else 128 - alone.returncode
    assert (run.code, run.stdout, run.stderr) == (code, alone.stdout, alone.stderr)
    assert run.record.exit.code == code
    return run


def is_running(pid: int) -> bool:
    """A process whose parent has ended before it may stay in the list for a while after its own end."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def line_of(text: str) -> int:
    (number,) = [number for number, line in enumerate(ENDINGS.read_text().splitlines(), 1) if text in line]
    return number


def test_the_chain_of_an_exception_is_told(tmp_path: Path) -> None:
    run = ended(tmp_path, "chain")
    assert run.record.exit.reason == "RuntimeError: training failed"
    assert run.record.ranks[0].exit.reason == "RuntimeError: training failed"
    at = f"{ENDINGS}:{line_of('training failed')}"
    assert run.record.ranks[0].error == (
        f"RuntimeError: training failed\ncaused by OSError: no such corpus\ncaused by KeyError: 'corpus'\nat {at}"
    )


@pytest.mark.parametrize(
    ("way", "code", "reason", "note"),
    [
        ("memory", 1, "MemoryError", ""),
        ("exit_code", 3, None, ""),
        ("at_once", 5, None, "Rank 0 ended with exit code 5, by os._exit or a crash, before it could write how"),
        ("in_thread", 0, None, ""),
        ("unprintable", 1, "__main__.unprintable.<locals>.Unprintable: (its message could not be printed)", ""),
        ("own_hook", 1, "ValueError: through a hook of its own", ""),
    ],
)
def test_each_end_is_told(way: str, code: int, reason: str | None, note: str, tmp_path: Path) -> None:
    run = ended(tmp_path, way)
    assert (run.code, run.record.exit.reason) == (code, reason)
    assert run.record.ranks[0].exit.code == code
    assert run.notes.startswith(note) if note else run.notes == ""


def test_an_exception_in_a_thread_is_told_though_the_process_succeeded(tmp_path: Path) -> None:
    (rank,) = ended(tmp_path, "in_thread").record.ranks
    assert rank.error is not None
    assert rank.error.startswith("ValueError: in a thread")
    assert rank.exit.reason == "finished"


@pytest.mark.parametrize("method", ["spawn", "fork"])
@pytest.mark.parametrize("way", ["torch", "python"])
def test_the_exception_that_ended_a_child_of_multiprocessing_is_told(way: str, method: str, tmp_path: Path) -> None:
    """The child catches it, so that no hook for exceptions is met."""
    run = trueup_run(tmp_path, PYTHON, JOBS / "failing_children.py", way, method)
    assert run.code == 1
    (rank,) = run.record.ranks
    assert (rank.trained, rank.exit.reason) == (True, "RuntimeError: no more data")
    assert "caused by KeyError: 'shard'" in (rank.error or "")


def test_a_crash_shows_its_signal_and_where_it_happened(tmp_path: Path) -> None:
    run = ended(tmp_path, "crash")
    assert (run.code, run.record.exit.signal) == (139, "SIGSEGV")
    (rank,) = run.record.ranks
    assert rank.error is not None
    assert rank.error.startswith("Fatal Python error: Segmentation fault")
    assert f"line {line_of('string_at(0)')} in crash" in rank.error
    assert "Rank 0 was killed by SIGSEGV before it could write how it ended" in run.notes


def test_a_torn_last_event_is_left_out(tmp_path: Path) -> None:
    run = trueup_run(tmp_path, PYTHON, ENDINGS, "torn", **RANK)
    assert (run.code, run.record.exit.signal) == (137, "SIGKILL")
    assert "Rank 0 was killed by SIGKILL before it could write how it ended" in run.notes
    assert "The last event of Rank 0 is incomplete and was left out" in run.notes
    assert [rank.rank for rank in run.record.ranks] == [0]


def test_an_events_folder_that_goes_away_is_no_harm_and_named(tmp_path: Path) -> None:
    run = trueup_run(tmp_path, PYTHON, ENDINGS, "no_folder")
    assert (run.code, run.stdout) == (1, "")
    assert run.stderr.endswith("ValueError: not told\n")
    assert run.record.exit.reason == "ValueError: not told"
    assert "events could not be written at the end of the run (Not a directory)" in run.notes


def test_a_full_disk_is_no_harm_and_what_is_missing_is_said(tmp_path: Path) -> None:
    run = trueup_run(tmp_path, PYTHON, ENDINGS, "full", **RANK)
    assert (run.code, run.stdout) == (0, "went on\n")
    assert run.stderr.count("ZeroDivisionError") == 200
    (file,) = (run.folder / "events").glob("events-*.jsonl")
    assert file.stat().st_size <= 8192
    assert "could not write its events to the end: what came last is missing" in run.notes


def test_events_that_all_fail_are_told_as_missing(tmp_path: Path) -> None:
    run = trueup_run(tmp_path, PYTHON, ENDINGS, "exit_code", **RANK, TRUEUP_FAULTS="events")
    assert run.code == 3
    assert "1 processes opened a file for their events and could write nothing into it" in run.notes


def test_a_hang_ends_with_the_stacks_of_both_ranks(tmp_path: Path) -> None:
    hang = f"RANK=0 {PYTHON} {ENDINGS} hang & RANK=1 {PYTHON} {ENDINGS} hang & wait"
    run = trueup_run(tmp_path, "bash", "-c", hang, options=("--timeout", "8"), WORLD_SIZE="2")
    assert (run.code, run.record.exit.reason) == (124, "timeout")
    assert run.stdout == "hanging\nhanging\n"
    assert [(rank.rank, rank.exit.reason) for rank in run.record.ranks] == [(0, "timeout"), (1, "timeout")]
    for rank in run.record.ranks:
        assert rank.stack is not None
        assert "hang" in rank.stack
        assert not is_running(rank.pid)


def test_a_killed_rank_is_named_before_those_that_fail_because_of_it(tmp_path: Path) -> None:
    run = trueup_run(tmp_path, "torchrun", "--standalone", "--nproc-per-node", "2", JOBS / "killed.py")
    assert run.code == 1
    assert run.record.exit.reason == "rank 1 was killed by SIGKILL"
    first, second = run.record.ranks
    assert (second.exit.code, second.exit.signal, second.exit.reason) == (137, "SIGKILL", "was killed by SIGKILL")
    assert (second.steps, second.trained, second.error) == (2, True, None)
    assert first.steps == 2
    assert "Rank 1 was killed by SIGKILL before it could write how it ended" in run.notes
