"""The reports of `trueup verify` from results made by hand."""

from __future__ import annotations

import json
import math

import msgspec
import pytest

from trueup.reports import verification as report
from trueup.schema.fixing import Speed
from trueup.schema.record import Record, Steps
from trueup.schema.verification import Measure, Numerics, Peak, StepNumbers, Switched, Verification

COMMAND = ("python", "my train.py")
LOSSES = (3.0, 2.0, 1.0)


def run(*losses: float | None) -> Record:
    return Record(command=COMMAND, steps=Steps(count=len(losses), losses=losses))


DIFFERENT = Verification(
    verdict="different",
    why="more than rounding and noise explain, loss first at step 2",
    numerics=Numerics(
        verdict="different",
        why="loss differs by at most inf over 2 steps",
        dtype="float32",
        steps=(
            StepNumbers(step=1, control=3.0, candidate=3.0, loss=Measure(difference=0.0, noise=0.0, allowed=1e-4)),
            StepNumbers(step=2, control=2.0, loss=Measure(difference=math.inf, allowed=1e-4), beyond=("loss",)),
        ),
    ),
    speed=Speed(ratio=2.0, low=1.8, high=2.2, before_s=0.2, after_s=0.1),
    effect="faster",
    memory=Peak(control_bytes=2_000_000_000, candidate_bytes=1_000_000_000, source="cuda allocator"),
    switched=(
        Switched(
            layer="compile",
            asked="off",
            state="as asked",
            control="no graph",
            candidate="4 graphs",
            on_in_candidate=True,
        ),
    ),
    command=COMMAND,
    control="compile=off",
    candidate="<script>\x1b[31m",
    controls=(run(*LOSSES), run(*LOSSES)),
    candidates=(run(3.0, None, 4.0), run(3.0, None, 4.0)),
)
VERIFIED = msgspec.structs.replace(DIFFERENT, verdict="verified", why="same losses")


def test_a_difference_is_answered_with_the_layer_to_leave_off() -> None:
    text = report.as_text(DIFFERENT, options="--with v.toml")
    assert text.startswith("trueup verify: different: more than rounding and noise explain, loss first at step 2\n")
    assert "next    trueup verify --set compile=off --with v.toml -- python 'my train.py'" in text
    assert "compile        control: no graph; candidate: 4 graphs" in text
    assert "peak 1 GB, the control's 2 GB (cuda allocator)" in text
    assert "\x1b" not in text


@pytest.mark.parametrize(("options", "said"), [
    ("--set compile=off --with v.toml", "trueup verify -- python"),
    ("", "trueup verify --set compile=off -- python"),
])  # fmt: skip
def test_a_layer_that_is_off_already_is_not_named_again(options: str, said: str) -> None:
    assert said in report.as_text(DIFFERENT, options=options)


def test_the_speed_stands_in_the_line_of_what_is_verified() -> None:
    told = report.headline(VERIFIED)
    assert told == "verified: same losses; 2.00 times as fast (95 % interval 1.80 to 2.20)"
    same = msgspec.structs.replace(VERIFIED, effect="no difference shown", speed=Speed(ratio=1.01, low=0.9, high=1.1))
    assert "no difference in speed shown (1.01 times as fast" in report.headline(same)


@pytest.mark.parametrize(("verdict", "candidates", "said"), [
    ("verified", 1, "trueup run -- python"),
    ("within noise", 1, "set the job's seeds"),
    ("not compared", 1, "let each step call backward() on its loss"),
    ("failed", 1, "trueup fix -- python"),
    ("failed", 0, "trueup verify --against VARIANT.toml -- python"),
])  # fmt: skip
def test_each_verdict_has_a_next_step(verdict: str, candidates: int, said: str) -> None:
    made = msgspec.structs.replace(
        DIFFERENT,
        verdict=verdict,
        numerics=Numerics(verdict="not compared", why=""),
        candidates=DIFFERENT.candidates[:candidates],
    )
    assert said in report.as_text(made)


def test_the_page_shows_both_curves_on_one_scale_and_no_markup_of_the_job() -> None:
    page = report.as_html(DIFFERENT)
    control, candidate = (curve for _, curve in report.charts(DIFFERENT))
    assert (control.low, control.high) == (candidate.low, candidate.high) == ("1", "4")
    assert page.count("<polyline") == 3  # the candidate's is parted by the step without a loss
    assert "<script" not in page
    assert "&lt;script&gt;" in page


def test_sarif_and_json() -> None:
    (told,) = json.loads(report.as_sarif(DIFFERENT))["runs"]
    assert [(result["level"], result["ruleId"]) for result in told["results"]] == [("error", "trueup/verify")]
    assert json.loads(report.as_sarif(VERIFIED))["runs"][0]["results"] == []
    values = json.loads(report.as_json(DIFFERENT))
    assert (values["verdict"], values["speed"]["ratio"]) == ("different", 2.0)
    assert values["numerics"]["steps"][1]["loss"]["difference"] is None
