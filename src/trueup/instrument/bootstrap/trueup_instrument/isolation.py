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


def attach(session: Session) -> None:
    folder = os.environ.get(PROBE)
    if not folder:
        return
    inside = os.path.abspath(folder) + os.sep

    def own(path: Any, keep: bool) -> None:
        """Replace a link within the probe by an empty place or, to `keep` what it holds, by a copy."""
        if not isinstance(path, (str, bytes, os.PathLike)):
            return
        name = os.path.abspath(os.fsdecode(path))
        if name.startswith(inside) and os.path.islink(name):
            held = os.path.realpath(name)
            if os.path.isfile(held) and not held.startswith(inside):
                os.unlink(name)
                if keep:
                    shutil.copyfile(held, name)

    def opened(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open":
            path, _, flags = arguments
            if isinstance(flags, int) and flags & WRITING:
                try:
                    own(path, keep=not flags & os.O_TRUNC)
                except OSError:  # then the program's own open fails, or does as it would have
                    pass

    sys.addaudithook(opened)
    session.after_torch(NAME, "torch.serialization", lambda module: _before(session, module, "save", "f", own))
    session.imports.after(
        "safetensors.torch",
        session.guarded(NAME, lambda module: _before(session, module, "save_file", "filename", own)),
    )


def _before(session: Session, module: ModuleType, name: str, argument: str, own: Callable[[Any, bool], object]) -> None:
    """Call `own(path, False)` before each call of `module.name`, which writes the file that `argument` names."""
    given = patching.arguments_of(getattr(module, name))
    patching.around(
        session, NAME, module, name, before=lambda args, kwargs: own(given(args, kwargs).get(argument), False)
    )
