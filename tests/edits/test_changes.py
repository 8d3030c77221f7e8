"""Diffs: what they say is what is done, by us and by git."""

from __future__ import annotations

import random
import subprocess
from pathlib import Path

import pytest

from trueup.edits.applying import apply, write_copies
from trueup.edits.changes import ConflictError, edit, merged
from trueup.schema.fixing import Edit, Step

TEXT = "".join(f"line {number}\n" for number in range(12))


def changed(before: str, after: str) -> Edit:
    found = edit("train.py", before, after)
    assert found is not None
    return found


def test_equal_texts_have_no_edit() -> None:
    assert edit("train.py", TEXT, TEXT) is None


@pytest.mark.parametrize("seed", range(20))
def test_an_edit_applied_to_its_text_is_the_other_text_and_git_agrees(seed: int, tmp_path: Path) -> None:
    draw = random.Random(seed)
    lines = TEXT.splitlines(keepends=True)
    new = [line for line in lines if draw.random() > 0.2]
    for _ in range(draw.randrange(1, 4)):
        new.insert(draw.randrange(len(new) + 1), f"new {draw.random()}\n")
    before, after = (text if draw.random() < 0.5 else text.rstrip("\n") for text in (TEXT, "".join(new)))
    change = changed(before, after)
    assert merged(before, [change]) == after

    (tmp_path / "train.py").write_text(before)
    subprocess.run(["git", "apply", "-"], input=change.diff, text=True, cwd=tmp_path, check=True)
    assert (tmp_path / "train.py").read_text() == after


def test_line_ends_stay(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_bytes(b"a\r\nb\r\nc\n")
    apply([changed("a\r\nb\r\nc\n", "a\r\nB\r\nc\n")], tmp_path)
    assert (tmp_path / "train.py").read_bytes() == b"a\r\nB\r\nc\n"


def test_edits_of_one_text_go_together() -> None:
    one = changed(TEXT, "import os\n" + TEXT)
    other = changed(TEXT, "import os\nimport torch\n" + TEXT.replace("line 6\n", ""))
    third = changed(TEXT, TEXT.replace("line 9", "line nine"))
    assert merged(TEXT, [one, third]) == "import os\n" + TEXT.replace("line 9", "line nine")
    assert merged(TEXT, [third, third]) == TEXT.replace("line 9", "line nine")
    assert merged(TEXT, [other, third]).count("import os") == 1


def test_edits_of_one_line_contradict_each_other() -> None:
    one, other = (changed(TEXT, TEXT.replace("line 3", name)) for name in ("three", "drei"))
    with pytest.raises(ConflictError, match="line 4"):
        merged(TEXT, [one, other])


def test_another_text_is_refused() -> None:
    with pytest.raises(ConflictError, match="line 4"):
        merged(TEXT.replace("line 3", "other"), [changed(TEXT, TEXT.replace("line 3", "three"))])


def test_a_secret_beside_a_change_is_not_shown_and_one_in_it_hinders_it() -> None:
    before = 'model = build()\nlogin(api_key="hf_abcdefghijklmnopqrstuvwxyzABCDEFGH")\nprint(model)\n'
    shown = changed(before, before.replace("build()", "build(1)"))
    assert "hf_" not in shown.diff
    assert merged(before, [shown]) == before.replace("build()", "build(1)")
    assert edit("train.py", before, before.replace("hf_a", "hf_b")) is None


def test_copies_are_written_beside_the_files_and_what_contradicts_is_told(tmp_path: Path) -> None:
    folder, copies = tmp_path / "job", tmp_path / "copies"
    folder.mkdir()
    (folder / "train.py").write_text(TEXT)
    steps = [
        Step(rule="compile/a", remedy=name, how="", edits=(changed(TEXT, TEXT.replace("line 3", name)),))
        for name in ("three", "drei")
    ]
    files, left = write_copies(steps, folder, copies)
    assert files == (copies / "train.py",)
    assert (copies / "train.py").read_text() == TEXT.replace("line 3", "three")
    assert (folder / "train.py").read_text() == TEXT
    assert len(left) == 1
    assert left[0].startswith("drei ")


@pytest.mark.parametrize("kind", ["text", "link", "bytes", "folder"])
def test_what_is_there_under_the_name_of_a_copy_stays(tmp_path: Path, kind: str) -> None:
    folder, copies = tmp_path / "job", tmp_path / "copies"
    folder.mkdir()
    copies.mkdir()
    (folder / "train.py").write_text(TEXT)
    (tmp_path / "elsewhere").write_text("mine")
    there = copies / "train.py"
    {
        "text": lambda: there.write_text("mine"),
        "link": lambda: there.symlink_to(tmp_path / "elsewhere"),
        "bytes": lambda: there.write_bytes(b"\xff"),
        "folder": there.mkdir,
    }[kind]()
    step = Step(rule="compile/a", remedy="three", how="", edits=(changed(TEXT, TEXT.replace("line 3", "three")),))
    files, left = write_copies([step], folder, copies)
    assert files == ()
    assert len(left) == 1
    assert "holds something else" in left[0]
    assert (tmp_path / "elsewhere").read_text() == "mine"
    assert kind != "text" or there.read_text() == "mine"


def test_the_same_copies_are_written_twice(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(TEXT)
    step = Step(rule="compile/a", remedy="three", how="", edits=(changed(TEXT, TEXT.replace("line 3", "three")),))
    first = write_copies([step], tmp_path, tmp_path / "copies")
    assert write_copies([step], tmp_path, tmp_path / "copies") == first == ((tmp_path / "copies" / "train.py",), ())
