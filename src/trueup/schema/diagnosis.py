"""The result of `trueup doctor`: the facts of an environment and what they mean."""

from __future__ import annotations

import msgspec

from trueup.schema.environment import Environment
from trueup.schema.finding import Finding
from trueup.schema.wheels import Resolution


class Diagnosis(msgspec.Struct, frozen=True, kw_only=True):
    """An environment, judged."""

    facts: Environment
    findings: tuple[Finding, ...] = ()
    """Causes before what follows from them, the most severe first."""
    wheels: Resolution | None = None
    """With `--for PACKAGE`: which wheel fits."""
    schema_version: int = 1
    trueup_version: str | None = None
