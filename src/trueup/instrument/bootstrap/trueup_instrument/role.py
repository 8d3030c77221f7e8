"""What this interpreter is: a rank that trains, a launcher, or some child that is neither."""

from __future__ import annotations

import os
import sys

RANK = "rank"
LAUNCHER = "launcher"
CHILD = "child"

OWNER = "TRUEUP_RANK_PROCESS"
"""`pid:RANK`, set by a rank for its children, so that DataLoader workers and compile workers know they are no rank."""

LAUNCHER_PROGRAMS = {
    "torchrun",
    "accelerate",
    "accelerate-launch",
    "deepspeed",
    "ds",
    "lightning",
    "fabric",
    "composer",
    "horovodrun",
    "torchx",
    "ray",
    "uv",
    "poetry",
    "pip",
    "pip3",
    "pytest-xdist",
}
LAUNCHER_MODULES = (
    "torch.distributed.run",
    "torch.distributed.launch",
    "accelerate.commands",
    "deepspeed.launcher",
    "torch._inductor.compile_worker",
    "pip",
    "venv",
    "ensurepip",
)


def of_this_process() -> str:
    """The role as far as it can be told before the program has begun."""
    program, module = _program()
    if _is_launcher(program, module):
        os.environ.pop(OWNER, None)  # what a launcher starts belongs to no rank
        return LAUNCHER
    if "--multiprocessing-fork" in sys.orig_argv:
        return CHILD
    pid, _, rank = os.environ.get(OWNER, "").partition(":")
    if pid and pid != str(os.getpid()) and rank == os.environ.get("RANK", ""):
        return CHILD
    return RANK


def own_children() -> None:
    """Tell the processes that this rank will start that they are no ranks."""
    os.environ[OWNER] = f"{os.getpid()}:{os.environ.get('RANK', '')}"


def disown_children() -> None:
    """Take back what `own_children` told."""
    if os.environ.get(OWNER, "").partition(":")[0] == str(os.getpid()):
        del os.environ[OWNER]


def _is_launcher(program: str | None, module: str | None) -> bool:
    if module and any(module == name or module.startswith(name + ".") for name in LAUNCHER_MODULES):
        return True
    if program is None:
        return False
    if os.path.basename(program) in LAUNCHER_PROGRAMS:
        return True
    folders = os.path.normpath(program).split(os.sep)
    starts_ranks = folders[-3:-1] == ["torch", "distributed"] and folders[-1] in ("run.py", "launch.py")
    return "compile_worker" in folders or starts_ranks


OPTIONS_WITH_VALUE = {"-W", "-X", "--check-hash-based-pycs"}


def _program() -> tuple[str | None, str | None]:
    """(script path, None), (None, module name) or (None, None) of the interpreter's command line."""
    words = iter(sys.orig_argv[1:])
    for word in words:
        if word == "-m":
            return None, next(words, None)
        if word == "-c":
            return None, None
        if word in OPTIONS_WITH_VALUE:
            next(words, None)
        elif word.startswith("-m") and len(word) > 2 and not word.startswith("--"):
            return None, word[2:]
        elif not word.startswith("-"):
            return word, None
    return None, None
