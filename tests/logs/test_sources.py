"""Texts of any encoding and packing, and folders as one job."""

import bz2
import gzip
import io
import json
import lzma
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from reading import TRACEBACK, log_of, place, prefixed, root

from trueup.logs import read
from trueup.logs.ranks import rank_of_file


@pytest.mark.parametrize("pack", [bytes, gzip.compress, bz2.compress, lzma.compress])
def test_packed_files_whatever_their_name(pack: Callable[[bytes], bytes], tmp_path: Path) -> None:
    path = tmp_path / "job.old"
    path.write_bytes(pack(TRACEBACK.encode()))
    log = read(path)
    assert place(root(log)) == ("/job/train.py", 10, "main")
    assert (log.size, log.lines, log.sources) == (len(TRACEBACK), 6, (str(path),))


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress, lzma.compress])
def test_what_a_damaged_archive_still_holds_is_read(pack: Callable[[bytes], bytes]) -> None:
    noise = os.urandom(200_000).hex()
    packed = pack((TRACEBACK + noise).encode())
    log = log_of(packed[: len(packed) // 2])
    assert all(failure.type == "ValueError" for failure in log.failures)


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress, lzma.compress])
def test_a_damaged_archive_is_told(pack: Callable[[bytes], bytes], tmp_path: Path) -> None:
    path = tmp_path / "job.log"
    packed = pack(TRACEBACK.encode())
    path.write_bytes(packed[:-5])
    note = "damaged or cut off: what stands behind the damage could not be read"
    assert read(path).notes == (f"{path}: {note}",)
    assert read(tmp_path).notes == (f"job.log: {note}",)
    path.write_bytes(packed)
    assert read(path).notes == ()


def test_what_stands_before_the_damage_is_read() -> None:
    packed = gzip.compress(TRACEBACK.encode() + os.urandom(300_000).hex().encode())
    log = log_of(packed[:-1000])
    assert root(log).type == "ValueError"
    assert len(log.notes) == 1


def test_what_is_no_text_is_told() -> None:
    noise = bytes(range(256)) * 20
    assert log_of(noise).notes == ("-: no text, by the bytes that it begins with",)
    assert log_of(bytes(5000) + TRACEBACK.encode()).notes == ()  # a log whose file was emptied while it was written
    assert log_of(TRACEBACK.replace("empty", "\x1b[31mgrün\x1b[0m\b").encode("latin-1")).notes == ()


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "latin-1"])
def test_encodings(encoding: str) -> None:
    text = TRACEBACK.replace("empty", "zu klein für das Gerät")
    assert root(log_of(text.encode(encoding))).message == "labels of batch 7 are zu klein für das Gerät"


def test_a_broken_byte_costs_one_character() -> None:
    failure = root(log_of(TRACEBACK.replace("empty", "größer").encode().replace(b"batch", b"b\xe9tch")))
    assert failure.message == "labels of b�tch 7 are größer"


@pytest.mark.parametrize("end", ["\r\n", "\n", "\r"])
def test_line_ends(end: str) -> None:
    assert place(root(log_of(TRACEBACK.replace("\n", end)))) == ("/job/train.py", 10, "main")


def test_standard_input(tmp_path: Path) -> None:
    code = "from trueup.logs import read; log = read('-'); print(log.failures[0].type, log.lines)"
    done = subprocess.run([sys.executable, "-c", code], input=gzip.compress(TRACEBACK.encode()), capture_output=True)
    assert done.stdout.decode().split() == ["ValueError", "6"]


def test_a_missing_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"nothing\.log"):
        read(tmp_path / "nothing.log")


def test_a_stream_stays_open() -> None:
    stream = io.BytesIO(TRACEBACK.encode())
    read(stream)
    assert not stream.closed


@pytest.mark.parametrize(
    ("name", "rank"),
    [
        ("attempt_0/3/stderr.log", 3),
        ("run_7/attempt_1/12/error.json", 12),
        ("rank_3.log", 3),
        ("logs/global_rank12.txt", 12),
        ("77_3.out", 3),
        ("slurm-77_12.err", 12),
        ("worker-3.log", 3),
        ("llama-worker-3/pytorch.log", None),
        ("3.log", 3),
        ("stderr.3", 3),
        ("slurm-7712345.out", None),
        ("train.log", None),
        ("train_2026.log", None),
    ],
)
def test_ranks_out_of_file_names(name: str, rank: int | None) -> None:
    assert rank_of_file(name) == rank


def test_a_folder_is_one_job(tmp_path: Path) -> None:
    for rank in range(3):
        (tmp_path / f"77_{rank}.out").write_text("step 1 loss 0.1\n" * rank + (TRACEBACK if rank else ""))
    (tmp_path / "weights.bin").write_bytes(b"\x00" * 100)
    (tmp_path / ".cache.log").write_text(TRACEBACK)
    log = read(tmp_path)
    (failure,) = log.failures
    assert (failure.count, failure.ranks, failure.rank) == (2, (1, 2), 1)
    assert (failure.source, failure.first_line) == ("77_1.out", 2)
    assert log.sources == ("77_0.out", "77_1.out", "77_2.out")


def test_files_of_several_pods_keep_their_lines_apart(tmp_path: Path) -> None:
    lines = TRACEBACK.splitlines(keepends=True)
    (tmp_path / "a.log").write_text("".join(lines[:4]))
    (tmp_path / "b.log").write_text("".join(lines[4:]))
    types = [(failure.source, failure.type) for failure in read(tmp_path).failures]
    assert ("b.log", "ValueError") in types
    assert ("a.log", None) in types


def test_an_empty_text_has_nothing() -> None:
    log = log_of("")
    assert (log.failures, log.lines, log.size) == ((), 0, 0)


def test_ranks_of_lines_that_are_passed_over() -> None:
    steps = "".join(f"[rank{line % 64}]: step {line} loss 0.1\n" for line in range(5000))
    log = log_of(steps + prefixed("[rank70]: "))
    assert log.ranks == (*range(64), 70)


OUT_OF_MEMORY = b"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 GiB.\n"


@pytest.mark.parametrize("size", [3 << 20, (9 << 20) - 100, 9 << 20, (9 << 20) + 100, (10 << 20) - 20, 20_000_000])
def test_the_end_of_a_very_long_line_is_read_and_the_rest_is_told(size: int) -> None:
    log = read(io.BytesIO(b"step 1\n" + b"x" * size + b" " + OUT_OF_MEMORY + b"step 2\n"))
    assert "torch.OutOfMemoryError" in [failure.type for failure in log.failures]
    (note,) = log.notes
    assert "a line of more than 1 MB" in note


def test_progress_bars_are_no_long_line() -> None:
    bars = b"\r".join(b"%d/900000 steps" % step for step in range(200_000)) + b"\n"
    assert len(bars) > 3 << 20
    assert read(io.BytesIO(b"start\n" + bars)).notes == ()


def test_a_long_record_is_read_whole() -> None:
    record = {"log": 'Traceback (most recent call last):\n  File "a.py", line 3, in f\nValueError: ' + "x" * (3 << 20)}
    log = read(io.BytesIO(json.dumps(record).encode() + b"\n"))
    assert [failure.type for failure in log.failures] == ["ValueError"]
