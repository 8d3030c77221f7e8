"""Reading the events folder of a run, also while its processes still write."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

Event = dict[str, Any]

FIELDS: dict[str, frozenset[str]] = {
    kind: frozenset(names.split())
    for kind, names in {
        "process": "schema host pid ppid role rank local_rank world_size argv python executable variables",
        "launcher": "name processes per_node nodes started detail",
        "ranks-failed": "ranks",
        "library": "name version detail",
        "layer": "layer event module at detail",
        "request": "layer setting value at source",
        "compile": "what id function at checkpoints reasons step within reason explanation context type frame inside "
        "limit error seconds hit applied last",
        "steps": "first seconds losses tokens micro stride",
        "gradient": "step replicated_squares sharded_squares",
        "drift": "step changes",
        "model": "roots blocks training parameters sharding adapter optimizer compile_entries tied devices "
        "checkpointing shared",
        "sample": "step seconds compiled_during sequence_length watched recorded modules attention matmul collectives "
        "no_sync exchanged_elements wrapper_forwards backwards checkpointing gradients updates training_mode "
        "reducing_backwards gathers_in_backward random_ops random_in_backward autocast padding logits",
        "memory": "peak_bytes source",
        "probe": "probe verdict reason change scale noise source target row other_rows documents rows positions dtype "
        "seen_in measured_at every",
        "loop-begin": "loop at last",
        "loop-end": "loop batches steps at",
        "error": "type message chain user_at out_of_memory thread",
        "observer-off": "observer error",
        "applier": "applier module detail",
        "parts": "layer names",
        "fallback": "requested actual reason model",
        "end": "steps reason process_group trained",
    }.items()
}
"""Kinds of events and their fields that this trueup knows; the source is docs/events.md. Others are counted."""

ALWAYS = frozenset({"t", "kind"})
CRASH_MARK = "Fatal Python error"
CRASH_KEPT = 20_000


@dataclass
class ProcessEvents:
    """The events of one process, in the order written."""

    file: str
    process: Event = field(default_factory=dict)
    """The `process` event; empty when it was lost."""
    events: list[Event] = field(default_factory=list)
    corrupt: int = 0
    """Lines that are no event."""
    torn: bool = False
    """The last line is incomplete: the process still writes it, or was killed."""

    def of(self, *kinds: str) -> list[Event]:
        """The events of these kinds."""
        return [event for event in self.events if event["kind"] in kinds]

    def last(self, kind: str) -> Event | None:
        """The newest event of a kind."""
        return next((event for event in reversed(self.events) if event["kind"] == kind), None)


@dataclass
class Events:
    """What all processes of a run have written so far."""

    processes: list[ProcessEvents] = field(default_factory=list)
    unknown: Counter[str] = field(default_factory=Counter)
    """`kind` or `kind.field` that this trueup does not know → how often it came."""
    crashes: dict[int, str] = field(default_factory=dict)
    """Process id → what faulthandler wrote when the process died of a fatal signal."""


class EventReader:
    """Reads what was added to an events folder since the last look, so that big files are read once."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.events = Events()
        self._files: dict[str, _Tail] = {}

    def read(self) -> list[Event]:
        """Take in everything that was added; returns the new events. A folder that cannot be read has none."""
        new: list[Event] = []
        for path in self._listed("events-*.jsonl"):
            tail = self._files.get(path.name)
            if tail is None:
                tail = self._files[path.name] = _Tail(path)
                self.events.processes.append(tail.process)
            for event in tail.read():
                self._count_unknown(event)
                new.append(event)
        return new

    def read_crashes(self) -> None:
        """Take in what crashed processes wrote; done once the run is over."""
        for path in self._listed("stacks-*.txt"):
            try:
                text = path.read_bytes()[:CRASH_KEPT].decode(errors="replace")
                pid = int(path.stem.partition("-")[2])
            except (OSError, ValueError):
                continue
            if CRASH_MARK in text:
                self.events.crashes[pid] = text

    def _listed(self, pattern: str) -> list[Path]:
        try:
            return sorted(self.folder.glob(pattern))
        except OSError:
            return []

    def _count_unknown(self, event: Event) -> None:
        known = FIELDS.get(event["kind"])
        if known is None:
            self.events.unknown[event["kind"]] += 1
            return
        for name in event.keys() - known - ALWAYS:
            self.events.unknown[f"{event['kind']}.{name}"] += 1


class _Tail:
    """One file, read from where the last look ended."""

    def __init__(self, path: Path) -> None:
        self.process = ProcessEvents(path.name)
        self._path = path
        self._offset = 0
        self._rest = b""

    def read(self) -> list[Event]:
        try:
            with self._path.open("rb") as file:
                file.seek(self._offset)
                data = file.read()
        except OSError:
            return []
        self._offset += len(data)
        *lines, self._rest = (self._rest + data).split(b"\n")
        self.process.torn = bool(self._rest.strip())
        new = [event for line in lines if line.strip() and (event := self._event(line)) is not None]
        self.process.events += new
        return new

    def _event(self, line: bytes) -> Event | None:
        event = _decoded(line)
        if not isinstance(event, dict) or not isinstance(event.get("kind"), str):
            self.process.corrupt += 1
            return None
        if event["kind"] == "process" and not self.process.process:
            self.process.process = event
        return event


def _decoded(line: bytes) -> Any:
    """The JSON value of a line, None when it is none. Python writes losses that are not numbers as `NaN`."""
    try:
        return msgspec.json.decode(line)
    except msgspec.DecodeError:
        try:
            return json.loads(line)
        except ValueError:
            return None
