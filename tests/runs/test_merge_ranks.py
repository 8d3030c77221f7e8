"""Which processes are ranks, how many were asked for, and how each ended."""

from __future__ import annotations

from written_events import event, launcher, merged, notes, process, ranks, steps

from trueup.runs.events import Event, Events, ProcessEvents
from trueup.runs.merge import merge
from trueup.runs.outcome import Outcome
from trueup.runs.tree import Sighting


def test_two_ranks_of_torchrun() -> None:
    record = merged(launcher(), *ranks(2, steps(3.0, 2.0)))
    assert [(rank.rank, rank.trained, rank.steps, rank.exit.reason) for rank in record.ranks] == [
        (0, True, 2, "finished"),
        (1, True, 2, "finished"),
    ]
    assert (record.launch.requested_world_size, record.launch.world_size) == (2, 2)
    assert (record.launch.launchers, record.launch.source) == (("torchrun",), "torchrun")
    assert record.notes == ()


def test_a_plain_python_process_is_rank_0() -> None:
    record = merged(process(steps(1.0)))
    assert [rank.rank for rank in record.ranks] == [0]
    assert (record.launch.requested_world_size, record.launch.world_size) == (None, 1)


def test_the_parent_of_spawned_ranks_is_no_rank() -> None:
    def child(number: int) -> ProcessEvents:
        group = event("layer", layer="launcher", event="init_process_group", detail={"rank": number, "backend": "gloo"})
        return process(group, steps(1.0), start=5.0 - number)

    parent = process(event("launcher", name="torch.multiprocessing.spawn", processes=2), event("memory", peak_bytes=1))
    record = merged(parent, child(1), child(0))
    assert [(rank.rank, rank.process_group) for rank in record.ranks] == [(0, "gloo"), (1, "gloo")]
    assert record.ranks[0].pid == 105
    assert record.launch.requested_world_size == 2


def test_accelerate_asked_for_two_and_started_one() -> None:
    record = merged(launcher("accelerate launch", started=1), process(steps(1.0)))
    assert (record.launch.requested_world_size, record.launch.world_size) == (2, 1)


def test_a_rank_that_failed_before_training_is_a_rank() -> None:
    early = event("error", type="ValueError", message="no", chain=[], user_at="train.py:3")
    record = merged(process(early, rank=0, world_size=2, end="error"), process(steps(1.0), rank=1, start=2.0), code=1)
    assert [(rank.rank, rank.trained, rank.error) for rank in record.ranks] == [
        (0, False, "ValueError: no\nat train.py:3"),
        (1, True, None),
    ]
    assert record.launch.world_size == 1
    assert record.exit.reason == "ValueError: no"


def test_after_a_restart_the_last_start_of_a_rank_counts() -> None:
    first, second = process(steps(9.0), rank=0, world_size=1), process(steps(1.0), rank=0, world_size=1, start=50.0)
    record = merged(second, first)
    assert record.steps.losses == (1.0,)
    assert "started again 1 times" in notes(record)


def test_of_two_jobs_one_after_the_other_the_last_counts() -> None:
    record = merged(*ranks(4, steps(9.0)), process(steps(1.0), rank=0, world_size=1, start=50.0))
    assert (record.steps.losses, len(record.ranks)) == ((1.0,), 1)
    record = merged(process(steps(9.0)), process(steps(1.0), start=50.0))
    assert (record.steps.losses, len(record.ranks)) == ((1.0,), 1)


def test_ranks_that_never_reported_are_named() -> None:
    record = merged(*ranks(4, steps(1.0))[:2])
    assert record.notes[0].ranks == (2, 3)
    assert "never reported, of 4" in notes(record)


def test_ranks_of_hosts_that_write_elsewhere_are_not_missing() -> None:
    told = event("launcher", name="torchrun", processes=4, per_node=2, nodes=2, detail={})
    record = merged(process(told, role="launcher"), *ranks(4, steps(1.0))[:2])
    assert record.launch.world_size == 4
    assert "1 hosts of the job write their events elsewhere" in notes(record)
    assert "never reported" not in notes(record)


def test_a_killed_rank_has_no_end() -> None:
    record = merged(process(steps(1.0), rank=0), process(steps(1.0), rank=1, start=2.0, end=None), code=137)
    assert [rank.exit.reason for rank in record.ranks] == ["finished", "was killed or crashed"]
    assert "Rank 1 was killed or crashed" in notes(record)
    running = merged(process(steps(1.0), end=None), code=None)
    assert (running.ranks[0].exit.reason, running.notes, running.exit.code) == (None, (), None)


