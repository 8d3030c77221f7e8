"""A run that fails is judged by what it printed, too."""

from __future__ import annotations

import sys
from pathlib import Path

from trueup.runs.run import run_command

DTYPES = (
    "Expected query, key, and value to have the same dtype, but got query.dtype: c10::BFloat16 key.dtype: float "
    "and value.dtype: float instead."
)


def rules_of(out: Path, program: str) -> list[str]:
    record = run_command([sys.executable, "-c", program], out=out, pass_output=False)
    return [finding.rule for finding in record.findings]


def test_the_printed_cause_of_a_failure_is_a_finding(tmp_path: Path) -> None:
    program = f"raise RuntimeError({DTYPES!r})"
    assert rules_of(tmp_path / "failed", program) == ["precision/attention-input-dtype-mismatch"]


def test_what_a_run_that_ended_well_printed_is_not_judged(tmp_path: Path) -> None:
    program = f"print('handled: RuntimeError:', {DTYPES!r})"
    assert rules_of(tmp_path / "fine", program) == []


def test_a_failure_that_no_rule_knows_has_no_finding(tmp_path: Path) -> None:
    assert rules_of(tmp_path / "unknown", "{}['loss']") == []
