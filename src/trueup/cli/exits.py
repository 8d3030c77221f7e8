"""Exit codes, the same for every command (DESIGN, contract)."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trueup.schema.record import Record

FINDINGS = 1
USAGE = 2
OWN_FAILURE = 3
TIMEOUT = 124
INTERRUPTED = 130


def of_run(record: Record, *, strict: bool) -> int:
    """The command's own exit code, 124 after a timeout, and with `strict` 1 for a success with findings."""
    if record.exit.reason == "timeout":
        return TIMEOUT
    code = OWN_FAILURE if record.exit.code is None else record.exit.code
    if code == 0 and strict and stands(record):
        return FINDINGS
    return code


def of_report(record: Record, *, strict: bool) -> int:
    """0; with `strict` 1 for a run that failed or has findings. The code of the command would read as one of ours."""
    return FINDINGS if strict and (failed(record) or stands(record)) else 0


def failed(record: Record) -> bool:
    """True for a run that ended otherwise than well; one that still runs, or whose end nobody saw, has not failed."""
    return bool(record.exit.code) or record.exit.reason == "timeout"


def stands(record: Record) -> bool:
    """True when a warning or an error was found."""
    return any(finding.severity in ("error", "warning") for finding in record.findings)
