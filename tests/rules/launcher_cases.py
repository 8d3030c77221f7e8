"""Jobs that hang or end because ranks did not meet in their collectives."""

from typing import Any

from healthy_record import failed
from rule_case import negative, positive

CLOSED = "RuntimeError: [gloo/transport/tcp/pair.cc:553] Connection closed by peer [127.0.0.1]:65247."
TIMED_OUT = (
    "RuntimeError: [gloo/transport/tcp/unbound_buffer.cc:78] Timed out waiting 12000ms for recv operation to complete"
)
MISMATCH = "Fatal Python error: Aborted\n\nop.preamble.length <= op.nbytes. 1220 vs 4. Is there a mismatch?"
BACKWARD = """Process 16491: python3 -u train.py
Python v3.11.7 (python3.11)

Thread 16491 (idle): "MainThread"
    _engine_run_backward (torch/autograd/graph.py:979)
    backward (torch/autograd/__init__.py:395)
    Tensor.backward (torch/_tensor.py:623)
    <module> (train.py:6)

Thread 16493 (idle): "Thread-1"
    wait (threading.py:327)
"""
ASLEEP = """Process 16492: python3 -u train.py
Python v3.11.7 (python3.11)

Thread 16492 (idle): "MainThread"
    <module> (train.py:8)
"""
REDUCING = """Thread 0x00007f4c2f7fe700 (most recent call first):
  File "/usr/lib/python3.11/threading.py", line 327 in wait

Current thread 0x00007f4c4a0a1740 (most recent call first):
  File "/site-packages/torch/distributed/distributed_c10d.py", line 3252 in all_reduce
  File "/site-packages/torch/distributed/c10d_logger.py", line 83 in wrapper
  File "train.py", line 16 in evaluate
"""


IN_JOIN = """Thread 16492 (idle): "MainThread"
    all_reduce (torch/distributed/distributed_c10d.py:3252)
    _match_all_reduce_for_bwd_pass (torch/nn/parallel/distributed.py:1700)
    __exit__ (torch/distributed/algorithms/join.py:270)
    <module> (train.py:5)
"""
FOR, VALIDATION = "train.py:4", "train.py:9"


def loop(number: int, batches: int | None, steps: int | None = None, at: str = FOR) -> dict[str, Any]:
    """The `number`-th loop that began at this place."""
    return {"at": at, "number": number, "batches": batches, "steps": steps}


def epochs(first: int, *lengths: int | None, before: int = 0) -> list[dict[str, Any]]:
    """Loops at one place, numbered from `first` on; `before`: steps that were made until it began."""
    ends, told = before, []
    for number, length in enumerate(lengths, first):
        ends += length or 0
        told.append(loop(number, length, None if length is None else ends))
    return told


def stacked(steps: int, *ranks: tuple[str, list[dict[str, Any]]]) -> dict[str, Any]:
    """Ranks of which each stood here, with these loops, when the time of the run was over."""
    left = [ended(rank, "timeout", steps, stack=stack, loops=loops) for rank, (stack, loops) in enumerate(ranks)]
    return {"exit": {"code": 124, "reason": "timeout"}, "ranks": left}


def lost(steps: int, *ranks: list[dict[str, Any]]) -> dict[str, Any]:
    """Ranks with these loops that lost each other."""
    left = [
        ended(rank, "exception", steps, error=f"{CLOSED}\nat train.py:44", loops=each)
        for rank, each in enumerate(ranks)
    ]
    return {"exit": {"code": 1}, "ranks": left}


def finished_and_left(steps: int, done: list[dict[str, Any]], left: list[dict[str, Any]], **rest: Any) -> Any:
    """Rank 0 ended by itself, rank 1 lost it in a collective."""
    lost = {"error": f"{CLOSED}\nat train.py:44", **rest}
    reason = "timeout" if "stack" in rest else "exception"
    return {
        "exit": {"code": 1},
        "ranks": [ended(0, "finished", steps, loops=done), ended(1, reason, steps, loops=left, **lost)],
    }


def ended(rank: int, reason: str, steps: int = 9, **rest: Any) -> dict[str, Any]:
    known = {"rank": rank, "world_size": 2, "trained": True, "steps": steps, "process_group": "gloo"}
    return {**known, "exit": {"reason": reason}, **rest}


