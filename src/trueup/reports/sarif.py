"""The findings as SARIF 2.1.0, which code hosts and editors show at the line of the user's code.

https://docs.oasis-open.org/sarif/sarif/v2.1.0/sarif-v2.1.0.html
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import PurePath
from typing import Any, Protocol
from urllib.parse import quote

from trueup import __version__
from trueup.reports import facts
from trueup.reports.evidence import evidence_in_words
from trueup.reports.plain import plain
from trueup.schema.finding import Finding, Remedy
from trueup.schema.record import Record

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
PLACE = re.compile(r"^(?P<file>.+?):(?P<line>[1-9]\d*)(?!\d)")


class Described(Protocol):
    """What a rule and a finding of it tell alike."""

    @property
    def layers(self) -> Sequence[str]: ...
    @property
    def severity(self) -> str: ...
    @property
    def cause(self) -> str: ...
    @property
    def remedies(self) -> Sequence[Remedy]: ...
    @property
    def sources(self) -> Sequence[str]: ...


def render(record: Record) -> str:
    """The findings of a run as one SARIF log."""
    return log_of(record.findings, _invocation(record), record.trueup_version or __version__)


def log_of(findings: Sequence[Finding], invocation: dict[str, Any], version: str = __version__) -> str:
    """One SARIF log with one run, whose rules are those that fired."""
    rules = {finding.rule: finding for finding in findings}
    results = [_result(finding, list(rules).index(finding.rule)) for finding in findings]
    return log_with([_rule(finding) for finding in rules.values()], results, invocation, version)


def log_with(
    rules: list[dict[str, Any]], results: list[dict[str, Any]], invocation: dict[str, Any], version: str = __version__
) -> str:
    """One SARIF log with one run: the descriptors of its rules, and its results."""
    log = {
        "$schema": SCHEMA,
        "version": "2.1.0",
        "runs": [
            {
                "tool": {
                    "driver": {
                        "name": "trueup",
                        "semanticVersion": version,
                        "rules": rules,
                    }
                },
                "invocations": [invocation],
                "results": results,
                "columnKind": "unicodeCodePoints",
            }
        ],
    }
    return json.dumps(log, indent=1, ensure_ascii=False) + "\n"


def _rule(finding: Finding) -> dict[str, Any]:
    layer, _, slug = finding.rule.partition("/")
    return descriptor(finding.rule, f"{layer}: {slug.replace('-', ' ')}", finding)


def descriptor(id: str, title: str, about: Described) -> dict[str, Any]:
    """A rule as SARIF tells it."""
    remedies = [plain(remedy.how) for remedy in about.remedies]
    rule: dict[str, Any] = {
        "id": id,
        "shortDescription": {"text": plain(title)},
        "fullDescription": {"text": plain(about.cause)},
        "help": {
            "text": "\n".join([plain(about.cause), *remedies, *map(plain, about.sources)]),
            "markdown": "\n\n".join([_markdown(about.cause), *map(_code, remedies), *map(_link, about.sources)]),
        },
        "defaultConfiguration": {"level": about.severity},
        "properties": {"tags": list(dict.fromkeys(about.layers))},
    }
    pages = [source for source in about.sources if source.startswith("https://")]
    return {**rule, "helpUri": pages[0]} if pages else rule


def _result(finding: Finding, rule_index: int) -> dict[str, Any]:
    locations = list(_locations(finding))
    remedies = [f"To do: {plain(remedy.how)}" for remedy in finding.remedies]
    result: dict[str, Any] = {
        "ruleId": finding.rule,
        "ruleIndex": rule_index,
        "level": finding.severity,
        "message": {"text": "\n".join([plain(finding.message), *remedies])},
        "locations": locations[:1],
        "properties": {
            "confidence": finding.confidence,
            "evidence": [plain(evidence_in_words(evidence)) for evidence in finding.evidence],
        },
    }
    if locations[1:]:
        result["relatedLocations"] = [{**place, "id": number} for number, place in enumerate(locations[1:], 1)]
    return result


def _locations(finding: Finding) -> Iterator[dict[str, Any]]:
    """The places named by the evidence, each once, in the order of the evidence."""
    seen = set()
    for evidence in finding.evidence:
        place = PLACE.match(evidence.at or "")
        if not place or place.group() in seen:
            continue
        seen.add(place.group())
        yield {
            "physicalLocation": {
                "artifactLocation": {"uri": _uri(place["file"])},
                "region": {"startLine": int(place["line"])},
            },
            "message": {"text": plain(evidence.what)},
        }


def _uri(file: str) -> str:
    """Absolute paths become file URIs; relative ones stay relative, which code hosts resolve in the repository."""
    path = PurePath(plain(file))
    return ("file://" if path.is_absolute() else "") + quote(path.as_posix())


def _invocation(record: Record) -> dict[str, Any]:
    """`executionSuccessful` is about trueup, which did its work; the command's exit code stands beside it."""
    invocation: dict[str, Any] = {
        "executionSuccessful": True,
        "commandLine": plain(" ".join(record.command)),
        "toolExecutionNotifications": [
            {"level": "note", "message": {"text": plain(note)}} for note in facts.notes(record)
        ],
    }
    if record.exit.code is not None:
        invocation["exitCode"] = record.exit.code
    return invocation


def _markdown(text: str) -> str:
    """Text with everything that Markdown would act on escaped."""
    return re.sub(r"([\\`*_{}\[\]()#+!|~<>&-])", r"\\\1", plain(text))


def _code(text: str) -> str:
    """A code block of one line; a fence longer than any in the text keeps it closed."""
    fence = "`" * max(3, 1 + max((len(run) for run in re.findall(r"`+", text)), default=0))
    return f"{fence}\n{text}\n{fence}"


def _link(source: str) -> str:
    return f"<{source}>" if re.fullmatch(r"https://[^\s<>]+", source) else _markdown(source)
