"""Makes the code of `bootstrap/` importable in trueup's own process: for a script that composes or observes itself."""

from __future__ import annotations

import sys
from pathlib import Path

BOOTSTRAP = Path(__file__).resolve().parent / "bootstrap"


def make_importable() -> None:
    """Put `bootstrap/` last on the path, where its `sitecustomize` shadows none. `trueup run` has put it first."""
    if str(BOOTSTRAP) not in sys.path:
        sys.path.append(str(BOOTSTRAP))
