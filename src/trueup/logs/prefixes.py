"""What launchers, container engines and log formatters put in front of a line: taken off, and used."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import lru_cache

_DAY = r"\d{4}[-/]\d\d[-/]\d\d"
_CLOCK = r"\d\d:\d\d:\d\d(?:[.,]\d{1,9})?"
_ISO = rf"{_DAY}[ T_]{_CLOCK}(?: ?(?:Z|UTC|[+-]\d\d:?\d\d))?"
_LEVEL = r"(?P<level>TRACE|DEBUG|INFO|NOTICE|WARN|WARNING|ERROR|ERR|CRITICAL|FATAL|SEVERE)"
_CODE = r"[\w./@<>\\-]+\.(?:pyx?|cpp|cc|cxx|cuh?|hpp|h)(?::\d+)?"

LEVELS = {"WARN": "WARNING", "ERR": "ERROR", "FATAL": "CRITICAL", "SEVERE": "ERROR", "TRACE": "DEBUG", "NOTICE": "INFO"}
_LETTERS = {"V": "DEBUG", "D": "DEBUG", "I": "INFO", "W": "WARNING", "E": "ERROR", "F": "CRITICAL", "C": "CRITICAL"}


@dataclass(slots=True)
class Prefix:
    """What the prefixes of a line told; `text` is what stands behind them."""

    text: str
    rank: int | None = None
    local_rank: int | None = None
    host: str | None = None
    time: str | None = None
    level: str | None = None
    place: str | None = None
    writer: str = ""
    record: str | None = None


# Formatters that repeat their prefix on every line of a record; the tags behind are Dynamo's compile id and artifact.
_RECORDS = re.compile(
    r"(?P<letter>[VDIWEFC])(?P<time>\d{4} \d\d:\d\d:\d\d\.\d+)\s+(?P<pid>\d+) "
    r"(?P<place>\S+?:\d+)\] ?(?:\[rank(?P<rank>\d+)\]:? ?)?"
    rf"|\[(?P<time2>{_ISO})\] (?:\[\d+/\d+(?:_\d+)?\] )?(?P<place2>[\w.]+): \[{_LEVEL}\] ?"
)
_TAGS = re.compile(r"(?:\[\d+/\d+(?:_\d+)?\] ?|\[!\d+/\d+/?\d*(?:_\d+)?\] ?|\[__\w+\] ?|\[c10d\] ?)+")

_RULES: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    (first, re.compile(pattern))
    for first, pattern in (
        # Who: ranks, processes, hosts.
        ("[", r"\[rank(?P<rank>\d{1,6})\]: ?"),
        ("[", r"\[\d+,(?P<rank>\d{1,6})\]<std(?:out|err)>: ?"),
        ("[", r"\[(?P<rank>\d{1,5})\]: ?(?=.)"),
        ("[", r"\[[A-Za-z_]+(?P<local>\d{1,5})\]: ?"),
        ("[", r"\[[Rr](?:ank|ANK)[ :=]*(?P<rank>\d{1,6})\]:? ?"),
        ("[", r"\[\d{1,9}\] (?=\[rank\d)"),
        ("a", r"(?P<who>[\w.-]+) \[std(?:out|err)\] ?"),
        ("[", r"\[pod/(?P<host>[^\]]+)\] "),
        (
            "(",
            r"\((?:(?P<who>[^()]{1,80}?) )?(?:rank=(?P<rank>\d+) )?"
            r"pid=(?P<pid>\d+)(?:, ip=(?P<host>[\w.:-]+))?[^()]{0,80}\)(?: |$)",
        ),
        ("(", r"\([Rr](?:ank|ANK) ?(?P<rank>\d{1,6})\):? "),
        ("0 ", r" {0,4}(?P<rank>\d{1,5}): (?=\S|  )"),
        ("a", r"[Rr](?:ank|ANK)[ _]?(?P<rank>\d{1,6}) ?[:|>] ?(?=\S|  )"),
        ("a", r"(?P<who>[a-zA-Z][\w.-]*-\d+) +\| "),
        # Containers and the system.
        ("0", rf"(?P<time>{_ISO}) (?:stdout|stderr) [FP] "),
        (
            "a",
            r"(?P<time>[A-Z][a-z]{2} [ \d]?\d \d\d:\d\d:\d\d) (?P<host>[\w.-]+) "
            r"(?P<who>[\w./@-]+)(?:\[(?P<pid>\d+)\])?: ?",
        ),
        ("[", r"\[ *(?P<time>\d{1,9}\.\d{6})\] "),
        ("[", r"\[(?P<time>[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d \d{4})\] "),
        # NCCL.
        ("a0", r"(?P<host>[\w.-]+):\d+:\d+ \[(?P<local>-?\d+)\] (?:(?P<place>\S+:\d+) )?(?=NCCL )"),
        # C++ of torch.
        (
            "[",
            r"\[(?P<letter>[IWEF])(?P<time>\d{3,4} \d\d:\d\d:\d\d\.\d+)? ?(?P<place>[\w./-]+:\d+)\] "
            r"?(?:\[c10d\] ?)?(?:Warning: )?",
        ),
        # Python's formatters, the specific before the general.
        ("[", rf"\[{_LEVEL}\|(?P<place>[^\]]+)\] (?P<time>{_ISO}) ?>> ?"),
        ("[", rf"\[(?P<time>{_ISO})\] \[{_LEVEL}\] \[(?P<place>[^\]]+)\] ?"),
        ("a", rf"{_LEVEL} (?P<place>{_CODE}) -- "),
        ("a", rf"{_LEVEL} (?P<time>\d\d-\d\d {_CLOCK}) \[?(?P<place>[^\]\s]+:\d+)\] ?"),
        ("a", rf"{_LEVEL}:(?P<place>[\w.]+):"),
        (
            "0[",
            rf"\[?(?P<time>{_ISO}|\d\d/\d\d/\d{{2,4}} {_CLOCK}|{_CLOCK})\]?(?:: (?=[IWEF] )| - | \|"
            rf" | ?- ?(?=[A-Z])|:?[ \t])",
        ),
        ("a", r"(?P<letter>[IWEF]) (?P<place>\S+\.(?:cc|cpp|cu|h):\d+)\] "),
        ("|a ", rf"[| ]*{_LEVEL} *\| *(?P<place>\S+:\S+:\d+) - "),
        ("a", rf"(?P<place>[\w.]+) - {_LEVEL} - "),
        ("a", rf"{_LEVEL} - (?P<place>[\w.]+) - +"),
        ("a", rf"(?P<place>[\w.]+): \[{_LEVEL}\] ?"),
        ("[", rf"\[{_LEVEL}\]:? "),
        (" a", rf" {{0,3}}{_LEVEL}(?: *[:|>]+ ?| - | )"),
        ("a[", rf"\[?(?P<place>{_CODE})\] "),
    )
)


_RANK = re.compile(r"\[rank(\d{1,6})\]: ?")


def split(text: str) -> Prefix:
    """Takes prefixes off `text` until none is left; indentation behind the last one is kept."""
    outer = _RANK.match(text)
    if not outer:
        return _split(text)
    inner = _split(text[outer.end() :])
    if inner.rank is not None:
        return inner
    return Prefix(
        inner.text,
        int(outer[1]),
        inner.local_rank,
        inner.host,
        inner.time,
        inner.level,
        inner.place,
        inner.writer,
        inner.record,
    )


@lru_cache(maxsize=8192)
def _split(text: str) -> Prefix:
    """Remembered, for behind their own number all ranks print the same. Nobody may change the result."""
    prefix = Prefix(text)
    for _ in range(8):  # launcher, container, formatter, ...; a bound for hostile text
        rest = _one(prefix)
        if rest is None:
            break
        prefix.text = rest
    return prefix


def _one(prefix: Prefix) -> str | None:
    text = prefix.text
    head = text[:1]
    if head in "VDIWEFC[" and head:
        found = _RECORDS.match(text)
        if found:
            return _of_record(prefix, found)
    kind = "0" if head.isdigit() else "a" if head.isalpha() else head
    if not kind:
        return None
    for first, pattern in _RULES:
        if kind in first and (found := pattern.match(text)):
            _take(prefix, found.groupdict())
            return text[found.end() :]
    return None


def _of_record(prefix: Prefix, found: re.Match[str]) -> str:
    values = found.groupdict()
    values["time"] = values["time"] or values.pop("time2")
    values["place"] = values["place"] or values.pop("place2")
    _take(prefix, values)
    prefix.record = f"{values['time']} {values['pid']} {values['place']}"
    return found.string[found.end() :]


def _take(prefix: Prefix, values: dict[str, str | None]) -> None:
    """The outer prefix knows the host, the inner one the rank, level and place."""
    if rank := values.get("rank"):
        prefix.rank = int(rank)
    if local := values.get("local"):
        prefix.local_rank = int(local) if int(local) >= 0 else None
    prefix.host = prefix.host or values.get("host")
    prefix.time = values.get("time") or prefix.time
    prefix.place = values.get("place") or prefix.place
    if level := values.get("level"):
        prefix.level = LEVELS.get(level, level)
    elif letter := values.get("letter"):
        prefix.level = _LETTERS[letter]
    who, pid = values.get("who"), values.get("pid")
    if who and not prefix.writer:
        prefix.writer = f"{who} {pid or ''}".strip()
    elif pid and not prefix.writer and values.get("letter") is None:
        prefix.writer = pid


def without_tags(text: str) -> str:
    """The text without Dynamo's compile id and artifact, which the formatter repeats on each line."""
    found = _TAGS.match(text)
    return text[found.end() :] if found else text


