"""How this process ends: uncaught exceptions with their chain, crashes, and a way to ask for its stacks."""

from __future__ import annotations

import faulthandler
import os
import signal
import sys
import threading

from trueup_instrument import patching, places, role
from trueup_instrument.clock import StepsReached
from trueup_instrument.observers.samples import memory

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import TracebackType
    from typing import Any, TextIO

    from trueup_instrument.session import Session

NAME = "process"

FRAMES_KEPT = 40
MESSAGE_KEPT = 4000
LONGEST_SECRET = 200
"""Characters read beyond those that are kept, so that a secret at the end is seen whole."""
STACK_SIGNAL_OFFSET = 7
"""The real-time signal SIGRTMIN + 7 asks a process to write its stacks; nothing else is known to use it."""
OUT_OF_MEMORY = ("OutOfMemoryError", "MemoryError")


def attach(session: Session) -> None:
    if session.role == role.LAUNCHER:
        return
    os.environ.setdefault("KINETO_LOG_LEVEL", "6")  # below it, the profiler prints two lines into the job's output
    _watch_exceptions(session)
    stacks = Stacks(session.events.folder)
    session.imports.after("torch", session.guarded(NAME, lambda torch: stacks.watch()))
    if os.environ.get("RANK") is not None and session.role == role.RANK:
        session.guarded(NAME, stacks.watch)()
    session.after_fork_in_child.append(session.guarded(NAME, stacks.forget))
    session.undo.append(stacks.watch_no_more)
    session.on_training.append(session.guarded(NAME, stacks.watch))
    session.at_end(session.guarded("memory", lambda: memory.write_peak(session)))


def _watch_exceptions(session: Session) -> None:
    tell = session.guarded(NAME, lambda error, trace, thread=None: tell_error(session, error, trace, thread))
    previous, previous_thread = sys.excepthook, threading.excepthook
    told = set()

    def hook(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        told.add(id(error))
        tell(error, trace)
        previous(kind, error, trace)

    def thread_hook(arguments: threading.ExceptHookArgs) -> None:
        if issubclass(arguments.exc_type, StepsReached):
            return  # no failure; Python would print it, as it is silent about SystemExit itself only
        if arguments.exc_type is not SystemExit:
            tell(arguments.exc_value, arguments.exc_traceback, getattr(arguments.thread, "name", "unknown"))
        previous_thread(arguments)

    def missed() -> None:
        """The program put a hook of its own in the place of ours; Python keeps the exception that ended it."""
        error = getattr(sys, "last_value", None)
        if error is not None and id(error) not in told:
            tell(error, error.__traceback__)

    def child_ends(args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """A child of multiprocessing catches what ended it, and meets no hook; its last call is made on the way."""
        error = sys.exc_info()[1]
        if isinstance(error, SystemExit):  # torch's children leave with exit(1) out of the `except` of their function
            error = error.__context__ if error.code not in (None, 0) else None
        if error is not None and id(error) not in told:
            told.add(id(error))
            tell(error, error.__traceback__)

    sys.excepthook = hook
    threading.excepthook = thread_hook
    session.imports.after(
        "multiprocessing.util",
        lambda util: patching.around(session, NAME, util, "_exit_function", before=child_ends),
    )
    session.undo.append(lambda: patching.take_away(sys, "excepthook", hook, previous))
    session.undo.append(lambda: patching.take_away(threading, "excepthook", thread_hook, previous_thread))
    if not session.late:  # the exception that Python keeps may be of a cell run before
        session.before_end(missed)


def tell_error(
    session: Session, error: BaseException | None, trace: TracebackType | None, thread: str | None = None
) -> None:
    """Write an `error` event; a process that fails before it trains is reported too, unless it is some child.

    `thread` is the name of the thread that the exception ended, when the process itself goes on.
    """
    if session.role == role.RANK:
        session.open()
    if thread is None:
        session.end_reason = "error"
    chain: list[dict[str, Any]] = []
    seen = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        frames = _frames(error.__traceback__ if chain else trace)
        chain.append(
            {
                "type": f"{type(error).__module__}.{type(error).__qualname__}".removeprefix("builtins."),
                "message": _message(error),
                "at": places.user_line_of(frames),
                "frames": [f"{places.installed(file)}:{line}" for file, line in frames[-FRAMES_KEPT:]],
            }
        )
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    first = chain[0]
    session.write(
        "error",
        type=first["type"],
        message=first["message"],
        user_at=next((link["at"] for link in chain if link["at"]), None),
        chain=chain,
        thread=thread,
        out_of_memory=any(name in link["type"] for link in chain for name in OUT_OF_MEMORY),
    )


def _message(error: BaseException) -> str:
    from trueup_instrument.secret_texts import text_without_secrets

    try:
        return text_without_secrets(str(error)[: MESSAGE_KEPT + LONGEST_SECRET])[:MESSAGE_KEPT]
    except Exception:  # a `__str__` of the user's
        return "(its message could not be printed)"


def _frames(trace: TracebackType | None) -> list[tuple[str, int]]:
    frames = []
    while trace is not None:
        frames.append((trace.tb_frame.f_code.co_filename, trace.tb_lineno))
        trace = trace.tb_next
    return frames


class Stacks:
    """Stacks on a fatal signal and on demand, into this process's own file. The user's faulthandler is left alone."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._file: TextIO | None = None
        self._enabled = False
        """True when it was us who enabled faulthandler."""

    def watch(self) -> None:
        if self._file is not None or not hasattr(signal, "SIGRTMIN"):
            return
        path = os.path.join(self._folder, f"stacks-{os.getpid()}.txt")
        try:
            self._file = open(path, "w")  # noqa: SIM115 - faulthandler needs it open for the life of the process
        except OSError:
            return
        if self._enabled or not faulthandler.is_enabled():
            self._enabled = True
            faulthandler.enable(self._file, all_threads=True)
        faulthandler.register(signal.SIGRTMIN + STACK_SIGNAL_OFFSET, self._file, all_threads=True, chain=False)

    def watch_no_more(self) -> None:
        file, self._file = self._file, None
        if file is None:
            return
        faulthandler.unregister(signal.SIGRTMIN + STACK_SIGNAL_OFFSET)
        if self._enabled:
            faulthandler.disable()
            self._enabled = False
        file.close()

    def forget(self) -> None:
        """In a forked child: it writes into its parent's file until it trains and gets one of its own."""
        self._file = None
