"""No remedy changes what a job computes that does not have its fault.

All remedies that go together are tried at once in `make test`, and each by itself in `make gauntlet`. That a remedy
does what it is for, and what it then does to results, is for the gauntlet.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

import pytest
from forked_jobs import Done, Order, run_jobs

from trueup.remedies.application import Application
from trueup.remedies.registry import APPLICATIONS

JOBS = (
    Order("eager", "sameness.eager"),
    Order("compiled_blocks", "sameness.compiled_blocks"),
    Order("checkpointed", "sameness.checkpointed", {"use_reentrant": False}),
    Order("accumulated", "sameness.accumulated"),
    Order("scaled", "sameness.scaled"),
    Order("replicated", "sameness.replicated", ranks=2),
    Order("sharded", "sameness.sharded", ranks=2),
    Order("trainer", "sameness.trainer", {"folder": "trainer"}),
)
NAMES = [order.name for order in JOBS]
DRAWS_ANEW = {"compile-each-block"}
"""Compiles what was not: dropout in a graph draws other random numbers."""
IN_PROCESS = [each for each in APPLICATIONS if each.in_process and each.remedy not in DRAWS_ANEW]
ROUNDING = 1e-5
"""Relative difference of a loss in float32 that another order of the same operations makes in eight steps."""


def groups() -> list[tuple[str, ...]]:
    """All remedies in as few groups as the exclusions allow."""
    made: list[list[Application]] = []
    for each in IN_PROCESS:
        for group in made:
            if not any(each.remedy in other.excludes or other.remedy in each.excludes for other in group):
                group.append(each)
                break
        else:
            made.append([each])
    return [tuple(each.remedy for each in group) for group in made]


def run_with(folder: Path, groups: Iterable[tuple[str, ...]]) -> dict[str, dict[str, Done]]:
    """Names of remedies → name of the job → what came of it, all in children of one process."""
    orders = [
        Order(f"{job.name} {number}", job.job, job.arguments, job.ranks, {"TRUEUP_REMEDIES": json.dumps(group)})
        for number, group in enumerate(groups)
        for job in JOBS
    ]
    done = run_jobs(folder / "run", orders, start_in_child=True)
    return {
        " ".join(group): {job.name: done[f"{job.name} {number}"] for job in JOBS} for number, group in enumerate(groups)
    }


def losses(done: Done) -> list[list[float]]:
    return [[float.fromhex(loss) for loss in result["losses"]] for result in done.results]


def is_changed(was: Done, now: Done) -> bool:
    if now.exits != was.exits or any(was.exits):
        return True
    return losses(now) != [pytest.approx(rank, rel=ROUNDING) for rank in losses(was)]


def changed(plain: dict[str, Done], remedied: dict[str, dict[str, Done]]) -> list[tuple[str, str]]:
    return [(names, job) for names, done in remedied.items() for job in done if is_changed(plain[job], done[job])]


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Done]:
    return run_jobs(tmp_path_factory.mktemp("plain") / "run", JOBS, observed=False)


def test_remedies_together_leave_the_losses(plain: dict[str, Done], tmp_path: Path) -> None:
    assert changed(plain, run_with(tmp_path, groups())) == []


@pytest.mark.slow
def test_each_remedy_leaves_the_losses(plain: dict[str, Done], tmp_path: Path) -> None:
    assert changed(plain, run_with(tmp_path, [(each.remedy,) for each in IN_PROCESS])) == []