def hung(*stacks: str) -> dict[str, Any]:
    ranks = [ended(number, "timeout", stack=stack) for number, stack in enumerate(stacks)]
    return {"exit": {"code": 124, "reason": "timeout"}, "ranks": ranks}


def died(*errors: str) -> dict[str, Any]:
    """Each rank raised its error."""
    return {
        "exit": {"code": 1, "reason": errors[0]},
        "ranks": [ended(rank, "exception", error=error) for rank, error in enumerate(errors)],
    }


def at_the_end(steps: int, *loops: list[int | None], error: str = MISMATCH) -> dict[str, Any]:
    """Rank 0 met another collective, rank 1 lost it; `loops`: of each, batches until the data ended, None: not."""
    raised = died(error, f"{CLOSED}\nat train.py:44")
    for rank, batches in zip(raised["ranks"], loops, strict=True):
        rank["steps"] = steps
        rank["loops"] = [{"batches": each, "steps": each} for each in batches]
    return raised


def stopped(*loops: list[int | None]) -> dict[str, Any]:
    """Rank 0 ended by itself, rank 1 lost it; `loops`: of each, batches until the data ended, None: not."""
    told = [[{"batches": each, "steps": 4} for each in batches] for batches in loops]
    left = ended(1, "exception", error=f"{CLOSED}\nat train.py:44", loops=told[1])
    return {"exit": {"code": 1}, "ranks": [ended(0, "finished", loops=told[0]), left]}


