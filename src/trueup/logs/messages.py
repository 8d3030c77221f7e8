"""Lines that are no failure by themselves: warnings and notices on one side, routine output on the other."""

from __future__ import annotations

import re
from functools import lru_cache

from trueup.logs.lines import Draft, Line
from trueup.schema.log import Frame

_WARNING = re.compile(
    r"^\s*(?P<file>(?:[A-Za-z]:)?[^\s:][^:]*?):(?P<line>\d+): (?P<type>[\w.]*Warning): ?(?P<message>.*)$"
)

WORDS = (
    "abort", "assert", "attempt", "broken", "can't", "cancel", "cannot", "cast", "closed", "conflict", "consider ",
    "corrupt", "could not", "deadlock", "denied", "deprecat", "desync", "did not run", "disabl", "double free",
    "dumped", "duplicate", "error", "exceed", "exception", "existing installation", "exit", "fail", "fall back",
    "fallback", "falling back", "fatal", "fault", "graph break", "graph-break", "graph_break", "guard", "hang",
    "heartbeat", "hint:", "ignor", "illegal", "incompatib", "inconsisten", "instantiat", "instead", "invalid", "kill",
    "last reason", "leak", "lost", "make sure", "mismatch", "missing", "must ", " nan", "nccl error", "nccl warn",
    "ninja", "no matching", "no solution", "no such", "not available", "not found", "not implemented",
    "not initialized", "not suitable", "not used", "only ", "oom", "out of memory", "overflow", "oversubscri",
    "please", "preempt", "recompil", "refused", "requires", "reset by", "resolver", "should ", "signal", "silently",
    "skip", "stack trace", "_status_", "std::", "stuck", "support", "terminat", "timed out", "timeout", "too large",
    "too old", "too small", "traceback", "unable", "unavailable", "undefined", "unexpected", "uninstall",
    "unsupported", "unusable", "user code", "_limit", "warn", "watchdog", "what():", "will be", "will have",
    "will not", "without ", "worker group", "xid", "you are ", "you may",
)  # fmt: skip
"""Lower case. A line of a long log without any of them is not looked at again."""

STRONG_WORDS = (
    "traceback", "error", "exception", "fatal", "fault", "killed", "abort", "watchdog", "nccl warn", "terminate called",
    "warning", "out of memory", "failed", "_limit (", "graph break", "core dumped", "timed out", "oom-kill", "file \"",
)  # fmt: skip
"""The same for a log of free text, in which any word occurs."""

_NUMBER = r"-?(?:\d[\d.,]*(?:[eE][-+]?\d+)?|nan|inf)"
_PROGRESS = re.compile(r"\d%\||\d ?(?:it/s|s/it|[kKMG]i?B/s)\b|\beta \d[\d:]+|^\s*\d{1,3}%[ |]", re.I)
_METRICS = (
    re.compile(r"\s*\{['\"][\w/ ]+['\"]: [^{}]*\}$"),
    re.compile(
        r"\s*[\[(]?(?:step|iter|iteration|epoch|batch|it|global_step|train|eval|loss|val_loss)\b[\w/]*[\])]?"
        r"[ =:#\[(]{0,4}-?\d",
        re.I,
    ),
    re.compile(rf"\s*(?:[A-Za-z_][\w/ .-]{{0,39}}[=:] ?{_NUMBER}[^\s=:,|;\d]{{0,8}}(?:[ ,|;]+|$)){{2,}}$"),
)
_RULE = re.compile(r"\s*(?:[-=*_#+~. |]{3,}|```.*|[\[\]{}(),;]+)$")
_INSTALLER = re.compile(
    r"\s*(?:Collecting|Downloading|Using cached|Requirement already satisfied|Preparing metadata|Building wheel|"
    r"Created wheel|Stored in directory|Running setup|wandb: .*(?:Sync|View|Run |Tracking|offline))"
)
_ALARMS = re.compile(r"\b(?:error|warn|fail|exception|fatal|abort|kill|nan\b|skipp|overflow)", re.I)
_LOOKED_AT = 600
"""Characters of a line that are enough to see that it is routine."""


@lru_cache(maxsize=4096)
def is_routine(text: str) -> bool:
    """True for progress bars, metrics, rules and what an installer prints when all is well."""
    if not text or text.isspace():
        return True
    text = text[:_LOOKED_AT]
    if _ALARMS.search(text):
        return False
    if _PROGRESS.search(text) or _RULE.match(text) or _INSTALLER.match(text):
        return True
    return any(pattern.match(text) for pattern in _METRICS)


@lru_cache(maxsize=4096)
def is_notice(text: str) -> bool:
    """True when the line has a word in which programs complain, advise or give up."""
    lowered = text.lower()
    return any(word in lowered for word in WORDS)


def warning(line: Line) -> Draft | None:
    """A warning of Python's `warnings` module, with the place that issued it."""
    if "Warning: " not in line.text:
        return None
    found = _WARNING.match(line.text)
    if not found:
        return None
    draft = Draft("message", "warning", line, type=found["type"], message=[found["message"]])
    draft.frames.append(Frame(file=found["file"], line=int(found["line"][:9])))
    return draft


def message(line: Line) -> Draft:
    """Any other line as a failure of kind message: a cause only when its program called it an error."""
    serious = line.level in ("ERROR", "CRITICAL")
    return Draft("message", "root" if serious else "warning", line, message=[line.text])
