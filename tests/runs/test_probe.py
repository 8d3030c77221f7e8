"""A probe writes into its copy of the working folder, whatever the program does."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from trueup.runs import probe as probe_module
from trueup.runs.probe import LINKED_BYTES, Probe, ProbeError, make_probe
from trueup.runs.run import run_command
from trueup.schema.record import Record

WRITES = """
import os, sys, torch
from pathlib import Path
from safetensors.torch import save_file
assert Path("small.txt").read_text() == "mine"
assert Path("../beside/data.txt").exists() == {links}
assert os.path.getsize("large.bin") == {large}
Path("small.txt").write_text("theirs")
Path("new.txt").write_text("new")
open("large.bin", "r+b").write(b"x")
assert os.path.getsize("large.bin") == {large}
torch.save({{"a": torch.ones(1)}}, "checkpoint.pt")
save_file({{"a": torch.ones(1)}}, "model.safetensors")
os.remove("removed.txt")
os.makedirs("output/checkpoint-1")
Path("output/checkpoint-1/state.txt").write_text("new")
torch.save({{"a": torch.ones(1)}}, "output/last.pt")
os.rename("output/old.txt", "output/older.txt")
print("wrote", os.environ["WANDB_MODE"], os.environ["MLFLOW_TRACKING_URI"])
"""


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """A working folder with small and large files, and a folder beside it."""
    folder = tmp_path / "work"
    (folder / "inner").mkdir(parents=True)
    (tmp_path / "beside").mkdir()
    (tmp_path / "beside" / "data.txt").write_text("data")
    (tmp_path / "scratch").mkdir()
    for name in ("old.txt", "last.pt"):
        (tmp_path / "scratch" / name).write_text("mine")
    (folder / "output").symlink_to("../scratch")
    large = LINKED_BYTES + 1
    for links in (False, True):
        (folder / f"train_{links}.py").write_text(WRITES.format(large=large, links=links))
    for name in ("small.txt", "removed.txt", "inner/deep.txt"):
        (folder / name).write_text("mine")
    for name in ("large.bin", "checkpoint.pt", "model.safetensors"):
        with (folder / name).open("wb") as file:
            file.truncate(large)
    return folder


def state(folder: Path) -> dict[str, tuple[int, int]]:
    return {
        str(path.relative_to(folder)): (path.stat().st_size, path.stat().st_mtime_ns)
        for path in folder.rglob("*")
        if path.is_file() and ".trueup" not in path.parts
    }


def run_probe(work: Path, *command: str, links: bool = False) -> tuple[Record, Probe]:
    out = work / ".trueup" / "probe"
    probe = make_probe(work, out / "tree", links)
    return run_command(command, out=out, probe=probe, pass_output=False), probe


@pytest.mark.parametrize("links", [False, True])
def test_nothing_of_the_users_is_changed(work: Path, links: bool) -> None:
    before, beside = state(work), state(work.parent / "scratch")
    record, probe = run_probe(work, sys.executable, f"train_{links}.py", links=links)
    printed = (work / ".trueup" / "probe" / "stdout.txt").read_text()
    assert record.exit.code == 0, (work / ".trueup" / "probe" / "stderr.txt").read_text()
    assert printed.startswith("wrote offline file:///")
    assert state(work) == before
    assert state(work.parent / "scratch") == beside
    assert (probe.folder / "output" / "checkpoint-1" / "state.txt").read_text() == "new"
    assert (probe.folder / "new.txt").read_text() == "new"
    assert (probe.folder / "small.txt").read_text() == "theirs"


def test_the_copy_goes_and_what_it_links_to_stays(work: Path) -> None:
    before = state(work)
    _, probe = run_probe(work, sys.executable, "-c", "pass", links=True)
    assert probe.folder.is_dir()
    probe.remove()
    assert not probe.folder.exists()
    assert state(work) == before
    assert (work.parent / "beside" / "data.txt").read_text() == "data"


def test_links_lead_where_they_led_and_odd_entries_are_no_failure(work: Path) -> None:
    (work / "link.txt").symlink_to("inner/deep.txt")
    (work / "broken").symlink_to("nowhere")
    os.mkfifo(work / "pipe")
    (work / "räume und ünder").mkdir()
    _, probe = run_probe(work, sys.executable, "-c", "print(open('link.txt').read())")
    assert (work / ".trueup" / "probe" / "stdout.txt").read_text() == "mine\n"
    assert (probe.folder / "räume und ünder").is_dir()


def test_a_probe_reads_nothing_from_the_terminal(work: Path) -> None:
    record, _ = run_probe(work, sys.executable, "-c", "import sys; sys.exit(len(sys.stdin.read()))")
    assert record.exit.code == 0


SHELL = "echo l >> large.bin; rm -rf output/* ../beside/*; cp /dev/null checkpoint.pt; cd output && echo x > old.txt"


def test_a_shell_changes_the_copy_only(work: Path) -> None:
    before, beside = state(work), state(work.parent / "scratch")
    record, probe = run_probe(work, "bash", "-c", SHELL)
    assert record.exit.code == 0
    assert (state(work), state(work.parent / "scratch")) == (before, beside)
    assert (work.parent / "beside" / "data.txt").exists()
    assert (probe.folder / "checkpoint.pt").stat().st_size == 0


def test_resolved_paths_and_links_within_the_folder_stay_in_the_copy(work: Path) -> None:
    (work / "latest").symlink_to("inner")
    before = state(work)
    code = "import pathlib; pathlib.Path('latest/deep.txt').resolve().write_text('theirs')"
    _, probe = run_probe(work, sys.executable, "-c", code)
    assert state(work) == before
    assert (probe.folder / "inner" / "deep.txt").read_text() == "theirs"


def test_a_folder_too_large_to_copy_is_refused(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probe_module, "COPIED_TOTAL", LINKED_BYTES)
    with pytest.raises(ProbeError, match="start in a folder that holds the job alone, or allow links"):
        make_probe(work, work / ".trueup" / "tree")


def test_absolute_paths_of_the_command_lead_to_the_copy(work: Path, tmp_path: Path) -> None:
    (work / "env").mkdir()
    (work / "env" / "pyvenv.cfg").touch()
    probe = make_probe(work, tmp_path / "tree")
    copy = probe.folder
    for word, led in {
        f"{work}": f"{copy}",
        f"{work}/train.py": f"{copy}/train.py",
        f"--out={work}/a b/c": f"--out={copy}/a b/c",
        f"cd '{work}' && python {work}/x.py >{work}/log": f"cd '{copy}' && python {copy}/x.py >{copy}/log",
    }.items():
        assert probe.command((word,)) == (led,)
    for word in (
        f"{work}2/x",
        f"/mnt{work}",
        f"{work}/../beside",
        f"{work}/.venv/bin/python",
        f"{work}/env/bin/python",
    ):
        assert probe.command((word,)) == (word,)
    led_environment = probe.variables({"PYTHONPATH": f"/a:{work}/inner", "PWD": str(work), "HOME": str(work)})
    assert led_environment["PYTHONPATH"] == f"/a:{copy}/inner"
    assert (led_environment["PWD"], led_environment["HOME"]) == (str(copy), str(work))


def test_a_checkpoint_that_the_command_names_absolutely_is_not_overwritten(work: Path, tmp_path: Path) -> None:
    mine = work / "mine.pt"
    mine.write_text("mine")
    probe = make_probe(work, tmp_path / "tree")
    script = "import sys; open(sys.argv[1], 'w').write('theirs')"
    command = (sys.executable, "-c", script, str(mine))
    record = run_command(command, out=tmp_path / "run", pass_output=False, probe=probe)
    assert (record.exit.code, mine.read_text()) == (0, "mine")
    assert record.command[-1] == str(mine)
    assert (probe.folder / "mine.pt").read_text() == "theirs"
