"""Notes of a record that say how the run was made."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import msgspec

from trueup.schema.record import Note, Record, record_to_json


def with_note(record: Record, text: str, out: str) -> Record:
    """The record with one more note, also in the folder of the run."""
    return _with_notes(record, (*record.notes, Note(what=text)), out)


def without_note(record: Record, beginning: str, out: str) -> Record:
    """The record without the notes that begin so, also in the folder of the run."""
    return _with_notes(record, (note for note in record.notes if not note.what.startswith(beginning)), out)


def _with_notes(record: Record, notes: Iterable[Note], out: str) -> Record:
    changed = msgspec.structs.replace(record, notes=tuple(notes))
    file = Path(out) / "record.json"
    if changed.notes != record.notes and file.exists():
        try:
            file.write_text(record_to_json(changed), encoding="utf-8")
        except OSError:
            pass  # a full disk: whoever asked gets the record all the same
    return changed
