"""torch's profiler around one step, given up at once when the user starts a profiler: there is one a process."""

from __future__ import annotations

import contextlib
import functools
import sys
import threading

from trueup_instrument import patching
from trueup_instrument.operators import Operators

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from types import ModuleType
    from typing import Any

    from trueup_instrument.session import Session

NAME = "operators"


class Recorder:
    """torch.autograd.profiler around one step, in pieces where the process forks. The user's comes first."""

    running: Recorder | None = None
    """The recorder whose profiler is at work; there is one profiler a process."""

    def __init__(self) -> None:
        self.whole = False
        """False when nothing, or only a part of the step, was recorded."""
        self._profile: Any = None
        self._pieces: list[Any] = []
        self._thread: int | None = None

    def start(self) -> bool:
        """Begin; returns False, and does nothing, while a profiler of the user's is prepared or at work."""
        autograd = sys.modules["torch"]._C._autograd
        at_work = getattr(autograd, "_profiler_enabled", lambda: False)()
        if at_work or Recorder.running is not None or UsersProfiler.waiting:
            return False
        self.whole = True
        self._begin()
        return True

    def pause(self) -> None:
        """Record nothing until `resume`: the process forks, and its child is not to inherit a profiler at work."""
        if self._profile is not None and self._thread == threading.get_ident():
            self._finish()

    def resume(self) -> None:
        if self.whole and self._profile is None and not UsersProfiler.waiting:
            self._begin()

    def give_way(self) -> None:
        """End at once: the user starts a profiler."""
        self.whole = False
        self.pause()

    def stop(self) -> None:
        self.pause()

    def read(self, aside: Sequence[tuple[int, int]] = ()) -> Operators | None:
        """The operators of the whole step, attention `aside` left out; None when a part is missing."""
        pieces, self._pieces = self._pieces, []
        return Operators((event for piece in pieces for event in piece.events()), aside) if self.whole else None

    def _begin(self) -> None:
        torch = sys.modules["torch"]
        device = {"use_device": "cuda"} if torch.cuda.is_available() else {}
        profile = torch.autograd.profiler.profile(use_cpu=True, record_shapes=True, **device)
        Recorder.running = self
        self._thread = threading.get_ident()
        with UsersProfiler.not_theirs(), _operators_only(torch.autograd.profiler):
            profile.__enter__()
        self._profile = profile

    def _finish(self) -> None:
        profile, self._profile = self._profile, None
        Recorder.running = None
        torch = sys.modules["torch"]
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        with UsersProfiler.not_theirs():
            profile.__exit__(None, None, None)
        self._pieces.append(profile.kineto_results)


@contextlib.contextmanager
def _operators_only(profiler: Any) -> Iterator[None]:
    """Within it a profiler begins that records operators and no ranges with names of a user's.

    A collective over gloo is such a range, and the only event that another thread ends, perhaps after the profiler: it
    would then write into memory that is freed.
    """
    scope = sys.modules["torch"]._C._profiler.RecordScope
    scopes = {scope.FUNCTION, scope.BACKWARD_FUNCTION}
    enable = profiler._enable_profiler
    profiler._enable_profiler = functools.partial(enable, scopes=scopes)
    try:
        yield
    finally:
        profiler._enable_profiler = enable


class UsersProfiler:
    """Whether the user has a profiler prepared or at work, told from the three functions that all profilers end in."""

    waiting = False
    _own = False

    @classmethod
    @contextlib.contextmanager
    def not_theirs(cls) -> Iterator[None]:
        """Within it the calls are ours."""
        cls._own = True
        try:
            yield
        finally:
            cls._own = False

    @classmethod
    def begins(cls, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None) -> None:
        if not cls._own:
            cls.waiting = True
            if Recorder.running is not None:
                Recorder.running.give_way()

    @classmethod
    def ended(cls, *_: object) -> None:
        if not cls._own:
            cls.waiting = False

    @classmethod
    def watch(cls, session: Session, module: ModuleType) -> None:
        """`module` is torch.autograd.profiler."""
        for name in ("_prepare_profiler", "_enable_profiler"):
            patching.around(session, NAME, module, name, before=cls.begins)
        patching.around(session, NAME, module, "_disable_profiler", after=cls.ended)
