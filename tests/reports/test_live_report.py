"""While a job runs, the verdict is said once it rests on a steady step, and again only when it changes."""

import io

import msgspec
import pytest

from trueup.reports.live import PROGRESS_EVERY, LiveReport
from trueup.schema.record import Sample


@pytest.fixture
def unsteady(demo_record):
    return msgspec.structs.replace(demo_record, samples=(Sample(step=2, compiled_during=True),))


def lines_of(*records, terminal=False, apart=0.0):
    """What is written for records that come `apart` seconds after each other."""
    stream = io.StringIO()
    times = iter(range(1000))
    live = LiveReport(stream, terminal=terminal, clock=lambda: apart * next(times))
    for record in records:
        live(record)
    return stream.getvalue()


def test_nothing_is_said_before_a_steady_step(unsteady):
    assert lines_of(unsteady, msgspec.structs.replace(unsteady, samples=())) == ""


def test_the_verdict_is_said_once(unsteady, demo_record):
    text = lines_of(unsteady, demo_record, demo_record, demo_record)
    assert text.splitlines() == [
        "trueup: after 20 steps: compile: 0/12 blocks compiled; attention: sdpa-flash-cpu 100 % (fused);"
        " FSDP2 over 2 ranks; 1 warning"
    ]


def test_more_steps_alone_are_no_news(demo_record):
    later = msgspec.structs.replace(demo_record, steps=msgspec.structs.replace(demo_record.steps, count=99))
    assert len(lines_of(demo_record, later).splitlines()) == 1


def test_a_changed_verdict_is_said_again(demo_record):
    cured = msgspec.structs.replace(demo_record, findings=())
    assert [line.rpartition("; ")[2] for line in lines_of(demo_record, cured, demo_record).splitlines()] == [
        "1 warning",
        "no findings",
        "1 warning",
    ]


def test_the_progress_line_is_for_terminals_only(unsteady):
    assert lines_of(unsteady, terminal=True) == "trueup: step 20, 0.57 s a step, loss 4.9, 17 recompiles\n"
    assert lines_of(unsteady, terminal=False) == ""


@pytest.mark.parametrize(("apart", "lines"), [(PROGRESS_EVERY, 3), (PROGRESS_EVERY / 10, 1)])
def test_progress_is_said_from_time_to_time_only(unsteady, apart, lines):
    assert lines_of(unsteady, unsteady, unsteady, terminal=True, apart=apart).count("\n") == lines


def test_nothing_redraws_the_terminal(hostile_record, demo_record, unsteady):
    text = lines_of(unsteady, demo_record, hostile_record, terminal=True, apart=PROGRESS_EVERY)
    assert "\r" not in text
    assert "\x1b" not in text
