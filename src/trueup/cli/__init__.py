"""The command line: `trueup COMMAND`. One file per command; each imports what it needs when it runs."""

from __future__ import annotations

import gc
from collections.abc import Sequence

ALLOCATIONS_BETWEEN_COLLECTIONS = 50_000
"""Of the youngest generation (Python's own: 700): what a command makes is modules and values, which stay, no cycles."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line `arguments` (default: this process's, which ends with it) and return the exit code."""
    if arguments is None:
        gc.set_threshold(ALLOCATIONS_BETWEEN_COLLECTIONS)
    from trueup.cli.app import execute

    try:
        return execute(arguments)
    finally:
        if arguments is None:
            gc.freeze()  # the interpreter would look through all of it once more on its way out
