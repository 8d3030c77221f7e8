"""The gauntlet: broken training jobs, whose fault must be found first, and the same jobs mended, which must be clean.

`make test` looks for the fault of each case that bears the name of its rule, and mends and repairs one case of each
layer. All others, and variants (other libraries, other ways to write the same fault), are run by `make gauntlet`.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import pytest
import yaml

from trueup.rules.registry import rule

FOLDER = Path(__file__).parent / "gauntlet"
ANSWERS = ("expect.yaml", "fixed.py", "launch_fixed")


@dataclass(frozen=True)
class Case:
    """One folder of the gauntlet."""

    folder: Path

    @property
    def name(self) -> str:
        return f"{self.folder.parent.name}/{self.folder.name}"

    @property
    def expect(self) -> dict[str, Any]:
        expected: dict[str, Any] = yaml.safe_load((self.folder / "expect.yaml").read_text())
        return expected

    @property
    def rules(self) -> set[str]:
        """The ids that name the fault."""
        return {self.expect["rule"], *self.expect["accept"]}

    @property
    def is_slow(self) -> bool:
        """Whether the fault costs time here, which the repair must win back.

        A compile that is lost costs none where its backend writes no code (`aot_eager`); one that is repeated does.
        """
        return bool(self.expect.get("slow", False))

    @property
    def is_variant(self) -> bool:
        return bool(self.name != self.expect["rule"])

    def launch(self, fixed: bool) -> str:
        if fixed and (self.folder / "launch_fixed").exists():
            return (self.folder / "launch_fixed").read_text().strip()
        command = (self.folder / "launch").read_text().strip()
        return command.replace("train.py", "fixed.py") if fixed else command

    @property
    def is_automatic(self) -> bool:
        """Whether trueup can apply a remedy of the fault's rule."""
        return any(remedy.automatic for remedy in rule(self.expect["rule"]).remedies)

    def run(self, where: Path, *, fixed: bool = False, by: str = "run") -> dict[str, Any]:
        """What a command of trueup tells of a fresh copy of the folder, without the answers for the broken job."""
        hidden = () if fixed else ANSWERS
        job = where / self.folder.name
        shutil.copytree(self.folder, job, ignore=shutil.ignore_patterns(*hidden, "__pycache__"))
        limit = str(int(4 * self.expect["seconds"] + 120))
        more = {"fix": ["--pairs", "1"], "bisect": ["--shallow"]}.get(by, [])
        command = [sys.executable, "-m", "trueup", by, *more, "--json", str(where / "result.json"), "--timeout", limit]
        here = str(Path(sys.executable).parent)
        environment = {**os.environ, "PATH": f"{here}{os.pathsep}{os.environ['PATH']}", "OMP_NUM_THREADS": "1"}
        launch = ["--", "sh", "-c", self.launch(fixed)]
        with self.beside(environment):
            subprocess.run([*command, *launch], cwd=job, env=environment, capture_output=True)
        result: dict[str, Any] = json.loads((where / "result.json").read_text())
        return result

    @contextlib.contextmanager
    def beside(self, environment: dict[str, str]) -> Iterator[None]:
        """Run what the case says must run beside the job, for as long as the block lasts."""
        command = self.folder / "background"
        if not command.exists():
            yield
            return
        process = subprocess.Popen(
            ["sh", "-c", command.read_text().strip()],
            cwd=self.folder,
            env=environment,
            start_new_session=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            yield
        finally:
            os.killpg(process.pid, signal.SIGTERM)
            process.wait()


CASES = [Case(path.parent) for path in sorted(FOLDER.glob("*/*/expect.yaml"))]
PARAMETERS = [pytest.param(case, id=case.name, marks=[pytest.mark.slow] if case.is_variant else []) for case in CASES]
QUICK = {
    "adapter/adapters-not-trained",
    "attention/eager-implementation-requested",
    "checkpointing/reentrant-variant-used",
    "compile/in-place-compile-of-builtin-module",
    "compile/scalar-extraction-graph-break",
    "precision/gradscaler-with-bf16",
    "sharding/no-wrap-policy-single-unit",
    "trainer/optimizer-holds-replaced-parameters",
}
"""One of each layer that trueup can repair."""
MENDED = [pytest.param(case, id=case.name, marks=[] if case.name in QUICK else [pytest.mark.slow]) for case in CASES]
BY_HAND = {
    "compile/scalar-extraction-in-experts": "item() is captured; the sizes of the experts are data, a note",
    "checkpointing/memory-budget-recomputes-too-much": "a budget of memory may be meant",
    "attention/explicit-mask-deselects-flash": "with dropout a CPU has the math kernel only",
    "attention/kernel-math-fallback": "no fused kernel of a CPU takes a bias that is trained",
    "attention/math-fallback-attention-dropout": "without dropout it would be another training",
    "checkpointing/compiled-region-falls-back-to-eager": "the line that breaks the graph splits the blocks",
    "checkpointing/compiled-region-with-torch-checkpoint": "the branch on a value splits the blocks",
    "compile/data-dependent-branch-graph-break": "the branch is the program's own, and which values it is for",
    "compile/data-dependent-branch-in-forward": "the branch is the program's own, and which values it is for",
    "compile/recompile-mode-of-inputs": "the modes of training and evaluation are left, each with its graph",
    "launcher/uneven-batches-at-epoch-end": "the batches come from the program's own generator, not from a DataLoader",
    "memory/evaluation-predictions-accumulate": "the device is the host: predictions cannot be moved to it",
}
"""Cases that the remedy of their rule does not repair, and why."""
QUICK_CONFLICTS = {"adapter/reentrant-checkpoint-no-graph"}
REPAIRS = [
    pytest.param(case, id=case.name, marks=[] if case.name in QUICK else [pytest.mark.slow])
    for case in CASES
    if case.is_automatic and case.name not in BY_HAND
]


CONFLICTS = [
    pytest.param(case, id=case.name, marks=[] if case.name in QUICK_CONFLICTS else [pytest.mark.slow])
    for case in CASES
    if case.expect["minimal_conflict"]
]
"""Cases that depend on two or more layers."""


Property = Callable[[str, object], None]
"""Writes a figure into the results, of which `make gauntlet` makes docs/gauntlet.md."""


def late_step(record: dict[str, Any]) -> float | None:
    """Median seconds of a step in the later half of the run."""
    seconds = record["steps"]["seconds"]
    return median(seconds[len(seconds) // 2 :]) if seconds else None


def time_to_n_steps(before: dict[str, Any], after: dict[str, Any]) -> tuple[int, float, float] | None:
    """N, and the seconds from the start of the process to the end of the Nth step in both runs; None when one fails.

    N is the number of steps that both have made.
    """
    n = min(record["steps"]["count"] for record in (before, after))
    if before["exit"]["code"] or after["exit"]["code"] or not n:
        return None
    was, now = (sum(record["steps"]["seconds"][:n]) for record in (before, after))
    return n, was, now


def compiled_anew(result: dict[str, Any]) -> bool:
    """Whether a run of `fix` found not all of its compiled code in Inductor's cache."""
    return any(result[run]["actual"]["compile"]["cache_misses"] for run in ("before", "after") if result[run])


@pytest.mark.parametrize("case", PARAMETERS)
def test_the_fault_is_found(case: Case, tmp_path: Path) -> None:
    record = case.run(tmp_path, fixed=False)
    findings = record["findings"]
    assert findings, record["notes"]
    assert findings[0]["rule"] in case.rules
    assert set(case.expect["layers"]) <= set(findings[0]["layers"])
    assert findings[0]["evidence"]


@pytest.mark.parametrize("case", MENDED)
def test_the_mended_job_is_clean(case: Case, tmp_path: Path, record_property: Property) -> None:
    record = case.run(tmp_path / "first", fixed=True)
    if record["exit"]["reason"] == "timeout":  # gloo's threads can block a program's end: pytorch issue 56297
        record = case.run(tmp_path / "second", fixed=True)
    assert record["exit"]["code"] == 0
    assert record["steps"]["count"] > 0
    record_property("step_s", late_step(record))
    assert [finding for finding in record["findings"] if finding["severity"] != "note"] == []


@pytest.mark.parametrize("case", REPAIRS)
def test_the_job_is_repaired(case: Case, tmp_path: Path, record_property: Property) -> None:
    result = case.run(tmp_path / "first", by="fix")
    if case.is_slow and compiled_anew(result):  # one of the two would pay for what the other has compiled
        result = case.run(tmp_path / "second", by="fix")
    assert result["applied"], result["dropped"]
    assert result["proof"]["findings_gone"]
    record_property("step_s", late_step(result["after"]))
    record_property("ratio", result["proof"]["speed"]["ratio"])
    record_property("slow", case.is_slow)
    if (times := time_to_n_steps(result["before"], result["after"])) is not None:
        for name, figure in zip(("n", "before_s", "after_s"), times, strict=True):
            record_property(name, figure)
    record_property("remedies", " ".join(each["remedy"] for each in result["applied"]))
    assert result["proof"]["numerics"]["verdict"] in ("equal", "within noise", "corrected", "not compared")
    assert result["after"]["exit"]["code"] == 0
    assert case.rules & {finding["rule"] for finding in result["after"]["findings"]} == set()


@pytest.mark.parametrize("case", CONFLICTS)
def test_the_layers_in_conflict_are_found(case: Case, tmp_path: Path, record_property: Property) -> None:
    result = case.run(tmp_path, by="bisect")
    record_property("runs", sum(probe["runs"] for probe in result["probes"]))
    assert set(result["minimal"]) == set(case.expect["minimal_conflict"])
    assert result["one_minimal"]
    assert result["order_matters"] is case.expect["order_matters"], result["order"]


def test_each_case_says_what_it_is_about() -> None:
    for case in CASES:
        expect = case.expect
        assert set(expect["layers"]), case.name
        assert expect["symptom"], case.name
        assert expect["root_cause"], case.name
        assert expect["remedy"], case.name
