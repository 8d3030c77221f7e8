"""The table of the gauntlet, out of results as pytest writes them."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

TABLE: dict[str, Any] = runpy.run_path(str(Path(__file__).parents[1] / "scripts" / "gauntlet_table.py"))


def repaired(name: str, **figures: object) -> str:
    properties = "".join(f'<property name="{key}" value="{value}"/>' for key, value in figures.items())
    return f'<testcase name="test_the_job_is_repaired[{name}]"><properties>{properties}</properties></testcase>'


def test_the_gain_is_that_of_the_cases_whose_fault_is_slowness() -> None:
    results = "".join(
        [
            repaired("compile/storm", slow=True, before_s=60.0, after_s=10.0, ratio=27.0, remedies="mark-dynamic"),
            repaired("attention/eager", slow=True, before_s=15.0, after_s=10.0, ratio=3.0, remedies="request-sdpa"),
            repaired("precision/wrong", slow=False, before_s=1.0, after_s=9.0, ratio=0.1, remedies="no-scaler"),
            repaired("compile/crash", slow=True, ratio=None, remedies="wrap-once"),
        ]
    )
    page = TABLE["written"](TABLE["rows_of"](f"<testsuite>{results}</testsuite>"), "2026-11-30", "torch 2.13")
    assert "2 cases" in page
    assert "3.00 times as fast to N steps, 9.00 times as fast in late steps" in page
    assert "| compile/storm |  |  | yes |  | mark-dynamic | yes | 6.00 | 27.00 |  |" in page
    assert "| precision/wrong |  |  | yes |  | no-scaler |  | 0.11 | 0.10 |  |" in page
