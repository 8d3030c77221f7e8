"""Whatever bytes come: no exception, no failure that is not there."""

import random
from pathlib import Path

import pytest
from reading import RECORDED, TRACEBACK, log_of

from trueup.schema.log import Log

PIECES = [
    b"Traceback (most recent call last):\n",
    b'  File "a.py", line 3, in f\n',
    b"    x = 1\n",
    b"ValueError: x\n",
    b"\n",
    b"The above exception was the direct cause of the following exception:\n",
    b'"""\n',
    b"  + Exception Group Traceback",
    b" (most recent call last):\n",
    b"  | ",
    b"  +-+---------------- 1 ----------------\n",
    b"    +------------------\n",
    b"[rank3]: ",
    b"[default3]:",
    b"3: ",
    b"(a pid=3, ip=1.2.3.4) ",
    b"worker-3: ",
    b"2026-01-05 10:00:00,123 ERROR ",
    b"W1129 14:55:27.881000 2160 torch/a.py:9] ",
    b"[0/8] [__graph_breaks] ",
    b"\x1b[36m",
    b"\r",
    b"\r\n",
    b"\x00",
    b"\xff\xfe",
    b'{"log": "',
    b'"}\n',
    b"\\n",
    b"\\\\n",
    b"torch.distributed.elastic.multiprocessing.errors.ChildFailedError: \n",
    b"=" * 40 + b"\n",
    b"[0]:\n",
    b"  rank      : 3 (local_rank: 3)\n",
    b"  exitcode  : -9 (pid: 7)\n",
    b"Root Cause\n",
    b"  traceback : Traceback (most recent call last):\n",
    b"Fatal Python error: Segmentation fault\n",
    b"frame #0: f\n",
    b"Current thread 0x1 (most recent call first):\n",
    b"UserWarning: x\n",
    b"a.py:3: UserWarning: x\n",
    b"Killed\n",
    b"> ",
    b"NCCL WARN x\n",
    b"error: x\n",
    b"hint: x\n",
    "\u2502 /a.py:3 in f \u2502\n".encode(),
    "\u256d\u2500 Traceback (most recent call last) ".encode(),
    b"ZeroDivisionError      Traceback (most recent call last)\n",
    b"----> 3 x\n",
    b"from user code:\n",
    b"raised:\n",
    b"\xe9",
    b"  [Previous line repeated 9 more times]\n",
    b"world_size=" + b"9" * 30 + b"\n",
    b"line 99999999999999999999\n",
]


def sound(log: Log) -> None:
    for failure in log.failures:
        assert 1 <= failure.first_line <= failure.last_line <= log.lines
        assert failure.count >= 1
        assert not set(failure.message) & {"\x1b", "\r", "\x00"}
    firsts = [failure for failure in log.failures if failure.role != "advice"]
    assert not firsts or log.failures[0].role != "advice"


@pytest.mark.parametrize("seed", range(40))
def test_pieces_in_any_order(seed: int) -> None:
    draw = random.Random(seed)
    sound(log_of(b"".join(draw.choices(PIECES, k=draw.randrange(1, 400)))))


@pytest.mark.parametrize("seed", range(10))
def test_random_bytes(seed: int) -> None:
    sound(log_of(random.Random(seed).randbytes(50_000)))


@pytest.mark.parametrize("path", sorted(RECORDED.glob("*.txt")), ids=lambda path: path.stem)
def test_recorded_files_cut_and_damaged(path: Path) -> None:
    text = path.read_bytes()
    draw = random.Random(path.name)
    for _ in range(12):
        damaged = bytearray(text)
        for _ in range(draw.randrange(12)):
            damaged[draw.randrange(len(damaged))] = draw.randrange(256)
        start, end = sorted(draw.choices(range(len(damaged) + 1), k=2))
        sound(log_of(bytes(damaged[start:end])))


@pytest.mark.parametrize(
    "line",
    [
        b"1" * 100_000,
        b"a=1 " * 20_000 + b"!",
        b"a" * 100_000 + b":",
        b"/" * 50_000 + b":3: Warning",
        b"error: " * 20_000,
        b" " * 100_000 + b"x",
        b"[" * 50_000,
        b"{" * 50_000,
        b'{"log": ' * 5_000 + b"}",
        b"a.b." * 20_000 + b"Error",
        b"Traceback (most recent call last)" * 2_000,
        b"\\\\n" * 20_000 + b"last):\\n  File ",
        b"torch 1.1.1." * 5_000,
        b"\x1b[" * 50_000,
        b"\x08" * 50_000,
        b"ab\x08" * 50_000,
    ],
    ids=lambda line: line[:12].decode("latin-1"),
)
def test_no_line_makes_a_pattern_run_away(line: bytes) -> None:
    """With a pattern that backtracks, one of these lines would take minutes and meet the time limit of the test run."""
    sound(log_of(line + b"\n" + TRACEBACK.encode()))
