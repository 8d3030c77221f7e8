"""Whole runs: real commands, the real instrument, the record that comes of them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from trueup.runs.merge import merge
from trueup.runs.process import CommandError
from trueup.runs.run import new_folder, record_from_folder, run_command
from trueup.schema.record import Record, record_from_json
from trueup.schema.variant import Variant

PYTHON = sys.executable
RUN = """
import sys
from pathlib import Path
from trueup.runs.run import run_command
record = run_command(sys.argv[2:], out=Path(sys.argv[1]))
sys.exit(record.exit.code)
"""
TRAIN = """
import os
import torch

model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
torch.manual_seed(0)
if "RANK" in os.environ:
    torch.distributed.init_process_group("gloo")
    model = torch.nn.parallel.DistributedDataParallel(model)
for step in range(6):
    model(torch.ones(2, 4)).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
if "RANK" in os.environ:
    torch.distributed.destroy_process_group()
print("trained")
"""


def observed(command: list[str], out: Path, **options: object) -> Record:
    return run_command(command, out=out, pass_output=False, judge=lambda record: (), **options)  # type: ignore[arg-type]


def notes(record: Record) -> str:
    return "\n".join(note.what for note in record.notes)


@pytest.fixture
def script(tmp_path: Path) -> Path:
    file = tmp_path / "train.py"
    file.write_text(TRAIN)
    return file


def lingering(script: Path) -> Path:
    """The same job, which goes on for longer than a tick after its last step."""
    longer = script.with_name("lingering.py")
    longer.write_text(f"{script.read_text()}\nimport time\ntime.sleep(3)\n")
    return longer


def test_places_are_those_of_the_folder_the_job_was_started_in(script: Path, tmp_path: Path, monkeypatch) -> None:
    """The script goes elsewhere first, as launch scripts do."""
    (tmp_path / "outputs").mkdir()
    monkeypatch.chdir(tmp_path)
    script.write_text(script.read_text().replace("optimizer = ", "model.compile(backend='eager')\noptimizer = "))
    record = observed(["sh", "-c", f"cd outputs && {PYTHON} ../train.py"], tmp_path / "run")
    (compiled,) = [each for each in record.order if each.event == "Module.compile"]
    assert compiled.at == "train.py:6"


def test_a_training_process(script: Path, tmp_path: Path) -> None:
    updates: list[Record] = []
    record = observed([PYTHON, str(lingering(script))], tmp_path / "run", on_update=updates.append)
    assert (record.exit.code, record.steps.count, record.launch.world_size) == (0, 6, 1)
    assert len(record.steps.losses) == 6
    assert record.steps.losses[0] > record.steps.losses[-1] >= 0  # type: ignore[operator]
    assert record.environment["packages"]["torch"]
    assert record.actual.training.optimizers == ("SGD",)
    assert record.unknown_fields == 0
    assert record.notes == ()
    stored = record_from_json((tmp_path / "run" / "record.json").read_bytes())
    assert stored == record
    assert (tmp_path / "run" / "stdout.txt").read_text() == "trained\n"
    assert updates, "a sampled step was not told"


def test_ranks_behind_a_shell_script_that_sets_pythonpath(script: Path, tmp_path: Path) -> None:
    launch = tmp_path / "launch.sh"
    environment = Path(PYTHON).parent
    launch.write_text(f"PATH={environment}:$PATH\nPYTHONPATH=. torchrun --nproc-per-node 2 {script}\n")
    record = observed(["bash", str(launch)], tmp_path / "run", steps=3)
    assert (record.exit.code, record.exit.reason) == (0, "steps reached"), notes(record)
    assert (record.launch.requested_world_size, record.launch.world_size) == (2, 2)
    assert [(rank.rank, rank.steps, rank.process_group) for rank in record.ranks] == [(0, 3, "gloo"), (1, 3, "gloo")]
    assert record.actual.sharding.strategy == "DDP"
    assert record.steps.grad_norms[0]


def test_a_command_that_fails_says_why(tmp_path: Path) -> None:
    record = observed([PYTHON, "-c", "raise ValueError('no such corpus')"], tmp_path / "run")
    assert (record.exit.code, record.exit.reason) == (1, "ValueError: no such corpus")
    assert record.ranks[0].error is not None
    isolated = observed([PYTHON, "-I", "-c", "raise ValueError('no such corpus')"], tmp_path / "isolated")
    assert (isolated.exit.code, isolated.exit.reason) == (1, "ValueError: no such corpus")


def test_an_isolated_interpreter_is_named(tmp_path: Path) -> None:
    record = observed([PYTHON, "-I", "-c", "import time; time.sleep(1)"], tmp_path / "run")
    assert "with -I" in notes(record)


def test_a_killed_process_keeps_what_it_told(tmp_path: Path) -> None:
    kill = TRAIN.replace("print(", "os.kill(os.getpid(), 9)\nprint(")
    record = observed([PYTHON, "-c", kill], tmp_path / "run")
    assert (record.exit.code, record.exit.signal, record.steps.count) == (137, "SIGKILL", 6)
    assert "was killed by SIGKILL before" in notes(record)


def test_the_variant_reaches_the_command_and_the_record(tmp_path: Path) -> None:
    variant = Variant(name="probe", layers={"compile": "off"}, environment={"HELLO": "there"})
    record = observed(["sh", "-c", "echo $HELLO $TRUEUP_SET"], tmp_path / "run", variant=variant)
    assert (tmp_path / "run" / "stdout.txt").read_text() == 'there {"compile": "off"}\n'
    assert record.variant["layers"] == {"compile": "off"}


def test_packages_of_other_versions_than_proved_are_named(script: Path, tmp_path: Path) -> None:
    record = observed([PYTHON, str(script)], tmp_path / "run", variant=Variant(fingerprint={"torch": "1.0"}))
    assert "proved with torch 1.0" in notes(record)


def test_a_run_in_progress_is_read_from_its_folder(tmp_path: Path) -> None:
    out = tmp_path / "run"
    observed([PYTHON, "-c", TRAIN], out)
    finished = record_from_folder(out, judge=lambda record: ())
    assert finished.exit.code == 0
    (out / "record.json").unlink()  # as before the end
    going_on = record_from_folder(out, judge=lambda record: ())
    assert (going_on.exit.code, going_on.steps.count) == (None, 6)
    assert going_on.command[0] == finished.command[0]
    assert going_on.started == finished.started


def test_a_second_run_in_a_folder_forgets_the_first(tmp_path: Path) -> None:
    out = tmp_path / "run"
    assert observed([PYTHON, "-c", "raise ValueError('first')"], out).ranks
    assert observed(["sh", "-c", "true"], out).ranks == ()


def test_a_folder_that_cannot_be_written_does_not_stop_the_command(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    command = [PYTHON, "-c", "print('ran'); raise SystemExit(5)"]
    result = subprocess.run(
        [PYTHON, "-c", RUN, str(tmp_path / "file" / "run"), *command], capture_output=True, text=True, timeout=60
    )
    assert (result.returncode, result.stdout) == (5, "ran\n")
    assert "cannot be written" in result.stderr
    failing = observed([PYTHON, "-c", "raise ValueError('seen')"], tmp_path / "file" / "run")
    assert failing.exit.reason == "ValueError: seen"
    assert "cannot be written" in notes(failing)


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full, a device that is always full")
def test_a_full_disk_does_not_stop_the_command(tmp_path: Path) -> None:
    out = tmp_path / "run"
    out.mkdir()
    (out / "stdout.txt").symlink_to("/dev/full")
    command = ["sh", "-c", f"ln -s /dev/full {out}/record.json; echo ran"]
    result = subprocess.run([PYTHON, "-c", RUN, str(out), *command], capture_output=True, text=True, timeout=60)
    assert (result.returncode, result.stdout) == (0, "ran\n")
    assert "record.json could not be written" in result.stderr


def test_a_view_that_fails_does_not_stop_the_run(script: Path, tmp_path: Path) -> None:
    def broken(record: Record) -> None:
        raise RuntimeError("no terminal")

    record = observed([PYTHON, str(lingering(script))], tmp_path / "run", on_update=broken)
    assert (record.exit.code, record.steps.count) == (0, 6)
    assert "the live view failed: RuntimeError: no terminal" in notes(record)


def test_a_judge_that_fails_leaves_a_note(tmp_path: Path) -> None:
    record = run_command(["true"], out=tmp_path / "run", pass_output=False, judge=lambda record: 1 / 0)  # type: ignore[arg-type,return-value]
    assert record.exit.code == 0
    assert "the rules could not judge" in notes(record)


def test_a_missing_command_leaves_no_folder(tmp_path: Path) -> None:
    with pytest.raises(CommandError) as error:
        run_command(["no-such-command"], out=tmp_path / "run")
    assert error.value.code == 127
    assert not (tmp_path / "run").exists()


def test_nothing_secret_is_stored(tmp_path: Path) -> None:
    secret = "hf_" + "s3cr3t" * 4
    run_command(
        [PYTHON, "-c", f"raise ValueError('{secret}')", "--token", "abc123"],
        out=tmp_path / "run",
        variant=Variant(environment={"HF_TOKEN": "variable-secret"}),
        pass_output=False,
    )
    for name in ("record.json", "run.json"):
        text = (tmp_path / "run" / name).read_text()
        assert json.loads(text)
        for part in (secret, "abc123", "variable-secret", str(Path.home()) + "/"):
            assert part not in text, name


def test_arguments_and_secret_variables_are_not_in_the_events(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("raise SystemExit(__import__('os').environ['NCCL_AUTH_TOKENX'] != 'seen')")
    run_command(
        [PYTHON, "-u", "-W", "ignore", str(script), "--api-key", "kkkQ", "trainer.wandb.api_key=oooQ", "-p", "passQ"],
        out=tmp_path / "run",
        variant=Variant(
            environment={
                "RANK": "0",
                "NCCL_AUTH_TOKENX": "seen",
                "TORCH_PROXY": "https://u:pwsecret@h",
                "NCCL_DEBUG": "INFO",
            }
        ),
        pass_output=False,
    )
    (events,) = (tmp_path / "run" / "events").glob("*.jsonl")
    process = json.loads(events.read_text().splitlines()[0])
    assert process["argv"][1:] == ["-u", "-W", "ignore", str(script)]
    assert process["variables"]["NCCL_DEBUG"] == "INFO"
    assert process["variables"]["NCCL_AUTH_TOKENX"] == "***"
    for secret in ("kkkQ", "oooQ", "passQ", "pwsecret", '"seen"'):
        assert secret not in events.read_text()
    assert json.loads((tmp_path / "run" / "record.json").read_text())["exit"]["code"] == 0


def test_exceptions_in_the_events_hold_no_secrets(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(
        "token = 'hf_' + 's3cr3t' * 4\n"
        "try:\n"
        "    raise OSError(f'cannot read https://user:pwQ1x@host/model with {token}, pad_token=0')\n"
        "except OSError as error:\n"
        "    filler = 'x' * 3990\n"
        "    raise RuntimeError(f'{filler} {token} password=pwQ2x') from error\n"
    )
    run_command(
        [PYTHON, str(script)], out=tmp_path / "run", variant=Variant(environment={"RANK": "0"}), pass_output=False
    )
    (events,) = (tmp_path / "run" / "events").glob("*.jsonl")
    (error,) = (event for event in map(json.loads, events.read_text().splitlines()) if event["kind"] == "error")
    assert error["message"].startswith("xxx")
    assert len(error["message"]) <= 4000
    assert error["chain"][1]["message"] == "cannot read https://***@host/model with ***, pad_token=0"
    for secret in ("s3cr3t", "hf_s", "pwQ1x", "pwQ2x"):
        assert secret not in events.read_text()


def test_folders_of_runs_are_told_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    first = new_folder()
    assert first.is_dir()
    assert new_folder() != first
    assert ":" not in str(first)


def test_a_record_can_be_made_of_nothing() -> None:
    from trueup.runs.events import Events

    assert merge(Events()).ranks == ()


def test_what_is_no_utf8_is_written_escaped(tmp_path: Path) -> None:
    program = "raise RuntimeError('no file s\\udcff')"
    record = run_command([sys.executable, "-c", program, os.fsdecode(b"\xff")], out=tmp_path / "run", pass_output=False)
    assert record.exit.code == 1
    written = (tmp_path / "run" / "record.json").read_text(encoding="utf-8")
    assert "\\\\udcff" in written
