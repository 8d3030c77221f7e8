"""What the report of a bisect says to do next, and that its commands can be typed as they stand."""

from __future__ import annotations

from trueup.reports.bisection import as_text
from trueup.schema.bisection import Bisection, Reproduction, Signature

REPRO = Reproduction(script="", launch="torchrun --nproc-per-node 2 repro.py", issue="")


def test_the_command_of_a_reproduction_names_its_file() -> None:
    found = Bisection(verdict="found", why="it fails", minimal=("compile",), one_minimal=True, repro=REPRO)
    text = as_text(found, repro=".trueup/bisect/now/repro.py")
    assert "torchrun --nproc-per-node 2 .trueup/bisect/now/repro.py" in text
    assert ".trueup/bisect/now/repro.md" in text
    assert "torchrun --nproc-per-node 2 x.py" in as_text(found, repro="x.py")


def test_a_job_without_layers_is_told_with_its_fault_and_a_next_step() -> None:
    fault = Signature(kind="exit", text="exit code 2")
    found = Bisection(
        verdict="not of the layers",
        why="the job has no layer",
        signature=fault,
        control="fails",
        command=("python", "a.py"),
    )
    text = as_text(found)
    assert "exit code 2" in text
    assert "with all layers off: fails" in text
    assert "trueup run -- python a.py" in text
    assert "COMMAND" not in as_text(Bisection(verdict="interrupted", why="ended"))
