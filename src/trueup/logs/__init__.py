"""Failures out of the text that jobs print: tracebacks, native crashes, collectives, launchers, builds."""

from trueup.logs.reading import read

__all__ = ["read"]
