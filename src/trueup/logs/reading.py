"""`read`: a text, or a folder of them, to the failures of one job."""

from __future__ import annotations

from pathlib import Path
from typing import BinaryIO, Literal

from trueup.logs.causality import ordered
from trueup.logs.collecting import Collector
from trueup.logs.decoding import blocks
from trueup.logs.parsing import Parser
from trueup.logs.ranks import rank_of_file
from trueup.logs.scanning import SHORT, Scanner
from trueup.logs.sources import DAMAGED, sources
from trueup.logs.versions import Versions
from trueup.schema.log import Log


def read(source: Path | str | BinaryIO | Literal["-"]) -> Log:
    """The failures in a log, the likeliest root first, with what else the text tells about its job.

    `source`: a file (plain, gzip, bz2, xz; UTF-8, UTF-16, Latin-1), a folder of the logs of one job, an open binary
    stream, or `-` for standard input. Raises FileNotFoundError, and OSError for a file that cannot be opened; damaged
    content never raises, what could be read of it is used.
    """
    collector, versions = Collector(), Versions()
    parser = Parser(collector, versions)
    scanner = Scanner(parser)
    names: list[str] = []
    notes: list[str] = []
    several = False
    for part in sources(source):
        several = several or part.name is not None
        names.append(part.name or (str(source) if isinstance(source, (str, Path)) else "-"))
        parser.begin(part.name, rank_of_file(part.name) if part.name else None)
        try:
            with part.opened() as stream:
                scanner.scan(blocks(stream, lambda what: notes.append(f"{names[-1]}: {what}")))
        except DAMAGED as error:
            if not several:
                raise
            notes.append(f"{names[-1]}: could not be read: {getattr(error, 'strerror', None) or error}")
    if scanner.lines < SHORT:
        parser.add_plain()
    ranks = parser.ranks | scanner.printed.ranks
    return Log(
        failures=ordered(collector.entries(), collector.progress),
        versions=versions.result(),
        ranks=tuple(sorted(ranks)),
        world_size=versions.world_size,
        lines=scanner.lines,
        size=scanner.size,
        sources=tuple(names),
        notes=tuple(notes),
    )
