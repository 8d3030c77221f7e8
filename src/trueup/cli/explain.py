"""`trueup explain`: the cause of a failure, out of what the job printed."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from trueup.cli.exits import FINDINGS
from trueup.cli.output import format_option, is_coloured, json_option, printed_on, save, width_of, write

if TYPE_CHECKING:
    from trueup.schema.explanation import Explanation, Unexplained
    from trueup.schema.finding import Finding

STDIN = "-"


@click.command(short_help="Find the cause of a failure in a log.")
@click.argument("log", metavar="FILE|DIR|-")
@json_option()
@click.option("--strict", is_flag=True, help="Exit 1 for a warning or an error only, not for a note.")
@format_option()
def explain(log: str, json_file: Path | None, strict: bool, shape: str) -> int:
    """Find the root cause in the output of a failed job, and say what to do.

    \b
      trueup explain train.log
      trueup explain logs/            # one file a rank: one job
      torchrun train.py 2>&1 | trueup explain -

    Compressed files are read as they are. What no rule knows is said to be not known; nothing is guessed.

    \b
    Exit codes: 0 nothing found, 1 findings, 2 wrong usage, 3 trueup itself failed
    """
    from trueup.logs import read
    from trueup.rules import explain as explained

    if log == STDIN and sys.stdin is None:
        raise click.UsageError("standard input is closed; `-` reads from it")
    if log != STDIN and not Path(log).exists():
        raise click.UsageError(f"no file or folder {log!r}; `-` reads from standard input")
    try:
        read_log = read(sys.stdin.buffer if log == STDIN else Path(log))
    except OSError as error:
        raise click.UsageError(f"cannot read {log}: {error.strerror or error}") from error
    explanation = redacted(explained(read_log))
    write(printed_on(), presentation(explanation, shape))
    if json_file is not None:
        save(presentation(explanation, "json"), json_file)
    counted = [finding for finding in explanation.findings if not strict or finding.severity != "note"]
    return FINDINGS if counted else 0


def presentation(explanation: Explanation, shape: str) -> str:
    """The answer in one of FORMATS."""
    from trueup.reports import explanation as report

    if shape == "text":
        return report.as_text(explanation, width=width_of(printed_on()), colour=is_coloured(printed_on()))
    return {"json": report.as_json, "sarif": report.as_sarif, "html": report.as_html}[shape](explanation)


def redacted(explanation: Explanation) -> Explanation:
    """Without secrets and home folders in what was taken from the log; the rules' own words stay."""
    import msgspec

    return msgspec.structs.replace(
        explanation,
        findings=tuple(map(_finding, explanation.findings)),
        unexplained=tuple(map(_unexplained, explanation.unexplained)),
        sources=tuple(map(_text, explanation.sources)),
        notes=tuple(map(_text, explanation.notes)),
    )


def _finding(finding: Finding) -> Finding:
    import msgspec

    evidence = tuple(
        msgspec.structs.replace(
            each, value=_text(each.value) if isinstance(each.value, str) else each.value, at=each.at and _text(each.at)
        )
        for each in finding.evidence
    )
    return msgspec.structs.replace(finding, message=_text(finding.message), evidence=evidence)


def _unexplained(failure: Unexplained) -> Unexplained:
    import msgspec

    return msgspec.structs.replace(
        failure,
        text=_text(failure.text),
        library=failure.library and _text(failure.library),
        user=failure.user and _text(failure.user),
        at=failure.at and _text(failure.at),
    )


def _text(text: str) -> str:
    from trueup.runs.redaction import redacted_text

    return redacted_text(text)
