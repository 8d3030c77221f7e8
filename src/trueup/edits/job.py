"""What an edit is made from: a finding, the record of the run, and the job's own files."""

from __future__ import annotations

import ast
import os
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path, PurePosixPath

from trueup.edits import command
from trueup.edits.changes import edit
from trueup.edits.files import NotEditableError, editable
from trueup.edits.python_source import Rewriting, Source, Statement, SyntaxProblem
from trueup.schema.finding import Finding
from trueup.schema.fixing import Edit
from trueup.schema.record import Applied, Record

MOST_FILES = 100
"""Python files of a job that are read; one with more is a framework, whose files are not the user's."""


class Job:
    """The files of one job by their paths relative to `folder`, the folder in which its command was started."""

    def __init__(self, folder: Path, record: Record) -> None:
        self.folder = folder
        self.record = record
        self.command = tuple(os.path.expanduser(word) for word in command.words(record.command))
        self._sources: dict[str, Source | None] = {}

    def text(self, path: str) -> str | None:
        """The text of a file that may be edited; None when it may not."""
        if "cd" in self.command:  # places are relative to a folder that is not known
            return None
        try:
            return editable(self.folder, path)
        except NotEditableError:
            return None

    def source(self, path: str) -> Source | None:
        """A Python file that may be edited, parsed; None when it may not be or is no Python."""
        if path not in self._sources:
            text = self.text(path)
            try:
                self._sources[path] = Source(path, text) if text is not None else None
            except SyntaxProblem:
                self._sources[path] = None
        return self._sources[path]

    def script(self) -> Source | None:
        """The Python file that the command starts."""
        path = command.script(self.command, self.folder)
        return self.source(path) if path is not None else None

    @cached_property
    def _all(self) -> list[Source]:
        started = command.script(self.command, self.folder)
        todo = [started] if started is not None else []
        todo += [place[0] for applied in self.record.order if (place := place_of(applied.at)) is not None]
        done: list[str] = []
        while todo and len(done) < MOST_FILES:
            path = todo.pop(0)
            if path not in done and path.endswith(".py"):
                done.append(path)
                todo += self._imported(path)
        return [source for path in done if (source := self.source(path)) is not None]

    def sources(self) -> list[Source]:
        """The script, the files of the job that it imports, and those in which something was observed."""
        return self._all

    def applied(self, *events: str) -> list[tuple[Applied, Source, Statement]]:
        """Where one of these events (`Optimizer`, `fully_shard`) was seen in the job's own files, in order."""
        found: list[tuple[Applied, Source, Statement]] = []
        for applied in self.record.order:
            if applied.event in events:
                place = self.statement(applied.at)
                if place is not None and not any(place[1] is other for _, _, other in found):
                    found.append((applied, *place))
        return found

    def statement(self, at: str | None) -> tuple[Source, Statement] | None:
        """The innermost statement at a `file:line` of the job's own."""
        place = place_of(at)
        source = self.source(place[0]) if place is not None else None
        if place is None or source is None:
            return None
        statement = source.statement_at(place[1])
        return (source, statement) if statement is not None else None

    def evidence(self, finding: Finding) -> Iterator[tuple[Source, Statement]]:
        """The statements that a finding's evidence points to."""
        for each in finding.evidence:
            place = self.statement(each.at)
            if place is not None:
                yield place

    def _imported(self, path: str) -> list[str]:
        """Files of the job that a Python file imports."""
        text = self.text(path)
        try:
            tree = ast.parse(text or "")
        except (SyntaxError, ValueError):
            return []
        names: list[tuple[int, str]] = []
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                names += [(0, alias.name) for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                module = node.module or ""
                names.append((node.level, module))
                names += [(node.level, f"{module}.{alias.name}".lstrip(".")) for alias in node.names]
        return [file for level, name in names for file in self._files_of(path, level, name)]

    def _files_of(self, path: str, level: int, name: str) -> Iterator[str]:
        here = PurePosixPath(path).parent
        if level:
            roots = [here.parents[level - 2] if level - 2 < len(here.parents) else here] if level > 1 else [here]
        else:
            roots = list(dict.fromkeys((here, PurePosixPath("."), PurePosixPath("src"))))
        for root in roots:
            below = root / name.replace(".", "/") if name else root
            for file in (below.with_suffix(".py"), below / "__init__.py"):
                if (self.folder / file).is_file():
                    yield file.as_posix()


def place_of(at: str | None) -> tuple[str, int] | None:
    """Path and line of `file:line`."""
    path, sign, line = (at or "").rpartition(":")
    return (path, int(line)) if sign and line.isdigit() else None


def edits_of(*rewritings: Rewriting) -> tuple[Edit, ...]:
    """The edits of files that really change."""
    found = []
    for rewriting in rewritings:
        text = rewriting.text()
        change = edit(rewriting.source.path, rewriting.source.text, text) if text is not None else None
        if change is not None:
            found.append(change)
    return tuple(found)
