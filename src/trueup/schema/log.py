"""What can be read out of the text that a job printed: failures with their chains, their ranks, versions."""

from __future__ import annotations

from typing import Literal

import msgspec

FailureKind = Literal["exception", "native", "collective", "launcher", "build", "loader", "killed", "message"]
"""What printed it: a Python traceback; C++, CUDA or a signal; NCCL, Gloo or their watchdog; torchrun or another
launcher about its workers; pip, setuptools, nvcc, g++, ninja; the dynamic loader; the operating system; any other line
that a program writes about its own state (warnings, log lines)."""

Role = Literal["root", "cascade", "summary", "advice", "warning"]
"""root: may be a cause; cascade: follows from another failure (a watchdog of ranks that waited); summary: a launcher
repeats what a worker died of; advice: tells the reader what to try and is never a cause; warning: the job went on."""


class Frame(msgspec.Struct, frozen=True, kw_only=True):
    """One line of a traceback, outermost first within its failure."""

    file: str
    line: int | None = None
    function: str | None = None
    code: str | None = None
    """The source line, when the traceback shows it."""


class Failure(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that went wrong, as printed."""

    kind: FailureKind
    role: Role
    type: str | None = None
    """`torch.OutOfMemoryError`, `ImportError`, `SIGSEGV`, ...; None for a line without one."""
    message: str = ""
    """The text after the type, prefixes and colours removed, its own line breaks kept."""
    frames: tuple[Frame, ...] = ()
    causes: tuple[Failure, ...] = ()
    """What it was raised from or during, the innermost last."""
    user_frames: tuple[Frame, ...] = ()
    """The lines that the message itself quotes (`from user code:`, `User stack trace:`), outermost first."""
    native_frames: tuple[Frame, ...] = ()
    """C++ frames printed with it, outermost first; `file` is the library."""
    rank: int | None = None
    """The rank that printed it first."""
    ranks: tuple[int, ...] = ()
    """All ranks that printed the same, ascending; empty when none is known."""
    host: str | None = None
    time: str | None = None
    """The time stamp in front of its first line, as printed."""
    first_line: int = 0
    """Number of its first line in the text, from 1."""
    last_line: int = 0
    source: str | None = None
    """File of a folder of logs, relative to the folder."""
    count: int = 1
    """How often the same failure was printed."""
    level: str | None = None
    """`DEBUG`, `INFO`, `WARNING`, `ERROR` or `CRITICAL`, when the line carries it."""
    place: str | None = None
    """The code or logger that printed it, when the line says so: `torch/_dynamo/convert_frame.py:906`."""
    asynchronous: bool = False
    """A CUDA error that an earlier kernel caused: its frames show where it was noticed."""

    @property
    def printed(self) -> str:
        """Type and message as they stand in the text; what patterns are matched against."""
        return f"{self.type}: {self.message}" if self.type and self.message else self.type or self.message


class Log(msgspec.Struct, frozen=True, kw_only=True):
    """The failures of one job, the likeliest root first, then in the order printed."""

    failures: tuple[Failure, ...] = ()
    versions: dict[str, str] = {}
    """Package → version, where the text shows it (`torch`, `transformers`, `python`, `cuda`, ...)."""
    ranks: tuple[int, ...] = ()
    """Ranks that printed something."""
    world_size: int | None = None
    lines: int = 0
    size: int = 0
    """Bytes read, after decompression."""
    sources: tuple[str, ...] = ()
    """Files read."""
    notes: tuple[str, ...] = ()
    """Each names a file and what of it could not be read."""
