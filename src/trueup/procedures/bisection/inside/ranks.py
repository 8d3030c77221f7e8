"""Ranks: with how many of them it fails, by the number that the launch command asks for."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import PurePath

import msgspec

from trueup.edits.command import SHELLS, option, with_option, words
from trueup.procedures.bisection.trials import Trials
from trueup.schema.bisection import Attempt, Narrowed, Outcome
from trueup.schema.record import Record

MOST = 2
"""Runs that the question may cost."""
NUMBERS = ("--nproc-per-node", "--nproc_per_node", "--num-processes", "--num_processes", "--ntasks", "--num_gpus")
"""Options of torchrun, accelerate, srun and deepspeed with a number of processes."""
NODES = ("--nnodes", "--num_machines", "-N", "--nodes")
HIDDEN = "***"
"""What stands for a secret in the command of a record."""
IN_COPY = "/.trueup/"
"""Part of a path into the copy of a run, which is gone by then."""
SHORT = {"mpirun": ("-np", "-n"), "mpiexec": ("-np", "-n"), "srun": ("-n",)}
"""Launcher → its options of that kind that mean other things elsewhere."""


def narrow(trials: Trials, base: Attempt, record: Record) -> Iterator[Narrowed]:
    """One rank; and two, where the job has more and one is not enough."""
    size = record.launch.world_size or max((rank.world_size or 1 for rank in record.ranks), default=1)
    attempts = {number: of_ranks(base, record, number) for number in (1, 2) if number < size}
    found: dict[int, Outcome] = {}
    for number, attempt in attempts.items():
        if attempt is None:
            return
        found[number] = trials.settled(attempt)
        if found[number] == "fails":
            break
    told = "; ".join(f"{_counted(number)}: {_seen(trials, attempt)}" for number, attempt in attempts.items() if attempt)
    answer = _answer(found, size)
    if answer is not None:
        yield Narrowed(layer="launcher", what="ranks", answer=answer, evidence=f"fails with {size}; {told}")


def _answer(found: dict[int, Outcome], size: int) -> str | None:
    if found.get(1) == "fails":
        return "one is enough"
    if found.get(2) == "fails":
        return "needs two" if found[1] == "passes" else "two are enough"
    if all(outcome == "passes" for outcome in found.values()) and found:
        return "needs two" if size == 2 else f"needs more than two of {size}"
    return None


def _seen(trials: Trials, attempt: Attempt) -> str:
    trial = trials.trial(attempt)
    return "not run" if trial is None else f"{trial.outcome}, {trial.why}"


def _counted(number: int) -> str:
    return "1 rank" if number == 1 else f"{number} ranks"


def of_ranks(base: Attempt, record: Record, number: int) -> Attempt | None:
    """`base` started with so many ranks; None where its command names no number of them, or names several."""
    command = base.command or record.command
    if any(HIDDEN in word or IN_COPY in word for word in command):
        return None
    changed = with_ranks(command, number)
    return None if changed is None else msgspec.structs.replace(base, command=changed)


def with_ranks(command: tuple[str, ...], number: int) -> tuple[str, ...] | None:
    """`command` with another number of ranks; None where it names none, or has several nodes."""
    if (option(words(command), *NODES) or "1") not in ("1", "1:1"):
        return None
    if len(command) >= 3 and PurePath(command[0]).name in SHELLS and command[1].lstrip("-").endswith("c"):
        line = _in_line(command[2], number)
        return None if line is None else (*command[:2], line, *command[3:])
    changed = command
    names = [*NUMBERS, *(name for word in command for name in SHORT.get(PurePath(word).name, ()))]
    present = [name for name in names if any(word.partition("=")[0] == name for word in command)]
    for name in present:
        changed = with_option(changed, name, str(number))
    if present:
        return changed
    for place, word in enumerate(command):  # its number stands in a file, which the option goes before
        if PurePath(word).name == "accelerate" and command[place + 1 : place + 2] == ("launch",):
            return (*command[: place + 2], "--num_processes", str(number), *command[place + 2 :])
    return None


def _in_line(line: str, number: int) -> str | None:
    """The line of `sh -c`, in which quotes and variables stay as they are."""
    options = "|".join(map(re.escape, NUMBERS))
    changed, count = re.subn(rf"({options})([=\s]+)(\S+)", rf"\g<1>\g<2>{shlex.quote(str(number))}", line)
    return changed if count == 1 else None
