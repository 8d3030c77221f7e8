"""The results of `make gauntlet` as docs/gauntlet.md.

    python scripts/gauntlet_table.py RESULTS.xml... > docs/gauntlet.md

RESULTS.xml is what pytest writes with `--junitxml`; the tests put their figures into it as properties. Of a test that
several files have, the last one counts.
"""

from __future__ import annotations

import datetime
import re
import sys
import xml.etree.ElementTree as xml
from collections.abc import Iterable
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from statistics import geometric_mean

TESTS = {
    "test_the_fault_is_found": "found",
    "test_the_mended_job_is_clean": "clean",
    "test_the_job_is_repaired": "repaired",
    "test_the_layers_in_conflict_are_found": "bisected",
}
TABLE = (
    "| case | found | clean | repaired | bisected | by | slow | to N steps | late steps | of the expert's throughput |",
    "|---|---|---|---|---|---|---|---|---|---|",
)
LIBRARIES = ("torch", "transformers", "accelerate", "peft")


@dataclass
class Row:
    """One case: column → passed, and the figures of its tests."""

    passed: dict[str, bool] = field(default_factory=dict)
    figures: dict[str, str] = field(default_factory=dict)

    def number(self, name: str) -> float | None:
        value = self.figures.get(name, "None")
        return None if value == "None" else float(value)

    @property
    def of_the_expert(self) -> float | None:
        """Steps a second of the repaired job, relative to the expert's version."""
        expert, ours = self.number("clean step_s"), self.number("repaired step_s")
        return expert / ours if expert and ours else None

    @property
    def to_n_steps(self) -> float | None:
        """Time to N steps of the job as it was, relative to the repaired one."""
        was, now = self.number("repaired before_s"), self.number("repaired after_s")
        return was / now if was and now else None

    @property
    def was_slow(self) -> bool:
        """Whether the case says that its fault costs time."""
        return self.figures.get("repaired slow") == "True"


def rows_of(*results: str) -> dict[str, Row]:
    """Case → its row, out of the texts of JUnit files."""
    rows: dict[str, Row] = {}
    for test in (test for text in results for test in xml.fromstring(text).iter("testcase")):
        found = re.fullmatch(r"(\w+)\[(.+)\]", test.get("name", ""))
        if found is None or found[1] not in TESTS:
            continue
        column = TESTS[found[1]]
        row = rows.setdefault(found[2], Row())
        row.passed[column] = test.find("failure") is None and test.find("error") is None
        for each in test.iter("property"):
            row.figures[f"{column} {each.get('name')}"] = each.get("value", "")
    return dict(sorted(rows.items()))


def written(rows: dict[str, Row], day: str, versions: str) -> str:
    """The page."""

    def share(column: str) -> str:
        have = [row.passed[column] for row in rows.values() if column in row.passed]
        return f"{sum(have)} of {len(have)}"

    against = [each for row in rows.values() if (each := row.of_the_expert)]
    lines = [
        "# The gauntlet",
        "",
        f"Made of results of `make gauntlet` on {day} with {versions}, on two shared cores.",
        "Ratios are of one run each, minutes apart: other work moves them by tens of percent.",
        "An empty cell is a test that was not run in this pass, or a class that has no automatic remedy.",
        "",
        f"Found first: {share('found')}. The expert's version without a finding: {share('clean')}. "
        f"Repaired from outside: {share('repaired')}. "
        f"Layers in conflict and their order found: {share('bisected')}.",
    ]
    if against:
        lines.append(
            f"Throughput of the repaired job against the expert's, geometric mean: {geometric_mean(against):.2f}."
        )
    lines += ["", *_gains(rows.values()), "", *TABLE]
    lines += [_line(name, row) for name, row in rows.items()]
    return "\n".join(lines) + "\n"


def _gains(rows: Iterable[Row]) -> list[str]:
    """How much faster the job as it was becomes where its fault is slowness."""
    slow = [row for row in rows if row.was_slow]
    whole = [each for row in slow if (each := row.to_n_steps)]
    late = [each for row in slow if (each := row.number("repaired ratio"))]
    if not whole or not late:
        return []
    return [
        f"Where the fault is slowness (`slow: true` in expect.yaml, {len(whole)} cases), the repaired job against the",
        f"job as it was, geometric means: {geometric_mean(whole):.2f} times as fast to N steps, "
        f"{geometric_mean(late):.2f} times as fast in late steps.",
        "",
        "A lost compile with a backend that writes no code (aot_eager) costs no time and is not among them.",
        "Time to N steps counts from the start of the process, imports and compilation and all; N is 30, or all steps",
        "of a shorter job. Both runs find what Inductor has compiled in its cache; where one does not, both are run",
        "again. Late steps are the later half: what a long job gains.",
    ]


def _line(name: str, row: Row) -> str:
    words = {True: "yes", False: "**no**", None: ""}
    cells = [words[row.passed.get(column)] for column in ("found", "clean", "repaired", "bisected")]
    figures = [row.to_n_steps, row.number("repaired ratio"), row.of_the_expert]
    cells += [row.figures.get("repaired remedies", ""), "yes" if row.was_slow else ""]
    cells += [f"{each:.2f}" if each else "" for each in figures]
    return f"| {name} | {' | '.join(cells)} |"


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    made_with = ", ".join(f"{name} {version(name)}" for name in LIBRARIES)
    results = [Path(name).read_text() for name in sys.argv[1:]]
    print(written(rows_of(*results), datetime.date.today().isoformat(), made_with), end="")
