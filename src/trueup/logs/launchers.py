"""torchrun, Slurm, MPI, DeepSpeed, Ray and Kubernetes about the workers they started."""

from __future__ import annotations

import re

from trueup.logs.lines import Draft, Line
from trueup.logs.marks import mark
from trueup.logs.openings import header
from trueup.logs.tracebacks import Traceback

MARKS = (
    mark(r"^failed \(exitcode: (?P<type>-?\d+)\) local_rank: \d+ \(pid: \d+\)", "launcher", "summary"),
    mark(
        r"Sending process \d+ closing signal (?P<type>SIG\w+)|Unable to shutdown process \d+ via", "launcher", "cascade"
    ),
    mark(
        r"Received (?:Signals\.)?(?P<type>SIGTERM|SIGINT|SIGHUP|\d+) death signal|"
        r"Received (?P<type2>\d+|SIG\w+) death signal",
        "launcher",
        "cascade",
    ),
    mark(r"Process \d+ got signal: \d+", "launcher", "cascade"),
    mark(
        r"no error file defined for parent, to copy child error file|Received error file|"
        r"rendezvous.*(?:is closed|shutdown)",
        "launcher",
        "summary",
    ),
    mark(r"^Local worker group finished|worker group.*(?:FAILED|failed)|^\[\S+\] Worker group", "launcher", "summary"),
    mark(
        r"Killing subprocess \d+|exits? with return code = (?P<type>-?[1-9]\d*)|Main process received SIG(?:TERM|INT)",
        "launcher",
        "summary",
    ),
    mark(
        r"srun: error: (?P<host>[\w.-]+): tasks? (?P<rank>\d+)\S*: (?:Exited with exit code|Killed|"
        r"Aborted|Segmentation fault|Terminated)",
        "launcher",
        "summary",
    ),
    mark(r"srun: (?:error|Terminating|Job step|launch/slurm)|slurmstepd: error|sbatch: error", "launcher", "summary"),
    mark(
        r"Primary job +terminated normally, but|mpirun (?:noticed|detected) that|"
        r"MPI_ABORT was invoked|mpiexec.*(?:exited|terminated)",
        "launcher",
        "summary",
    ),
    mark(r"=+ +BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES|EXIT CODE: [1-9]", "launcher", "summary"),
    mark(
        r"A worker died or was killed while executing|Worker exit type: |The actor (?:died|is dead)|"
        r"ActorDiedError|Worker unexpectedly exits",
        "launcher",
        "summary",
    ),
    mark(
        r"Back-off restarting failed container|CrashLoopBackOff|Exit Code: +[1-9]\d*|"
        r"exit(?:ed with)? code:? ?(?:137|139|134|143)\b",
        "launcher",
        "summary",
    ),
    mark(r"^Process (?:Spawn)?Process-\d+:", "launcher", "summary"),
    mark(
        r"Task finished with error:|Job '\S+' failed|Command exited with (?:non-zero )?status [1-9]",
        "launcher",
        "summary",
    ),
)

_ENTRY = re.compile(r"^\[(?P<index>\d+)\]:$")
_FIELD = re.compile(r"^ {2}(?P<key>time|host|rank|exitcode|error_file|traceback) *: ?(?P<value>.*)$")
_EXIT = re.compile(r"(?P<code>-?\d+) \(pid: (?P<pid>\d+)\)(?: +\((?P<signal>SIG\w+)\))?")
_SIGNALS = {
    "-6": "SIGABRT",
    "-7": "SIGBUS",
    "-8": "SIGFPE",
    "-9": "SIGKILL",
    "-11": "SIGSEGV",
    "-15": "SIGTERM",
    "-4": "SIGILL",
}
ROOT_CAUSE = "root cause"
"""Place of the entry that torchrun observed first."""


def workers(summary: Draft) -> list[Draft]:
    """What torchrun's `ChildFailedError` says about each worker: its rank, host, time, exit and own traceback."""
    found: list[Draft] = []
    lines = summary.message
    in_root = False
    at = 0
    while at < len(lines):
        text = lines[at]
        in_root = in_root or text.startswith("Root Cause")
        if _ENTRY.match(text.strip()):
            end = at + 1
            while end < len(lines) and not _ENTRY.match(lines[end]) and not lines[end].startswith(("-----", "=====")):
                end += 1
            found.extend(_worker(summary, lines[at + 1 : end], in_root))
            at = end
        else:
            at += 1
    return found


def _worker(summary: Draft, lines: list[str], in_root: bool) -> list[Draft]:
    values: dict[str, str] = {}
    rest: list[str] = []
    for at, text in enumerate(lines):
        if field := _FIELD.match(text):
            values[field["key"]] = field["value"].strip()
            if field["key"] == "traceback":
                rest = [text.removeprefix("  ") for text in lines[at + 1 :]]
                break
    rank = re.match(r"\d+", values.get("rank", ""))
    left = _EXIT.match(values.get("exitcode", ""))
    if not rank or not left:
        return []
    signal = left["signal"] or _SIGNALS.get(left["code"])
    line = Line(summary.line.number, "", source=summary.line.source, place=ROOT_CAUSE if in_root else None)
    worker = Draft(
        kind="killed" if signal == "SIGKILL" else "native" if signal and signal != "SIGTERM" else "launcher",
        role="cascade" if signal == "SIGTERM" else "summary",
        line=line,
        type=signal or f"exit {left['code']}",
        message=[f"exitcode: {left['code']} (pid: {left['pid']})", values.get("traceback", "")],
        rank=int(rank[0]),
        host=values.get("host"),
        time=values.get("time"),
        last_line=summary.last_line,
    )
    if worker.message[1].startswith("To enable traceback"):
        worker.message.pop()
    own = _own_traceback(worker, values.get("traceback", ""), rest)
    return [worker, own] if own else [worker]


def _own_traceback(worker: Draft, first: str, rest: list[str]) -> Draft | None:
    """A worker that records its exception (`@record`) has it printed here, indented."""
    line = Line(worker.line.number, first, worker.rank, worker.host, worker.time, source=worker.line.source)
    reader: Traceback | None = header(line)
    if not reader:
        return None
    worker.message.pop()
    for text in rest:
        line = Line(line.number, text, line.rank, line.host, line.time, source=line.source)
        reader.offer(line)
    return reader.finish()