CASES = [
    positive(
        "launcher/collective-desync",
        "one rank stopped early after an epoch, of data of one length",
        stopped([4, 4], [4, 4, None]),
        severity="error",
        confidence="likely",
    ),
    positive(
        "launcher/uneven-batches-at-epoch-end",
        "one rank ended, its data were shorter",
        stopped([4, 4], [5, None]),
        severity="error",
        confidence="likely",
    ),
    positive(
        "launcher/uneven-batches-at-epoch-end",
        "one rank ended, its last data were shorter",
        stopped([4, 3], [4, None]),
        severity="error",
        confidence="likely",
    ),
    positive(
        "launcher/uneven-batches-at-epoch-end",
        "one rank ended, and nothing is known of the data",
        stopped([], []),
        severity="error",
        confidence="likely",
    ),
    positive(
        "launcher/uneven-batches-at-epoch-end",
        "the data of one rank ended, the other went on training",
        at_the_end(17, [17], [None]),
        severity="error",
        confidence="likely",
    ),
    positive(
        "launcher/uneven-batches-at-epoch-end",
        "the data of both ended, after another number of batches",
        at_the_end(20, [17], [20]),
        severity="error",
        confidence="likely",
    ),
    negative(
        "launcher/uneven-batches-at-epoch-end",
        "out of step after equal epochs",
        at_the_end(17, [17], [17]),
    ),
    positive(
        "launcher/uneven-batches-at-epoch-end",
        "the data of one rank ended, the run was ended while both waited",
        stacked(17, (REDUCING, epochs(1, 17)), (BACKWARD, epochs(1, None))),
        severity="error",
        also=("error launcher/collective-desync",),
        confidence="likely",
    ),
    positive(
        "launcher/uneven-batches-at-epoch-end",
        "the data of one rank became shorter after eight epochs",
        finished_and_left(39, epochs(3, *[4] * 7, 3, before=8), epochs(3, *[4] * 7, None, before=8)),
        severity="error",
        confidence="likely",
    ),
    negative(
        "launcher/uneven-batches-at-epoch-end",
        "a network failed under ranks that read loaders of uneven length again and again",
        lost(500, epochs(43, *[10] * 8, before=420), epochs(38, *[11] * 8, before=407)),
    ),
    negative(
        "launcher/uneven-batches-at-epoch-end",
        "the same within the first epochs",
        lost(57, epochs(1, *[10] * 5, None), epochs(1, *[11] * 5, None)),
    ),
    negative(
        "launcher/uneven-batches-at-epoch-end",
        "time is over in a job that reads loaders of uneven length again and again",
        stacked(500, (ASLEEP, epochs(1, *[10] * 8)), (ASLEEP, epochs(1, *[11] * 8))),
    ),
    negative(
        "launcher/uneven-batches-at-epoch-end",
        "time is over while ranks with data of uneven length compute",
        stacked(11, (ASLEEP, epochs(1, 10)), (ASLEEP, epochs(1, 11))),
    ),
    negative(
        "launcher/uneven-batches-at-epoch-end",
        "time is over while ranks with data of uneven length are in one collective",
        stacked(11, (REDUCING, epochs(1, 10)), (REDUCING, epochs(1, 11))),
    ),
    negative(
        "launcher/uneven-batches-at-epoch-end",
        "time is over while a rank whose data ended takes part by Join",
        stacked(10, (IN_JOIN, epochs(1, 10)), (BACKWARD, epochs(1, None))),
    ),
    negative(
        "launcher/uneven-batches-at-epoch-end",
        "only the first rank reads validation data across its steps",
        lost(10, [*epochs(1, 8), loop(1, None, at=VALIDATION), *epochs(2, None)], [*epochs(1, 8), *epochs(2, None)]),
    ),
    negative(
        "launcher/uneven-batches-at-epoch-end",
        "only the first rank reads validation data, which ended",
        lost(10, [*epochs(1, 8), loop(1, 2, 9, at=VALIDATION), *epochs(2, None)], [*epochs(1, 8), *epochs(2, None)]),
    ),
    positive(
        "launcher/collective-desync",
        "one rank stopped early after twelve epochs",
        finished_and_left(48, epochs(5, *[4] * 8, before=16), epochs(6, *[4] * 7, None, before=20)),
        severity="error",
        confidence="likely",
    ),
    positive(
        "launcher/collective-desync",
        "one rank stopped early, and had read validation data alone",
        finished_and_left(8, [*epochs(1, 4, 4), loop(1, None, at=VALIDATION)], epochs(1, 4, 4, None)),
        severity="error",
        confidence="likely",
    ),
    negative("launcher/uneven-batches-at-epoch-end", "the first rank reads for all", at_the_end(17, [17], [])),
    negative("launcher/uneven-batches-at-epoch-end", "out of step within an epoch", at_the_end(9, [None], [None])),
    negative(
        "launcher/uneven-batches-at-epoch-end",
        "the first rank crashed in its validation",
        at_the_end(17, [17], [None], error="KeyError: 'labels'\nat train.py:50"),
    ),
    positive(
        "launcher/uneven-batches-at-epoch-end",
        "one rank ended, the other lost it in a collective",
        {"exit": {"code": 1}, "ranks": [failed(CLOSED, steps=9), ended(1, "finished")]},
        severity="error",
        confidence="likely",
    ),
    positive(
        "launcher/uneven-batches-at-epoch-end",
        "one rank ended, the other hung",
        {
            "exit": {"code": 124, "reason": "timeout"},
            "ranks": [ended(0, "timeout", stack=BACKWARD), ended(1, "finished")],
        },
        severity="error",
        confidence="likely",
    ),
    negative(
        "launcher/uneven-batches-at-epoch-end",
        "a rank crashed, the other lost it",
        {"exit": {"code": 1}, "ranks": [failed(CLOSED, steps=9), failed("ZeroDivisionError: division by zero", 1)]},
    ),
    positive(
        "launcher/collective-timeout-absent-rank",
        "one rank sleeps, the other is in its backward pass",
        hung(BACKWARD, ASLEEP),
        severity="error",
    ),
    negative("launcher/collective-timeout-absent-rank", "no rank waits for another", hung(ASLEEP, ASLEEP)),
    positive(
        "launcher/collective-desync",
        "backward pass against the mean of an evaluation",
        hung(BACKWARD, REDUCING),
        severity="error",
        confidence="likely",
    ),
    negative("launcher/collective-desync", "all at one line: no other rank is to blame", hung(BACKWARD, BACKWARD)),
    positive(
        "launcher/collective-desync",
        "both timed out: a barrier after the loop against a backward pass within it",
        died(f"{TIMED_OUT}\nat train.py:58", f"{TIMED_OUT}\nat train.py:44"),
        severity="error",
        confidence="likely",
    ),
    negative(
        "launcher/collective-desync",
        "both timed out at one line",
        died(f"{TIMED_OUT}\nat train.py:44", f"{TIMED_OUT}\nat train.py:44"),
    ),
    negative(
        "launcher/collective-desync",
        "one timed out, and the other came too late, to where the first was gone",
        died(f"{TIMED_OUT}\nat train.py:44", f"{CLOSED}\nat train.py:30"),
    ),
]
