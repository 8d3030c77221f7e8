"""Lists that a model's code only appends to are found; one that anything may read is left out."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import trueup

BOOTSTRAP = Path(trueup.__file__).parent / "instrument" / "bootstrap"
JOB = Path(__file__).parent / "jobs" / "appended.py"
ONLY_APPENDED = {"plain", "deep", "a part", "hook that reads nothing"}


@pytest.fixture(scope="module")
def told() -> Any:
    command = [sys.executable, str(JOB), str(BOOTSTRAP)]
    return json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def test_a_list_is_found_where_all_that_can_read_it_is_known(told: Any) -> None:
    found, _ = told
    assert {name for name, lists in found.items() if lists} == ONLY_APPENDED
    assert all(found[name] == ["history"] for name in ONLY_APPENDED)
    assert len(found) > 3 * len(ONLY_APPENDED)


def test_only_tensors_and_values_are_plain_arguments(told: Any) -> None:
    assert told[1] == {"tensors": True, "object": False}
