"""Make `src/trueup/environment/data/ladder.json`: which torch releases export which symbols.

    python scripts/symbol_ladder.py

Downloads, with pip, one wheel of torch per release (about 3 GB in all; each is deleted once it is read) and the wheels
of torchvision and torchaudio built for it. Nothing is installed or imported.

- Symbols of the CPU libraries: what the wheels of torch for aarch64 export. Those wheels are the small ones, CPU-only
  up to 2.10; the interfaces are the same on x86_64. Left out is what depends on the build and not on the release:
  inline functions and templates (weak definitions), and what takes or returns a `std::string` (x86_64 wheels before 2.7
  have the old string ABI, aarch64 wheels the new one from 2.6 on), which is judged by itself.
- Symbols of the CUDA libraries: exports of the CUDA builds where a wheel read here is one, and before that what
  torchvision and torchaudio ask for. That shows which release has a symbol, not which lacks it, so only functions are
  listed whose signature changed: the old one ends where the new one is first asked for.

Kept are symbols that an extension can ask for through the public headers, and that some release lacks.
"""

from __future__ import annotations

import datetime
import json
import re
import subprocess
import sys
import tempfile
import zipfile
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from trueup.environment import elf
from trueup.environment.demangling import demangled

OUTPUT = Path(__file__).parents[1] / "src/trueup/environment/data/ladder.json"
WHEELS = {
    # torch: torchvision, torchaudio (which uses the stable ABI from 2.10 on)
    "2.1.2": ("0.16.2", "2.1.2"),
    "2.2.2": ("0.17.2", "2.2.2"),
    "2.3.1": ("0.18.1", "2.3.1"),
    "2.4.1": ("0.19.1", "2.4.1"),
    "2.5.1": ("0.20.1", "2.5.1"),
    "2.6.0": ("0.21.0", "2.6.0"),
    "2.7.1": ("0.22.1", "2.7.1"),
    "2.8.0": ("0.23.0", "2.8.0"),
    "2.9.1": ("0.24.1", "2.9.1"),
    "2.10.0": ("0.25.0", None),
    "2.11.0": ("0.26.0", None),
    "2.12.0": ("0.27.0", None),
    "2.13.0": ("0.28.0", None),
    "2.14.0": ("0.29.0", None),
}
RELEASES = [version.rpartition(".")[0] for version in WHEELS]
LIBRARIES = ("libc10.so", "libtorch_cpu.so", "libtorch_python.so", "libtorch.so")
CUDA_LIBRARIES = ("libc10_cuda.so", "libtorch_cuda.so")
MANYLINUX = ("manylinux1", "manylinux2014", "manylinux_2_17", "manylinux_2_28")

PUBLIC = re.compile(
    rb"_ZN[KRO]*(?:3c10|2at(?:4_ops.*4callE|6Tensor|10TensorBase|7Context|8internal|14TensorIterator|"
    rb"18TensorIteratorBase|20TensorIteratorConfig)|5torch(?:7Library|11CppFunction|5utils|4impl|"
    rb"8autograd(?!9generated|12VariableType|9TraceType)))"
)
SHIM = re.compile(rb"(?:aoti_)?torch_(?!cpu_|cuda_)")
"""Shims of the stable ABI; `aoti_torch_cpu_add` and its like are called by compiled models, not by extensions."""
STRING = re.compile(rb"Ss|__cxx11")
TAG = b"B5cxx11"
"""In the name of a function that returns a `std::string` of the new ABI; with the old one the name lacks it."""
CUDA = re.compile(rb"_ZN[KRO]*(?:3c104cuda|2at4cuda)")


