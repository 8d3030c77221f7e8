"""Reading the events folder: whatever a dying process leaves there, the rest is read."""

from __future__ import annotations

import json
import re
from pathlib import Path

from trueup.runs.events import FIELDS, EventReader

DOCUMENT = Path(__file__).parents[2] / "docs" / "events.md"
CASES = {"start", "graph", "recompile", "break", "failure", "cache", "bisected"}
"""Of `what` in compile events."""


def test_kinds_and_fields_are_those_of_the_document() -> None:
    table = re.findall(r"^\| `([\w-]+)` \| [^|]* \| (.+) \|$", DOCUMENT.read_text(), re.MULTILINE)
    assert {kind for kind, _ in table} == set(FIELDS)
    for kind, text in table:
        outside_braces = re.sub(r"\{[^{}]*\}", "", re.sub(r"\{[^{}]*\{[^{}]*\}[^{}]*\}", "", text))
        outside = re.sub(r"\([^()]*\)|\[[^\[\]]*\]", "", outside_braces)
        named = set(re.findall(r"`([a-z_]+)`", outside)) - CASES
        assert named <= FIELDS[kind], f"{kind}: {named - FIELDS[kind]}"


def line(kind: str, **fields: object) -> bytes:
    return json.dumps({"t": 1.0, "kind": kind, **fields}).encode() + b"\n"


def test_a_growing_file_is_read_piece_by_piece(tmp_path: Path) -> None:
    file = tmp_path / "events-host-1-1.jsonl"
    reader = EventReader(tmp_path)
    assert reader.read() == []
    whole = line("process", pid=1) + line("memory", peak_bytes=7)
    file.write_bytes(whole[:-5])
    assert [event["kind"] for event in reader.read()] == ["process"]
    assert reader.events.processes[0].torn
    with file.open("ab") as more:
        more.write(whole[-5:])
    assert [event["peak_bytes"] for event in reader.read()] == [7]
    assert not reader.events.processes[0].torn
    assert reader.read() == []
    assert reader.events.processes[0].process["pid"] == 1


def test_what_is_no_event_is_counted_and_the_rest_is_read(tmp_path: Path) -> None:
    good = line("memory", peak_bytes=1)
    (tmp_path / "events-a-1-1.jsonl").write_bytes(
        b"\0\0\xff\n" + good + b"[1]\n" + b'{"t": 1}\n' + good + b'{"t": 1, "k'
    )
    reader = EventReader(tmp_path)
    assert len(reader.read()) == 2
    (process,) = reader.events.processes
    assert (process.corrupt, process.torn) == (3, True)


def test_a_loss_that_is_no_number_is_read(tmp_path: Path) -> None:
    (tmp_path / "events-a-1-1.jsonl").write_bytes(line("steps", first=1, losses=[float("nan"), 1.0]))
    (event,) = EventReader(tmp_path).read()
    assert event["losses"][0] != event["losses"][0]


def test_kinds_and_fields_of_a_newer_trueup_are_counted(tmp_path: Path) -> None:
    lines = line("thermometer", degrees=3) + line("memory", peak_bytes=1, colour="red") * 2
    (tmp_path / "events-a-1-1.jsonl").write_bytes(lines)
    reader = EventReader(tmp_path)
    assert len(reader.read()) == 3
    assert dict(reader.events.unknown) == {"thermometer": 1, "memory.colour": 2}


def test_only_the_stacks_of_a_crash_are_a_crash(tmp_path: Path) -> None:
    (tmp_path / "stacks-11.txt").write_text("Fatal Python error: Segmentation fault\n\nCurrent thread\n")
    (tmp_path / "stacks-12.txt").write_text("Current thread, asked for at a timeout\n")
    reader = EventReader(tmp_path / "nowhere")
    reader.read_crashes()
    assert reader.events.crashes == {}
    reader = EventReader(tmp_path)
    reader.read_crashes()
    assert list(reader.events.crashes) == [11]
