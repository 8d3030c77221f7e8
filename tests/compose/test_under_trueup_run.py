"""What composing says of itself, and what `trueup run` sees from outside, are the same."""

import pytest

from trueup_runs import PYTHON, trueup_run


@pytest.fixture(scope="module")
def run(request, tmp_path_factory):
    job = request.path.parent / "jobs" / "observed.py"
    run = trueup_run(tmp_path_factory.mktemp("observed"), PYTHON, job, timeout=400)
    assert run.code == 0, run.stderr
    return run


def test_both_see_all_blocks_compiled_and_checkpointed(run):
    """Ten blocks with an index each, where Dynamo's own limit is eight."""
    assert "10/10 blocks compiled, 10/10 blocks checkpointed" in run.stdout
    assert (run.record.actual.compile.blocks.compiled, run.record.actual.compile.blocks.total) == (10, 10)
    assert run.record.actual.compile.limits == ()
    assert run.record.actual.checkpointing.fraction == 1
    assert run.record.actual.precision.matmul.get("bfloat16", 0) > 0.9


def test_the_request_is_the_users(run):
    assert run.record.requested["compile"]["backend"] == "aot_eager"
    applied = [applied for applied in run.record.order if applied.layer == "compile"]
    assert applied
    assert all(applied.at and "observed.py" in applied.at for applied in applied)


def test_the_finding_is_the_one_that_stands(run):
    assert {finding.rule for finding in run.record.findings} <= {"compile/recompile-per-layer-attribute"}