def test_a_crash_is_told_by_faulthandler() -> None:
    events = Events(processes=[process(steps(1.0), end=None)], crashes={101: "Fatal Python error: Segmentation fault"})
    record = merge(events, outcome=Outcome(code=139, signal="SIGSEGV", pid=101))
    assert record.ranks[0].error == "Fatal Python error: Segmentation fault"
    assert (record.ranks[0].exit.code, record.ranks[0].exit.signal) == (139, "SIGSEGV")


def test_the_first_failure_is_the_reason() -> None:
    def failing(rank: int, t: float, kind: str) -> ProcessEvents:
        chain = [
            {"type": kind, "message": "first line\nsecond", "at": None},
            {"type": "KeyError", "message": "'x'", "at": "model.py:7"},
        ]
        error = event("error", t=t, type=kind, message="first line\nsecond", chain=chain, user_at="model.py:7")
        return process(steps(1.0), error, rank=rank, start=rank, end="error")

    record = merged(failing(0, 9.0, "torch.distributed.DistBackendError"), failing(1, 8.0, "RuntimeError"), code=1)
    assert record.exit.reason == "RuntimeError: first line"
    assert record.ranks[1].error == "RuntimeError: first line\nsecond\ncaused by KeyError: 'x'\nat model.py:7"


def test_reasons_of_the_end() -> None:
    assert merged(process(steps(1.0), end="steps reached")).exit.reason == "steps reached"
    assert merged(process(steps(1.0))).exit.reason is None
    record = merged(process(steps(1.0), end=None), code=124, reason="timeout", stacks={102: "Thread 1\n train"})
    assert (record.exit.reason, record.ranks[0].exit.reason) == ("timeout", "timeout")
    assert "stopped by the timeout" in notes(record)
    asked = merge(Events(), outcome=Outcome(code=1), fatal_line="ImportError: no module")
    assert asked.exit.reason == "ImportError: no module"


def test_stacks_go_to_their_rank() -> None:
    record = merged(process(steps(1.0), end=None), code=124, reason="timeout", stacks={101: "Thread 1\n train"})
    assert record.ranks[0].stack == "Thread 1\n train"


def test_why_nobody_reported() -> None:
    def why(*sightings: Sighting) -> str:
        return notes(merged(sightings=list(sightings)))

    assert "no Python process was seen among its 1" in why(Sighting(1, ("sh", "run.sh")))
    assert "with -I" in why(Sighting(1, ("/usr/bin/python3", "-I", "-m", "x"), True, True))
    assert "with -S" in why(Sighting(1, ("python3.11", "-uS", "-c", "-I"), True, True))
    assert "environment of its own" in why(Sighting(1, ("python", "x.py", "-I"), False, False))
    assert "with 2% of the variables" in why(Sighting(1, ("python", "x.py"), False, False, None, 0.02))
    assert "was taken out on the way" in why(Sighting(1, ("python", "x.py"), False, True, None, 0.97))
    assert "process 1 (python x.py) has src:lib; keep" in why(Sighting(1, ("python", "x.py"), True, False, "src:lib"))
    assert "process 1 (python x.py) has none; keep" in why(Sighting(1, ("python", "x.py"), True, False))
    assert "neither trained nor failed" in why(Sighting(1, ("python", "x.py"), True, True))


def test_an_observer_that_switched_itself_off_is_named() -> None:
    off = event("observer-off", observer="attention", error="KeyError: 'x'")
    record = merged(*ranks(2, steps(1.0), off))
    assert (record.notes[0].what, record.notes[0].ranks) == (
        "An observer switched itself off: attention: KeyError: 'x'",
        (0, 1),
    )


def test_the_newest_loops_of_a_rank_are_kept_and_numbered_by_place() -> None:
    def began(number: int, at: str, last: bool = False) -> Event:
        return event("loop-begin", loop=number, at=at, last=last)

    def ended(number: int) -> Event:
        return event("loop-end", loop=number, batches=3, steps=3 * number, at="train.py:7")

    training = [each for number in range(1, 11) for each in (began(number, "train.py:7"), ended(number))]
    validation = began(11, "train.py:20")
    [rank] = merged(process(*training, validation, began(12, "train.py:7"))).ranks
    assert [(loop.at, loop.number, loop.batches, loop.steps) for loop in rank.loops] == [
        *[("train.py:7", number, 3, 3 * number) for number in range(5, 11)],
        ("train.py:20", 1, None, None),
        ("train.py:7", 11, None, None),
    ]
    [unknown] = merged(process(*training, began(11, "train.py:7", last=True))).ranks
    assert unknown.loops == ()
