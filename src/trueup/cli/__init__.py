"""The command line: `trueup COMMAND`. One file per command; each imports what it needs when it runs."""

from __future__ import annotations

from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line `arguments` (default: this process's) and return the exit code."""
    from trueup.cli.app import execute

    return execute(arguments)
