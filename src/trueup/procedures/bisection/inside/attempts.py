"""Attempts that differ from another one in what is forced and in variables."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from trueup.schema.bisection import Attempt
from trueup.schema.variant import UNCHANGED


def changed(
    base: Attempt, told: str, layers: Mapping[str, str] | None = None, environment: Mapping[str, str] | None = None
) -> Attempt:
    """`base` with other layers forced and variables set; `told` is what differs, in words."""
    variant = base.variant
    name = told if variant.name == UNCHANGED else f"{variant.name}, {told}"
    return msgspec.structs.replace(
        base,
        variant=msgspec.structs.replace(
            variant,
            name=name,
            layers={**variant.layers, **(layers or {})},
            environment={**variant.environment, **(environment or {})},
        ),
    )
