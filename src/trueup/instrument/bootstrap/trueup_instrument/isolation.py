"""In a probe, a file of the user's that is about to be written becomes a file of the probe's own.

The probe's folder holds links to large files. Python's `open` tells an audit hook before it opens; torch and
safetensors write by code of their own, whose entry points are looked at.
"""

from __future__ import annotations

import os
import shutil
import sys

from trueup_instrument import patching

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType
    from typing import Any

    from trueup_instrument.session import Session

NAME = "isolation"
PROBE = "TRUEUP_PROBE"
"""Folder of the probe, set by the launching trueup."""
WRITING = os.O_WRONLY | os.O_RDWR


CHANGING = {"os.mkdir": 1, "os.remove": 1, "os.rename": 2, "os.rmdir": 1, "os.truncate": 1, "shutil.rmtree": 1}
"""Audit events of calls that change a folder → how many of their first arguments are paths."""


def attach(session: Session) -> None:
    probe = Probe(os.environ[PROBE])
    sys.addaudithook(probe.heard)
    session.after_torch(NAME, "torch.serialization", lambda module: _before(session, module, "save", "f", probe.own))
    session.imports.after(
        "safetensors.torch",
        session.guarded(NAME, lambda module: _before(session, module, "save_file", "filename", probe.own)),
    )


class Probe:
    """The folder that a probe may change."""

    def __init__(self, folder: str) -> None:
        self._inside = os.path.abspath(folder) + os.sep
        self._busy = False

    def heard(self, event: str, arguments: tuple[Any, ...]) -> None:
        """An audit hook: it is called before the program's own call, which it never hinders."""
        if self._busy:
            return
        self._busy = True
        try:
            if event == "open":
                path, _, flags = arguments
                if isinstance(flags, int) and flags & WRITING:
                    self.own(path, keep=not flags & os.O_TRUNC)
            else:
                for path in arguments[: CHANGING.get(event, 0)]:
                    name = self._name(path)
                    if name is not None:
                        self._enter(name if event == "shutil.rmtree" else os.path.dirname(name))
        except OSError:  # then the program's own call fails, or does as it would have
            pass
        finally:
            self._busy = False

    def own(self, path: Any, keep: bool = False) -> None:
        """Replace a link by an empty place or, to `keep` what it holds, by a copy. Raises OSError."""
        name = self._name(path)
        if name is None:
            return
        self._enter(os.path.dirname(name))
        if os.path.islink(name):
            held = os.path.realpath(name)
            if os.path.isfile(held) and not held.startswith(self._inside):
                os.unlink(name)
                if keep:
                    shutil.copyfile(held, name)

    def _name(self, path: Any) -> str | None:
        if not isinstance(path, (str, bytes, os.PathLike)):
            return None
        name = os.path.abspath(os.fsdecode(path))
        return name if name.startswith(self._inside) else None

    def _enter(self, folder: str) -> None:
        """Make each link on the way down to `folder` a folder of the probe's own, whose entries are links."""
        if len(folder) <= len(self._inside):
            return
        self._enter(os.path.dirname(folder))
        if os.path.islink(folder) and os.path.isdir(folder):
            held = os.path.realpath(folder)
            if not held.startswith(self._inside):
                os.unlink(folder)
                os.mkdir(folder)
                for name in os.listdir(held):
                    os.symlink(os.path.join(held, name), os.path.join(folder, name))


def _before(session: Session, module: ModuleType, name: str, argument: str, own: Callable[[Any], object]) -> None:
    """Call `own(path)` before each call of `module.name`, which writes the file that `argument` names."""
    given = patching.arguments_of(getattr(module, name))
    patching.around(session, NAME, module, name, before=lambda args, kwargs: own(given(args, kwargs).get(argument)))
