"""What composing refuses, warns of, and finds other than planned."""

from __future__ import annotations


class ComposeError(ValueError):
    """A plan that cannot work on this model; the message names the setting to change."""


class NotAsPlanned(RuntimeError):
    """What was observed is not what the plan says; the message lists each difference."""


class RecompilesBeyondLimit(RuntimeError):
    """A block was recompiled more often than its policy allows, and the policy says `beyond="raise"`."""


class RecompileWarning(UserWarning):
    """A block was recompiled more often than its policy allows."""
