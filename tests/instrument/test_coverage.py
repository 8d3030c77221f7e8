"""The share of a model that runs compiled is exactly what the job knows by construction."""

from __future__ import annotations

import pytest
from forked_jobs import JOBS, Order, run_jobs

ONE_PROCESS = (
    "nothing",
    "per_block",
    "per_block_replaced",
    "half_of_the_blocks",
    "broken_inside",
    "stopped_in_a_loop",
    "whole",
    "in_place",
    "function",
    "disabled_block",
    "nested_lists",
    "sequential",
    "stock_encoder_whole",
    "stock_encoder_in_place",
    "shared_block",
    "shared_weights",
    "called_twice",
    "teacher_and_student",
    "checkpoint_around_compiled",
    "compiled_around_checkpoint",
    "checkpoints_of_several_blocks",
)
TWO_RANKS = ("replicated", "replicated_and_compiled_around", "sharded", "sharded_the_old_way")


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory):
    orders = [Order(name, f"known_coverage.{name}") for name in ONE_PROCESS]
    orders += [Order(name, f"known_coverage.{name}", ranks=2) for name in TWO_RANKS]
    return run_jobs(tmp_path_factory.mktemp("coverage") / "run", orders)


@pytest.mark.parametrize("name", ONE_PROCESS + TWO_RANKS)
def test_blocks_and_fraction_are_what_the_job_knows(name, done):
    job = done[name]
    assert set(job.exits) == {0}
    compile = job.record.actual.compile
    found = {"total": compile.blocks.total, "compiled": compile.blocks.compiled, "fraction": compile.fraction}
    assert found == job.result


def test_breaks_are_counted_beside_the_coverage(done):
    """The blocks share their code, which is compiled once for all of them."""
    (found,) = done["broken_inside"].record.actual.compile.breaks
    source = JOBS / "models.py"
    assert (found.count, found.at) == (1, f"{source}:{line_of(source, 'graph_break()')}")


def test_a_checkpoint_around_several_blocks_counts_for_all_of_them(done):
    found = done["checkpoints_of_several_blocks"].record.actual.checkpointing
    assert (found.calls, found.fraction) == (1, 0.5)


def line_of(file, text):
    (number,) = [number for number, line in enumerate(file.read_text().splitlines(), 1) if text in line]
    return number
