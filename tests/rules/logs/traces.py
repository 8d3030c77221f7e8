"""What the cases of several layers are made of: sure positives, and tracebacks."""

from __future__ import annotations

from text_case import LogCase, positive


def named(rule: str, name: str, text: str, confidence: str = "established") -> LogCase:
    """The rule is named first, and as surely as this."""
    return positive(rule, name, text, confidence)


def traceback(*frames: tuple[str, str], error: str) -> str:
    """A traceback through files, each with the line of code that ran."""
    lines = ["Traceback (most recent call last):"]
    for number, (file, code) in enumerate(frames, 100):
        lines += [f'  File "{file}", line {number}, in {_function(file)}', f"    {code}"]
    return "\n".join([*lines, error])


def _function(file: str) -> str:
    return "<module>" if file.endswith("train.py") else "forward"
