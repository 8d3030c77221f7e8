"""`trueup attention explain`: which kernels can serve a call, which one it takes, and why the others cannot."""

from __future__ import annotations

import click


@click.command(short_help="Say which kernels serve a call, which one it takes, and why not the others.")
def explain() -> None:
    """Say which attention kernels can serve a call, which one it takes, and why the others cannot."""
    raise click.UsageError("not built yet")
