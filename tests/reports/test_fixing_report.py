"""The recipe of `trueup fix` with its changes, as text and as a page."""

from __future__ import annotations

import msgspec

from trueup.reports.fixing import as_html, as_json, as_text, headline
from trueup.schema.fixing import Edit, Fixing, Step
from trueup.schema.record import Exit, Rank, Record, Steps
from trueup.schema.variant import Variant

DIFF = "--- a/train.py\n+++ b/train.py\n@@ -1,2 +1,2 @@\n x = 1  # \x1b[31m\n-y = <b>\n+y = f(x)\n"
STEP = Step(rule="compile/x", remedy="y", how="write f(x)", edits=(Edit(path="train.py", diff=DIFF),))
FIXING = Fixing(before=Record(), recipe=(STEP,), installed=("pip install peft",))


def test_a_diff_stands_below_its_step() -> None:
    lines = as_text(FIXING).splitlines()
    start = lines.index("     --- a/train.py")
    assert lines[start - 2 : start] == ["  1. by hand: write f(x)", "     for compile/x"]
    assert lines[start + 4 : start + 6] == ["     -y = <b>", "     +y = f(x)"]


def test_a_diff_can_do_nothing_but_be_read() -> None:
    assert "\x1b" not in as_text(FIXING)
    assert "\x1b[32m+y = f(x)\x1b[0m" in as_text(FIXING, colour=True)
    page = as_html(FIXING)
    assert "-y = &lt;b&gt;" in page
    assert "<b>" not in page


def test_commands_are_shown_and_what_was_installed_is_told() -> None:
    step = Step(rule="compile/x", remedy="y", how="upgrade", command="torchrun a.py", install="pip install 'a>=1'")
    text = as_text(msgspec.structs.replace(FIXING, recipe=(step,)))
    assert "     torchrun a.py\n     pip install 'a>=1'  (run by trueup fix --yes)\n" in text
    assert "install  pip install peft" in text
    assert "pip install &#39;a&gt;=1&#39;" in as_html(msgspec.structs.replace(FIXING, recipe=(step,)))


def test_json_holds_the_diff() -> None:
    told = msgspec.json.decode(as_json(FIXING))
    assert told["recipe"][0]["edits"] == [{"path": "train.py", "diff": DIFF}]


def test_a_job_that_fails_for_no_known_reason_is_not_called_well() -> None:
    assert headline(Fixing(before=Record(ranks=(Rank(rank=0),), steps=Steps(count=3)))) == "nothing to fix"
    assert headline(Fixing(before=Record(ranks=(Rank(rank=0),)))).startswith("no optimizer step was made")
    assert headline(Fixing(before=Record())) == "nothing observed, so nothing to fix"
    assert "the job fails, and no known class fits" in headline(Fixing(before=Record(exit=Exit(code=1))))


def test_a_job_that_was_ended_is_not_said_to_fail() -> None:
    assert "--timeout ended the job" in headline(Fixing(before=Record(exit=Exit(code=124, reason="timeout"))))


def test_the_command_for_the_variant_can_be_copied() -> None:
    fixing = msgspec.structs.replace(FIXING, variant=Variant(remedies=("y",)))
    assert "trueup run --with 'my runs/v.toml' -- COMMAND" in as_text(fixing, variant="my runs/v.toml")
