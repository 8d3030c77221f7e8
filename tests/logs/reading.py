"""Reads texts and recorded files in the tests of logs."""

from io import BytesIO
from pathlib import Path

from trueup.logs import read
from trueup.schema.log import Failure, Log

RECORDED = Path(__file__).parent / "recorded"

TRACEBACK = """\
Traceback (most recent call last):
  File "/job/train.py", line 12, in <module>
    main()
  File "/job/train.py", line 10, in main
    step(3)
ValueError: labels of batch 7 are empty
"""


def log_of(text: str | bytes) -> Log:
    return read(BytesIO(text.encode() if isinstance(text, str) else text))


def recorded(name: str) -> Log:
    return read(RECORDED / name)


def root(log: Log) -> Failure:
    """The likeliest root, which stands first."""
    return log.failures[0]


def exceptions(log: Log) -> list[Failure]:
    return [failure for failure in log.failures if failure.kind == "exception"]


def place(failure: Failure) -> tuple[str, int | None, str | None]:
    """The innermost frame."""
    last = failure.frames[-1]
    return last.file, last.line, last.function


def prefixed(prefix: str, text: str = TRACEBACK) -> str:
    return "".join(prefix + line for line in text.splitlines(keepends=True))
