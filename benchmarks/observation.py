"""Step time of a training job with observation over the same job without it (budget: 1.01, median of pairs).

The two jobs of a pair run at the same time, each on a processor core of its own, and change cores between rounds, so
that what else happens on the machine meets both. The processor time of the training thread stands beside wall time. No
step after the warm-up is left out; what the sampled ones among them cost is told in seconds, besides. Two processes
that do the same differ as well: `A/A` pairs, both unobserved, show by how much.
"""

from __future__ import annotations

import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.pairs import ratio
from trueup.runs.injection import bootstrap_folder

JOB = Path(__file__).parent / "jobs" / "steps.py"
CLOCKS = ("wall", "cpu")


@dataclass(frozen=True)
class Size:
    """How many steps one kind of job makes."""

    warm_up: int
    """Steps not counted, in which the job compiles."""
    rounds: int
    each: int
    """Steps of one round."""


SIZES = {
    "tiny": Size(300, 20, 100),
    "loop": Size(300, 20, 20),
    "eager": Size(20, 16, 5),
    "compiled": Size(20, 16, 5),
}


@dataclass
class Side:
    """One job of a pair and what it measured, in seconds, step by step."""

    process: subprocess.Popen[str]
    wall: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)
    losses: list[float] = field(default_factory=list)
    graphs: int = 0
    sampled: set[int] = field(default_factory=set)
    """Numbers of the counted steps that were sampled, or in which a sample began."""

    def ask(self, steps: int, core: int | None) -> None:
        if core is not None:
            os.sched_setaffinity(self.process.pid, {core})
        assert self.process.stdin is not None
        self.process.stdin.write(f"{steps}\n")
        self.process.stdin.flush()

    def answer(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"the job ended early, with {self.process.wait()}")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def take(self) -> None:
        answer = self.answer()
        self.wall += answer["wall"]
        self.cpu += answer["cpu"]
        self.losses += answer["losses"]
        self.graphs = answer["graphs"]

    def excess(self) -> float:
        """Processor seconds that the sampled steps took beyond a median step each."""
        usual = statistics.median(self.cpu)
        return sum(self.cpu[number] - usual for number in self.sampled)


def measure(quick: bool = False) -> Iterator[str]:
    """For each kind of job: the ratio, its noise floor, and what the samples cost."""
    pairs = 2 if quick else 8
    for kind in SIZES:
        for observed in (False, True):
            yield from told(kind, observed, [pair(kind, observed, number) for number in range(pairs)])


def told(kind: str, observed: bool, pairs: list[tuple[Side, Side]]) -> Iterator[str]:
    name = "observed / unobserved" if observed else "A/A"
    for clock in CLOCKS:
        medians = [(statistics.median(getattr(a, clock)), statistics.median(getattr(b, clock))) for a, b in pairs]
        middle, low, high = ratio(medians)
        more = 1e6 * statistics.median(a - b for a, b in medians)
        yield (
            f"{kind}, {name}, {clock}: median step {middle:.4f} (95 % {low:.4f} to {high:.4f}, {len(pairs)} pairs), "
            f"{more:+.0f} us of {1e3 * statistics.median(b for _, b in medians):.2f} ms"
        )
    if observed:
        same = all(a.losses == b.losses and a.graphs == b.graphs for a, b in pairs)
        counts = statistics.median(sum(number + 1 in a.sampled for number in a.sampled) for a, _ in pairs)
        excess = statistics.median(a.excess() for a, _ in pairs)
        whole = statistics.median(sum(b.cpu) for _, b in pairs)
        yield (
            f"{kind}: {counts:.0f} samples in {len(pairs[0][0].cpu)} steps took {excess:.2f} s of cpu time beside "
            f"{whole:.2f} s of the unobserved steps; losses bit-equal and graph counts equal {same}"
        )


def pair(kind: str, observed: bool, number: int) -> tuple[Side, Side]:
    """Both jobs of a pair, done: the one that is observed, or takes its place, first."""
    size = SIZES[kind]
    usable = sorted(os.sched_getaffinity(0))
    cores = usable[:2] if len(usable) > 1 else [None, None]
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as ends:
        sides = (Side(started(kind, folder if observed else None)), Side(started(kind, None)))
        for side in sides:
            ends.callback(finish, side.process)
        for turn in range(size.rounds + 1):
            for place, side in enumerate(sides):
                side.ask(size.each if turn else size.warm_up, cores[(place + turn + number) % 2])
            for side in sides:
                side.take() if turn else side.answer()
        ends.close()
        sides[0].sampled = sampled(Path(folder), size)
    return sides


def started(kind: str, folder: str | None) -> subprocess.Popen[str]:
    """A job that waits for its orders; observed when there is a folder for events."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONHASHSEED": "0"}
    if folder is not None:
        environment |= {"PYTHONPATH": str(bootstrap_folder()), "TRUEUP_EVENTS": folder}
    command = [sys.executable, str(JOB), kind]
    return subprocess.Popen(
        command, env=environment, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )


def finish(process: subprocess.Popen[str]) -> None:
    """End of input is the end of the job."""
    with contextlib.suppress(BrokenPipeError):
        process.communicate()


def sampled(folder: Path, size: Size) -> set[int]:
    """A sample begins at the end of one step and ends within the next: both, counted from 0 after the warm-up."""
    events = (json.loads(line) for file in folder.glob("events-*.jsonl") for line in file.read_text().splitlines())
    ends = [event["step"] - 1 - size.warm_up for event in events if event["kind"] == "sample"]
    return {step for end in ends for step in (end - 1, end) if 0 <= step < size.rounds * size.each}