_MACHINE = re.compile(r"(?P<host>[a-zA-Z][\w-]*\d[\w-]*(?:\.[a-zA-Z][\w.-]*)?|\d{1,3}(?:\.\d{1,3}){3}): (?=\S|  )")
_PROGRAM = re.compile(
    r"(?:python|pip|torchrun|nvcc|gcc|g\+\+|clang|ld|lib|cc1|rank|step|epoch|iter|gpu|cuda|"
    r"device)|.*\.(?:py|so|cpp|cu|c|h)\b",
    re.I,
)
_CERTAIN = re.compile(r"Traceback \(most recent call last\)|\[rank\d|  File \"")


class Machines:
    """Learns which words in front of `: ` are names of machines (pdsh, DeepSpeed's launcher) and not of programs."""

    MANY = 5

    def __init__(self) -> None:
        self._seen: dict[str, int] = {}

    def split(self, prefix: Prefix) -> Prefix:
        """`prefix` with the machine taken off, once its name was in front of several lines or of a traceback."""
        found = _MACHINE.match(prefix.text)
        if not found or prefix.host or _PROGRAM.match(found["host"]):
            return prefix
        host, rest = found["host"], prefix.text[found.end() :]
        count = self._seen.get(host, 0) + (self.MANY if _CERTAIN.match(rest) else 1)
        if len(self._seen) < 100_000:
            self._seen[host] = count
        if count < self.MANY:
            return prefix
        inner = split(rest)
        return replace(
            inner,
            host=inner.host or host,
            time=inner.time or prefix.time,
            rank=prefix.rank if inner.rank is None else inner.rank,
            writer=inner.writer or prefix.writer or host,
        )
