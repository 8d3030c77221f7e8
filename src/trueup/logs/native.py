"""C++, CUDA and signals: processes that die without a Python traceback, and what the system says about it."""

from __future__ import annotations

from trueup.logs.marks import mark

MARKS = (
    mark(r"^terminate called after throwing an instance of '(?P<type>[^']+)'", "native", continues=True),
    mark(r"^terminate called (?:recursively|without an active exception)", "native", "cascade"),
    mark(r"^what\(\): ", "native", continues=True),
    # The kernel and the batch system on memory.
    mark(r"Out of memory: Killed process \d+", "killed", type="SIGKILL"),
    mark(r"\boom-kill:constraint=|invoked oom-killer|Memory cgroup out of memory", "killed", type="SIGKILL"),
    mark(
        r"slurmstepd.* oom[_-]kill event|Some of (?:your processes|the step tasks) (?:may )?have been (?:killed|OOM)",
        "killed",
        type="SIGKILL",
    ),
    mark(r"\bOOMKilled\b", "killed", type="SIGKILL"),
    mark(r"srun: error: (?P<host>[\w.-]+): task (?P<rank>\d+): Out Of Memory", "killed", type="SIGKILL"),
    mark(
        r"Task was killed due to the node running low on memory|"
        r"Workers? \(tasks / actors\) killed due to memory pressure",
        "killed",
        type="SIGKILL",
    ),
    mark(
        r"\*\*\* (?:JOB|STEP) \S+ ON (?P<host>\S+) CANCELLED AT .* DUE TO (?P<type>TIME LIMIT|PREEMPTION|NODE FAILURE)",
        "killed",
    ),
    mark(r"\*\*\* (?:JOB|STEP) \S+ ON (?P<host>\S+) CANCELLED AT", "killed", "cascade"),
    mark(r"^(?:\S+: line \d+: +\d+ )?Killed(?:\s|$)", "killed", type="SIGKILL"),
    mark(
        r"^\S+: line \d+: +\d+ (?P<type>Segmentation fault|Bus error|Aborted|Illegal instruction|"
        r"Terminated|Floating point exception)",
        "native",
    ),
    # Signals as shells, handlers and launchers name them.
    mark(
        r"^(?P<type>Segmentation fault|Bus error|Aborted|Illegal instruction|"
        r"Floating point exception)(?: \(core dumped\))?$",
        "native",
    ),
    mark(r"\*\*\* Process received signal \*\*\*|Caught signal \d+ \((?P<type>[^:)]+)", "native", continues=True),
    mark(
        r"^\*\*\* (?P<type>SIG[A-Z]+) (?:received|\(@)|Signal: (?P<type2>[A-Z][\w ]+) \(\d+\)|"
        r"!!!!!!! Segfault encountered",
        "native",
        continues=True,
    ),
    mark(
        r"^(?:free\(\)|malloc\(\)|realloc\(\)|munmap_chunk\(\)|corrupted |double free or corruption|"
        r"\*\*\* stack smashing)",
        "native",
        type="SIGABRT",
    ),
    mark(r"Unexpected bus error encountered in worker", "native", type="SIGBUS"),
    mark(r"Fatal glibc error|^Illegal instruction", "native"),
    # CUDA from C++.
    mark(
        r"^\S+\.cuh?:\d+:.*: block: \[[\d,]+\], thread: \[[\d,]+\] Assertion `.*' failed|Assertion .* failed\.?$",
        "native",
        type="assertion",
    ),
    mark(
        r"^(?:CUDA|HIP) error\b|^cuda(?:Error|_error)\w*\b|^an illegal memory access|"
        r"^CUBLAS_STATUS_(?!SUCCESS)|^CUDNN_STATUS_(?!SUCCESS)",
        "native",
        continues=True,
    ),
    mark(r"\bNVRM: Xid\b|\bXid \(PCI", "native", type="Xid"),
    mark(r"^(?:CUDA|HIP) out of memory", "native", type="out of memory"),
    mark(r"^(?P<type>c10::\w*Error|std::\w+)\b", "native", continues=True),
)
