"""`with trueup.observe() as observation:` the observers of `trueup run`, from inside a script or notebook."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import time
from datetime import datetime, timezone
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

import msgspec

from trueup.instrument import inside
from trueup.rules.judgement import judge
from trueup.runs.events import EventReader, Events
from trueup.runs.folder import RunFolder, start_of
from trueup.runs.merge import merge
from trueup.runs.outcome import Outcome
from trueup.runs.run import judged
from trueup.schema.record import Exit, Note, Record
from trueup.schema.variant import Variant

if TYPE_CHECKING:
    from trueup_instrument.session import Session


def observe(out: str | Path | None = None) -> Observation:
    """A context manager: what trains within it is observed in this process, on this rank.

    `out` is the folder of the run, a temporary one by default. Ranks that share it can be reported together with
    `trueup report OUT`. Within `trueup run` nothing is attached twice: the record is that of the run so far.
    """
    return Observation(Path(out) if out is not None else None)


class Observation:
    """Of one `with` block. `record` and `report()` can be asked within it and after it."""

    folder: RunFolder
    """What is written goes there, once the block is entered; a temporary one goes with its end."""

    def __init__(self, out: Path | None = None) -> None:
        self._out = out
        self._read: Events | None = None
        """What was read of a folder that is gone."""
        self.stays: tuple[str, ...] = ()
        """What could not be taken out of the process again when the block ended."""
        self._session: Session | None = None
        self._of_a_run = False
        """`trueup run` observes this process."""
        self._started = ""
        self._clock = 0.0
        self._outcome: Outcome | None = None

    def __enter__(self) -> Observation:
        if self._session is not None:
            raise RuntimeError("an Observation is of one block: call trueup.observe() for each")
        inside.make_importable()
        import trueup_instrument

        self._started = datetime.now(timezone.utc).isoformat(timespec="seconds")
        self._clock = time.perf_counter()
        running = trueup_instrument.current
        if running is not None:
            if running.late:
                raise RuntimeError("trueup.observe() is at work in this process already: leave that block first")
            self._of_a_run, self._session = True, running
            return self
        self.folder = RunFolder(self._out or Path(tempfile.mkdtemp(prefix="trueup-observed-")))
        self.folder.create(start_of(sys.orig_argv, Variant(), self._started))
        self._session = trueup_instrument.observe_here(str(self.folder.events))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        import trueup_instrument
        from trueup_instrument.observers import process

        session = self._session
        if session is None or self._of_a_run:
            return
        if error is not None and isinstance(error, Exception):
            session.guarded(process.NAME, process.tell_error)(session, error, trace)
        self.stays = tuple(trueup_instrument.observe_no_more())
        self._outcome = Outcome(
            code=0 if error is None else 1, pid=os.getpid(), duration_s=time.perf_counter() - self._clock
        )
        if self._out is None or self.folder.problem:
            self._read = self._events()
        if self._out is None:
            shutil.rmtree(self.folder.path, ignore_errors=True)
        self.folder.close()

    @property
    def record(self) -> Record:
        """What was observed, with findings: of the whole block after it, of what was so far within it."""
        if self._session is None:
            raise RuntimeError("nothing is observed yet: enter the block first")
        record = merge(self._events(), command=sys.orig_argv, started=self._started, outcome=self._outcome)
        return judged(self._of_this_rank(record), judge)

    def report(self, width: int = 100) -> str:
        """The report as `trueup run` prints it, as text of at most `width` columns."""
        from trueup.reports import text

        return text.render(self.record, width=width)

    def _events(self) -> Events:
        """Those of this process: the other ranks may write into the same folder."""
        if self._read is not None:
            return self._read
        session = self._session
        assert session is not None
        reader = EventReader(Path(session.events.folder))
        reader.read()
        own = os.path.basename(session.events.path or "")
        mine = Events()
        mine.processes += [process for process in reader.events.processes if process.file == own]
        mine.unknown.update(reader.events.unknown)
        return mine

    def _of_this_rank(self, record: Record) -> Record:
        """Of several ranks this record covers one: the others are not missing, they have records of their own."""
        size = max((rank.world_size or 1 for rank in record.ranks), default=1)
        notes = [Note(what=f"stays in this process, without effect: {what}") for what in self.stays]
        if not self._of_a_run and self.folder.problem:
            notes.append(Note(what=self.folder.problem))
        if self._of_a_run:
            notes.append(Note(what="trueup run observes this process: this is what it has seen of it so far"))
        if size > 1:
            covered = ", ".join(str(rank.rank) for rank in record.ranks)
            notes.append(Note(what=f"this record covers rank {covered} of {size}: each rank observes itself"))
        own = {rank.rank for rank in record.ranks}
        kept = [note for note in record.notes if not note.ranks or own & set(note.ranks)]
        launch = msgspec.structs.replace(record.launch, world_size=size if record.launch.world_size else None)
        return msgspec.structs.replace(
            record,
            launch=launch,
            notes=(*kept, *notes),
            exit=record.exit if self._outcome is not None else Exit(),
        )