def main() -> None:
    wheels: list[str] = []
    exported: dict[bytes, set[str]] = defaultdict(set)
    weak: set[bytes] = set()
    cuda_known: dict[bytes, set[str]] = defaultdict(set)
    for release, version in zip(RELEASES, WHEELS, strict=True):
        with downloaded(f"torch=={version}", "aarch64") as wheel:
            wheels.append(wheel.name)
            for library, known in ((LIBRARIES, exported), (CUDA_LIBRARIES, cuda_known)):
                for name, strong in exports(wheel, library):
                    known[name].add(release)
                    weak.update(() if strong else (name,))
        print(wheels[-1], len(exported), flush=True)
    for release, versions in zip(RELEASES, WHEELS.values(), strict=True):
        for project, version in zip(("torchvision", "torchaudio"), versions, strict=True):
            if version is None:
                continue
            with downloaded(f"{project}=={version}", "x86_64") as wheel:
                wheels.append(wheel.name)
                for name in filter(CUDA.match, asked_for(wheel)):
                    cuda_known[name].add(release)
    untagged = {name.replace(TAG, b"") for name in exported if TAG in name}
    spans: dict[str, list[str]] = defaultdict(list)
    for name, releases in (exported | cuda_spans(cuda_known)).items():
        public = SHIM.match(name) or PUBLIC.match(name) or CUDA.match(name)
        varies = name in weak or name in untagged or STRING.search(name)
        if public and not varies and len(releases) < len(RELEASES):
            spans[span(releases)].append(name.decode())
    table = {
        "made": datetime.date.today().isoformat(),
        "by": "scripts/symbol_ladder.py",
        "releases": RELEASES,
        "wheels": wheels,
        "spans": {key: sorted(spans[key]) for key in sorted(spans, key=order)},
    }
    OUTPUT.parent.mkdir(exist_ok=True)
    OUTPUT.write_text(json.dumps(table, indent=0) + "\n")
    print(f"{OUTPUT}: {sum(map(len, spans.values()))} symbols, {OUTPUT.stat().st_size} bytes")


class downloaded:
    """The wheel of a requirement, in a folder that is deleted at the end."""

    def __init__(self, requirement: str, machine: str) -> None:
        self.folder = tempfile.TemporaryDirectory()
        platforms = [part for name in MANYLINUX for part in ("--platform", f"{name}_{machine}")]
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-cache-dir", "--no-deps"]
        command += ["--only-binary", ":all:", "--python-version", "310", *platforms, "--dest", self.folder.name]
        subprocess.run([*command, requirement], check=True)

    def __enter__(self) -> Path:
        return next(Path(self.folder.name).glob("*.whl"))

    def __exit__(self, *_: object) -> None:
        self.folder.cleanup()


def shared_objects(wheel: Path) -> Iterator[tuple[str, elf.Elf]]:
    with zipfile.ZipFile(wheel) as archive, tempfile.TemporaryDirectory() as folder:
        for name in archive.namelist():
            if ".so" in name.rpartition("/")[2]:
                yield name, elf.read(Path(archive.extract(name, folder)))


def exports(wheel: Path, libraries: tuple[str, ...]) -> Iterator[tuple[bytes, bool]]:
    """What the wheel's libraries export, and whether by a strong definition."""
    for name, library in shared_objects(wheel):
        if name.rpartition("/")[2] in libraries:
            strong = library.exports(weak=False)
            yield from ((symbol, symbol in strong) for symbol in library.exports())


def asked_for(wheel: Path) -> Iterator[bytes]:
    for _, library in shared_objects(wheel):
        yield from library.undefined()


def cuda_spans(known: dict[bytes, set[str]]) -> dict[bytes, set[str]]:
    """Releases of each CUDA function whose signature changed, from the first sight of one to that of the next."""
    functions: dict[str, list[bytes]] = defaultdict(list)
    for name in known:
        functions[demangled(name.decode()).partition("(")[0]].append(name)
    spans = {}
    for names in functions.values():
        firsts = {name: min(RELEASES.index(release) for release in known[name]) for name in names}
        for name in names:
            later = [first for first in firsts.values() if first > firsts[name]]
            last = max(RELEASES.index(release) for release in known[name])
            replaced = bool(later) and min(later) > last
            replaces = any(first < firsts[name] for first in firsts.values())
            if replaced or replaces:
                spans[name] = set(RELEASES[firsts[name] : min(later) if later else len(RELEASES)])
    return spans


def span(releases: set[str]) -> str:
    """`2.1-2.6`, `2.10`, or several such, comma-separated."""
    runs: list[list[int]] = []
    for index in sorted(RELEASES.index(release) for release in releases):
        if runs and index == runs[-1][1] + 1:
            runs[-1][1] = index
        else:
            runs.append([index, index])
    return ",".join(RELEASES[a] if a == b else f"{RELEASES[a]}-{RELEASES[b]}" for a, b in runs)


def order(key: str) -> list[int]:
    return [RELEASES.index(part) for part in re.split("[-,]", key)]


if __name__ == "__main__":
    main()
