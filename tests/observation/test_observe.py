"""`trueup.observe()` in a script that had torch, its model and its optimizer before, on two ranks, under trueup run."""

import json

import pytest

import trueup
from trueup.runs.run import record_from_folder
from trueup_runs import PYTHON, SCRIPTS, plain_run, trueup_run


def reports_in(stdout):
    return [json.loads(line.removeprefix("REPORT ")) for line in stdout.splitlines() if line.startswith("REPORT ")]


@pytest.fixture(scope="module")
def seen(request, tmp_path_factory):
    job = request.path.parent / "jobs" / "notebook.py"
    done = plain_run(tmp_path_factory.mktemp("notebook"), PYTHON, job, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
    return reports_in(done.stdout)[0]


def test_sees_what_trains_although_all_was_there_before(seen):
    first = seen["first"]
    assert first["steps"] == 8
    assert first["losses"] == pytest.approx(seen["losses"])
    assert first["optimizers"] == ["SGD"]
    assert "torch" in first["packages"]
    assert first["exit"] == 0
    assert first["duration"] > 0
    assert any("Module.compile" in event and "notebook.py" in event for event in first["order"])


def test_finds_what_trueup_run_would_find(seen):
    """Twelve blocks with an index each: the recompile limit."""
    assert seen["first"]["blocks"] == [8, 12]
    assert "compile/recompile-per-layer-attribute" in seen["first"]["findings"]
    assert "recompile-per-layer-attribute" in seen["report"]
    assert "8/12 blocks compiled" in seen["report"]


def test_can_be_asked_within_the_block(seen):
    assert 0 < seen["within"] <= 8


def test_takes_everything_out_again(seen):
    expected = {"compile", "method", "checkpoint", "backward", "init", "meta_path", "hooks", "filters", "handlers"}
    assert expected <= set(seen["changed"])
    assert seen["after_first"] == []
    assert seen["stays"] == []
    assert seen["left_behind"] is False


def test_what_trains_after_the_block_is_not_counted(seen):
    assert seen["first"]["steps"] == len(seen["losses"])


def test_a_second_observation_sees_its_own_block_only(seen):
    assert seen["second"]["losses"] == pytest.approx(seen["second_losses"])
    assert seen["second"]["recompiles"] == 0


def test_an_error_in_the_block_is_told(seen):
    code, reason, error = seen["failed"]
    assert code == 1
    assert "ValueError: of the user" in reason
    assert "notebook.py" in error


def test_ranks_observe_themselves(tmp_path, request):
    job = request.path.parent / "jobs" / "ranks.py"
    launch = (SCRIPTS / "torchrun", "--nproc-per-node", "2", "--rdzv-backend", "c10d", "--rdzv-endpoint", "localhost:0")
    done = plain_run(tmp_path, *launch, job, tmp_path / "shared", timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
    both = sorted(reports_in(done.stdout), key=lambda report: report["rank"])
    for rank, report in enumerate(both):
        assert report["ranks"] == [rank]
        assert report["seen"] == pytest.approx(report["losses"])
        assert report["strategy"] == "DDP"
        assert report["findings"] == []
        assert report["world"] == [2, 2]
        assert report["notes"] == [f"this record covers rank {rank} of 2: each rank observes itself"]
    assert both[0]["losses"] != both[1]["losses"]
    together = record_from_folder(tmp_path / "shared")
    assert [rank.rank for rank in together.ranks] == [0, 1]


def test_within_trueup_run_nothing_is_attached_twice(tmp_path, request):
    job = tmp_path / "job.py"
    job.write_text(
        "import torch, trueup\n"
        "model = torch.nn.Linear(2, 2)\n"
        "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
        "with trueup.observe() as observation:\n"
        "    for _ in range(5):\n"
        "        model(torch.ones(1, 2)).sum().backward()\n"
        "        optimizer.step()\n"
        "record = observation.record\n"
        "print([note.what for note in record.notes])\n"
    )
    run = trueup_run(tmp_path, PYTHON, job)
    assert run.code == 0, run.stderr
    assert "trueup run observes this process" in run.stdout
    assert run.record.steps.count == 5


def test_one_at_a_time():
    observation = trueup.observe()
    with pytest.raises(RuntimeError, match="enter the block"):
        _ = observation.record
    with observation, pytest.raises(RuntimeError, match="at work"), trueup.observe():
        pass
    with pytest.raises(RuntimeError, match="of one block"), observation:
        pass


INTO_A_FILE = """
import glob, os, tempfile, trueup
open("taken", "w").close()
with trueup.observe("taken/folder") as observation:
    pass
print([note.what for note in observation.record.notes], observation.record.exit.code)
print(glob.glob(os.path.join(tempfile.gettempdir(), "trueup-*")))
"""


def test_a_folder_that_cannot_be_written_is_said_and_leaves_nothing(tmp_path, monkeypatch):
    (tmp_path / "temporary").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "temporary"))
    done = plain_run(tmp_path, PYTHON, "-c", INTO_A_FILE, timeout=100)
    assert done.returncode == 0, done.stderr
    told, left = done.stdout.splitlines()
    assert "cannot be written" in told
    assert told.endswith("] 0")
    assert left == "[]"
