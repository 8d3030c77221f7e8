"""Whether the order of the guilty layers matters."""

from __future__ import annotations

from trueup.procedures.bisection.trials import Trials
from trueup.schema.record import Record
from trueup.schema.variant import Variant


def order(trials: Trials, base: Variant, minimal: tuple[str, ...], record: Record) -> tuple[bool | None, str | None]:
    """Not tried yet."""
    return None, None
