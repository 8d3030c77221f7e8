"""The line that names an exception, and which lines behind it still belong to its message."""

from __future__ import annotations

import re
from functools import lru_cache

_LINE = re.compile(
    r"(?P<type>(?:[A-Za-z_]\w*\.)*(?:<locals>\.)?[A-Za-z_]\w*)(?P<inner>\((?:[A-Za-z_][\w.]*)\))?(?:: ?(?P<message>.*)|"
    r":?)$"
)
_SUFFIXES = (
    "Error", "Exception", "Warning", "Interrupt", "Exit", "Failed", "Failure", "Timeout", "Expired", "Unsupported",
    "Aborted", "Cancelled", "Group", "OutOfResources", "OutOfMemory", "StopIteration", "StopAsyncIteration",
    "Mismatch", "NotFound", "Refused", "Violation", "Deadlock", "Traceback", "RestartAnalysis",
)  # fmt: skip
_NOT_TYPES = {"Exception", "Error", "Warning"}
_LOWER = {"error", "timeout", "herror", "gaierror"}
"""Exceptions of the standard library that are written in lower case: `socket.timeout`, `struct.error`."""


@lru_cache(maxsize=4096)
def exception_line(text: str, *, expected: bool = False) -> tuple[str, str] | None:
    """Type and message of a line like `torch.OutOfMemoryError: CUDA out of memory`; None for any other line.

    `expected`: the lines before were those of a traceback, so that a class with any name may stand here.
    """
    found = _LINE.match(text)
    if not found or not is_exception_type(found["type"], expected=expected, alone=found["message"] is None):
        return None
    return found["type"] + (found["inner"] or ""), found["message"] or ""


def is_exception_type(name: str, *, expected: bool = False, alone: bool = False) -> bool:
    """Whether `name` can be an exception's class by its spelling."""
    module, _, last = name.rpartition(".")
    if not module and last.startswith(("nccl", "cuda")):
        return False  # a status of a C library: ncclSystemError
    if last.endswith(_SUFFIXES):
        return bool(module) or not alone or expected or last not in _NOT_TYPES
    if module and last in _LOWER:
        return True
    named_like_a_class = last[:1].isupper() or last[:1] == "_"
    return expected and named_like_a_class and (bool(module) or not last.isupper())


_CONTINUES = re.compile(
    r"from user code:|Set TORCH(?:DYNAMO|_LOGS)|You can suppress this exception|"
    r"Original [Tt]raceback|Original exception|"
    r"Exception raised from |frame #\d+:|Explanation:|Hint:|Developer debug context:|"
    r"For more details about this graph break|"
    r"Last error:|nccl[A-Z]\w+:|The above operation failed in interpreter|Debugging instructions:|While executing |"
    r"User [Ss]tack|User code traceback|Graph break|target: |  args\[\d+\]:|stderr:|stdout:|"
    r"`ptxas` stderr|Command:|Output:|"
    r"Repro command:|-- Process \d+ terminated|what\(\):|C\+\+ CapturedTraceback|tensor at position|saved metadata|"
    r"recomputed metadata|Number of tensors saved|\t"
)
"""Openings of a paragraph that belongs to the message above it although a blank line stands between."""

_OTHERS = re.compile(
    r"Traceback \(most|During handling of|The above exception was|Exception (?:ignored )?in\b|Process \S+:$|"
    r"srun: |slurmstepd|torchrun|ninja: |make(?:\[\d+\])?: |FAILED|Killed|terminate called|Segmentation fault|Aborted|"
    r"wandb: |Fatal Python error|\S+@\S+[:~].*[$#]|\(\w+\) \S+@|[$#%] |In \[\d+\]|```|[-=*]{20,}|"
    r"\[end of output\]|.{0,200}\d+%\|"
)
"""Openings of something else."""


def continues_message(text: str) -> bool:
    """True for a line that belongs to the message above it even behind a blank line."""
    return bool(_CONTINUES.match(text) or _CONTINUES.match(text.lstrip(" *")))


def begins_something_else(text: str) -> bool:
    """True for a line that cannot continue the message of an exception, whoever printed it."""
    return bool(_OTHERS.match(text))


ADVICE = re.compile(
    r"CUDA kernel errors might be asynchronously reported|For debugging consider passing CUDA_LAUNCH_BLOCKING|"
    r"Compile with `?TORCH_USE_CUDA_DSA|Device-side assertion tracking was not enabled|"
    r"To execute this test, run|This message can be suppressed by|Set TORCHDYNAMO_VERBOSE=1 for the internal|"
    r"You can suppress this exception and fall back to eager|set TORCH_LOGS=|use TORCH_LOGS=|use TORCHDYNAMO_VERBOSE|"
    r"If you are attempting to |To enable traceback see|To log all recompilation reasons|"
    r"To diagnose recompilation issues|note: This error originates from a subprocess|"
    r"note: This is an issue with the package|"
    r"See above for output|hint: See above for details|See documentation at https?://|"
    r"For more information,? (?:see|check)|"
    r"Search for `\w+' in https://docs\.nvidia\.com|Run with (?:NCCL_DEBUG|RUST_BACKTRACE)|"
    r"(?:Please )?[Rr]efer to .{0,60}(?:https?://|documentation)|(?:Please )?(?:[Cc]heck|"
    r"[Ss]ee) .{0,40}https?://(?:huggingface\.co/docs|pytorch\.org|docs\.pytorch\.org)"
)
"""Sentences that tell the reader what to try. They stand under failures of every class, so they never mean one."""

ASYNCHRONOUS = re.compile(
    r"CUDA kernel errors might be asynchronously reported|CUDA error: (?:device-side assert|an illegal memory access|"
    r"unspecified launch failure|misaligned address|an illegal instruction)|HIP error: .*asynchron"
)


def is_advice(text: str) -> bool:
    """True for a line that is advice as a whole, perhaps indented or behind `Hint:`."""
    return bool(ADVICE.match(text.lstrip(" *-").removeprefix("Hint: ")))
