"""Reading symbols and judging extensions (budget of `doctor`: 0.6 s cold, 0.25 s warm, at least 10 x faster than
`python -m torch.utils.collect_env`).

Each run of the commands is a fresh process. Cold: trueup's own cache is empty; the page cache of the system is left as
it is. CPU time stands beside wall time, since the machine may be shared.
"""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks.pairs import ratio
from trueup.environment import elf
from trueup.environment.gnu_hash import gnu_hash
from trueup.environment.torch_build import torch_folder

TRUEUP = str(Path(sys.executable).with_name("trueup"))
Times = tuple[float, float]
"""Wall and CPU seconds."""


def measure(quick: bool = False) -> Iterator[str]:
    yield from tables(3 if quick else 15)
    with tempfile.TemporaryDirectory() as folder:
        cache = Path(folder)
        environment = {**os.environ, "XDG_CACHE_HOME": str(cache)}

        def doctor(cold: bool) -> Times:
            if cold:
                shutil.rmtree(cache / "trueup", ignore_errors=True)
            return command([TRUEUP, "doctor"], environment)

        def collect_env() -> Times:
            return command([sys.executable, "-m", "torch.utils.collect_env"], environment)

        rows = [(doctor(True), doctor(False), collect_env()) for _ in range(2 if quick else 9)]
    for number, name in enumerate(("cold", "warm")):
        best = [min(row[number][clock] for row in rows) for clock in (0, 1)]
        parts = []
        for clock, unit in enumerate(("wall", "CPU")):
            middle, low, high = ratio([(row[2][clock], row[number][clock]) for row in rows])
            factor = f"collect_env takes {middle:.1f} x as long (95 % {low:.1f} to {high:.1f})"
            parts.append(f"{unit} {best[clock]:.3f} s at best, {factor}")
        yield f"doctor {name}: {'; '.join(parts)}"


def tables(repetitions: int) -> Iterator[str]:
    """The symbol table of the largest library of torch."""
    folder = torch_folder(map(Path, sys.path))
    if folder is None:
        yield "no torch is installed"
        return
    path = folder / "lib" / "libtorch_cpu.so"
    seconds, symbols = fastest(lambda: elf.read(path).exports(), repetitions)
    yield f"libtorch_cpu: all {len(symbols)} symbols in {1e3 * seconds:.0f} ms"
    some = sorted(symbols)[:: max(len(symbols) // 300, 1)]
    seconds, _ = fastest(lambda: lookups(path, some), repetitions)
    yield f"libtorch_cpu: opened and {len(some)} symbols looked up in {1e3 * seconds:.1f} ms"


def lookups(path: Path, names: list[bytes]) -> bool:
    file = elf.read(path)
    return all(file.defines(name, gnu_hash(name)) for name in names)


def fastest(call: Callable[[], set[bytes] | bool], repetitions: int) -> tuple[float, set[bytes]]:
    times = []
    for _ in range(repetitions):
        began = time.perf_counter()
        result = call()
        times.append(time.perf_counter() - began)
    return min(times), result if isinstance(result, set) else set()


def command(arguments: list[str], environment: dict[str, str]) -> Times:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    began = time.perf_counter()
    subprocess.run(arguments, env=environment, capture_output=True, check=False)
    wall = time.perf_counter() - began
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
