"""Findings of real runs of the gauntlet's broken jobs, as small as an edit needs them.

`python tests/edits/jobs.py RECORD.json LAYER/SLUG` takes them from a record of `trueup run --json RECORD.json`.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import msgspec

from trueup.schema.record import Actual, Blocks, Compile, Record, record_from_json

HERE = Path(__file__).parent
GAUNTLET = HERE.parent / "gauntlet"
FINDINGS = HERE / "findings"
DIFFS = HERE / "diffs"


def trimmed(record: Record) -> Record:
    """The command, where layers were applied, what was requested, the classes of blocks, and findings of their own."""
    order: dict[Any, Any] = {}
    for applied in record.order:
        if applied.at is not None:
            order.setdefault((applied.event, applied.at), msgspec.structs.replace(applied, detail={}))
    findings = [
        msgspec.structs.replace(
            finding,
            cause="",
            message="",
            sources=(),
            evidence=tuple(each for each in finding.evidence if each.at or "switch" in each.what),
        )
        for finding in record.findings
        if finding.follows is None
    ]
    return Record(
        command=record.command,
        order=tuple(order.values()),
        requested=record.requested,
        actual=Actual(compile=Compile(blocks=Blocks(names=record.actual.compile.blocks.names))),
        findings=tuple(findings),
    )


def stored(case: str) -> Record:
    """The findings of `layer/slug`."""
    return record_from_json((FINDINGS / f"{case.replace('/', '--')}.json").read_text())


def store(case: str, record: Record) -> None:
    values = {
        "command": record.command,
        "order": [_short(each) for each in record.order],
        "requested": record.requested,
        "actual": {"compile": {"blocks": {"names": record.actual.compile.blocks.names}}},
        "findings": [_short(each) for each in record.findings],
    }
    FINDINGS.mkdir(exist_ok=True)
    text = msgspec.json.format(msgspec.json.encode(values), indent=1).decode() + "\n"
    (FINDINGS / f"{case.replace('/', '--')}.json").write_text(text)


def _short(value: Any) -> Any:
    """A value without its empty fields."""
    if isinstance(value, msgspec.Struct):
        value = msgspec.to_builtins(value)
    if isinstance(value, dict):
        kept = {"automatic", "message", "cause"}
        return {key: _short(item) for key, item in value.items() if key in kept or item not in (None, (), [], {}, 0)}
    return [_short(item) for item in value] if isinstance(value, (list, tuple)) else value


if __name__ == "__main__":
    store(sys.argv[2], trimmed(record_from_json(Path(sys.argv[1]).read_bytes())))
