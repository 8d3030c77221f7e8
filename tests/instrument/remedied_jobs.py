"""Jobs with a remedy and without it, and what the two computed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from forked_jobs import Done, Order, run_jobs

Remedied = tuple[str, str, dict[str, Any], str | None]
"""(name, job of jobs/remedied.py, its arguments, remedy)."""
ROUNDING = 1e-5


def with_and_without(folder: Path, orders: list[Remedied]) -> dict[str, Done]:
    """`name` with its remedy, `name-plain` without."""
    asked: list[Order] = []
    for name, job, arguments, remedy in orders:
        for told, remedies in ((name, [remedy]), (f"{name}-plain", [])):
            variables = {"TRUEUP_REMEDIES": json.dumps(remedies)}
            asked.append(Order(told, f"remedied.{job}", arguments, variables=variables))
    return run_jobs(folder, asked, start_in_child=True)


def changes(done: Done) -> list[str]:
    return [event["detail"]["change"] for event in done.of("applier") if "change" in event["detail"]]


def limits(done: Done) -> int:
    """How often a function reached its limit of graphs and went on eager."""
    return int(done.result["unimplemented"])


def same_losses(done: dict[str, Done], name: str) -> bool:
    now, was = done[name].result, done[f"{name}-plain"].result
    return bool(now["losses"] == pytest.approx(was["losses"], rel=ROUNDING))


def same_gradients(done: dict[str, Done], name: str) -> bool:
    """None where there was None, and the same norms."""
    pairs = zip(done[name].result["gradients"], done[f"{name}-plain"].result["gradients"], strict=True)
    return all(now == (None if was is None else pytest.approx(was, rel=1e-3, abs=1e-6)) for now, was in _flat(pairs))


def _flat(pairs: Any) -> list[tuple[Any, Any]]:
    found = []
    for now, was in pairs:
        found += list(zip(now, was, strict=True)) if isinstance(was, list) else [(now, was)]
    return found
