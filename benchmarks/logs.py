"""How fast a large log of many ranks is read, and in how much memory: `python -m benchmarks.logs [MEGABYTES]`."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

MEGABYTES, QUICK_MEGABYTES = 1024, 128
RANKS = 256

_READER = """
import json, resource, sys, time
from trueup.logs import read
start = time.perf_counter()
log = read(sys.argv[1])
seconds, busy = time.perf_counter() - start, time.process_time()
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
first = log.failures[0]
print(json.dumps({"seconds": seconds, "busy": busy, "peak": peak, "size": log.size, "lines": log.lines,
                  "root": first.type, "rank": first.rank, "failures": len(log.failures), "ranks": len(log.ranks)}))
"""

_FRAMES = [
    ("/job/train.py", 214, "main", "trainer.fit(model, loader)"),
    (
        "/opt/venv/lib/python3.11/site-packages/torch/nn/modules/module.py",
        1775,
        "_call_impl",
        "return forward_call(*args)",
    ),
    ("/job/model.py", 88, "forward", "x = self.attention(x, mask=mask)"),
]


def write_log(path: Path, megabytes: int, ranks: int = RANKS) -> None:
    """A deterministic log: metrics, progress bars and debug lines of all ranks interleaved, then one rank that fails,
    and the others that lose their connection to it."""
    size = megabytes * 1_000_000
    written = 0
    with path.open("wb") as file:
        for chunk in _steps(ranks):
            file.write(chunk)
            written += len(chunk)
            if written >= size:
                break
        file.write(_tracebacks(ranks).encode())


def _steps(ranks: int) -> Iterator[bytes]:
    """Blocks of steps. Drawing numbers costs more than writing them: a block is drawn once, its step renumbered."""
    draw = random.Random(7)
    kinds = (
        "2026-01-05 10:{m:02d}:{s:02d},{ms:03d} INFO trainer: step STEP loss {a:.4f} grad_norm "
        "{b:.3f} lr {c:.3e} tokens/s {n}",
        "{{'loss': {a:.4f}, 'grad_norm': {b:.4f}, 'learning_rate': {c}, 'epoch': {a:.2f}}}",
        " {p:3d}%|{bar:<10}| STEP/200000 [10:{s:02d}<99:00,  3.21it/s]",
        "2026-01-05 10:{m:02d}:{s:02d},{ms:03d} DEBUG loader: fetched shard-{n:08x} from "
        "s3://bucket/part-{n}.parquet in {a:.3f}s",
        "memory allocated {b:.2f} GiB reserved {b:.2f} GiB",
        "node{r:03d}:{n}:{n} [{l}] NCCL INFO Channel 00/0 : {r}[{l}] -> {r}[{l}] via P2P/IPC",
    )
    block: list[str] = []
    for line in range(20_000):
        rank = draw.randrange(ranks)
        values = {
            "r": rank, "l": rank % 8, "a": draw.random() * 4, "b": draw.random() * 80, "c": draw.random() * 1e-4,
            "n": draw.randrange(1 << 20), "m": line // 400 % 60, "s": line % 60, "ms": line % 1000, "p": line % 100,
            "bar": "█" * (line % 10),
        }  # fmt: skip
        block.append(f"[rank{rank}]: " + kinds[line % len(kinds)].format(**values))
    text = "\n".join(block).encode() + b"\n"
    for step in range(1, 1 << 30):
        yield text.replace(b"STEP", str(step).encode())


def _tracebacks(ranks: int) -> str:
    failing = ranks // 2
    lines: list[list[str]] = []
    for rank in (failing, *(rank for rank in range(ranks) if rank != failing)):
        error = (
            "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total "
            "capacity of 79.15 GiB"
            if rank == failing
            else "torch.distributed.DistBackendError: NCCL error: remote process exited or there was a network error"
        )
        frames = [f'  File "{f}", line {n}, in {name}\n    {code}' for f, n, name, code in _FRAMES]
        text = "\n".join(["Traceback (most recent call last):", *frames, error])
        lines.append([f"[rank{rank}]: {line}" for line in text.splitlines()])
    first, *others = lines
    interleaved = [line for group in zip(*others, strict=True) for line in group]
    return "\n".join((*first, *interleaved)) + "\n"


def measure(*, quick: bool = False, megabytes: int | None = None) -> list[str]:
    """MB/s and peak memory of a process that reads the log, and what it found."""
    megabytes = megabytes or (QUICK_MEGABYTES if quick else MEGABYTES)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "job.log"
        write_log(path, megabytes)
        results = []
        for _ in range(1 if quick else 3):
            done = subprocess.run(
                [sys.executable, "-c", _READER, str(path)], capture_output=True, text=True, check=True, timeout=600
            )
            results.append(json.loads(done.stdout))
    best = min(results, key=lambda result: result["seconds"])
    speeds = ", ".join(f"{result['size'] / result['seconds'] / 1e6:.0f}" for result in results)
    busy = min(result["busy"] for result in results)
    return [
        f"{best['size'] / 1e6:.0f} MB, {best['lines']} lines, {best['ranks']} ranks: {speeds} MB/s by the clock, "
        f"{best['size'] / busy / 1e6:.0f} MB per second of processor, start of Python included",
        f"peak memory {max(result['peak'] for result in results) / 1e6:.0f} MB",
        f"root: {best['root']} of rank {best['rank']}; {best['failures']} failures",
    ]


if __name__ == "__main__":
    for text in measure(megabytes=int(sys.argv[1]) if len(sys.argv) > 1 else None):
        print(text)
