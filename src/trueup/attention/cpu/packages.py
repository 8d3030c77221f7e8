"""A folder for sys.path or PYTHONPATH in which flash-attn's own Python layer runs on CPU."""

from __future__ import annotations

import os
import shutil
import tarfile
import tempfile
from pathlib import Path

from trueup.attention.cpu.building import built_extension

OPERATORS = Path(__file__).with_name("flash_attn_operators_on_cpu.py")


def flash_attn_on_cpu(source: Path, folder: Path, cache: Path | None = None) -> Path:
    """Makes `folder` hold flash_attn as its source distribution has it, and an importable `flash_attn_2_cuda`.

    `source` is the source distribution of flash-attn 2.5 to 2.8 (a .tar.gz, or the folder it unpacks to); `cache` keeps
    the built extension, see `building.built_extension`. The folder alone is enough: put first on PYTHONPATH, it serves
    every process of a job. Raises CannotBuild without a compiler, ValueError for what is no such source.
    """
    if source.is_file():
        with tempfile.TemporaryDirectory() as work:
            return flash_attn_on_cpu(_unpacked(source, Path(work)), folder, cache)
    package = source / "flash_attn"
    if not (package / "flash_attn_interface.py").exists():
        raise ValueError(f"{source} is no source distribution of flash-attn 2: it has no flash_attn_interface.py")
    extension = built_extension(cache)
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copytree(package, folder / "flash_attn", dirs_exist_ok=True)
    for file in (extension, OPERATORS):
        beside = folder / f".{file.name}.{os.getpid()}"
        shutil.copy2(file, beside)
        beside.replace(folder / file.name)  # never written over while a process has it loaded
    _describe(source, folder, extension.name)
    return folder


def _unpacked(archive: Path, work: Path) -> Path:
    """The Python layer of a source distribution, without the thousands of files of its kernels."""
    with tarfile.open(archive) as files:
        for member in files:
            below = member.name.split("/")[1:]
            if member.isfile() and below and (below[0] == "flash_attn" or below == ["PKG-INFO"]):
                target = work / "/".join(below)
                if ".." in below:
                    raise ValueError(f"{archive} has a path that leaves it: {member.name}")
                target.parent.mkdir(parents=True, exist_ok=True)
                content = files.extractfile(member)
                assert content is not None  # a regular file has content
                target.write_bytes(content.read())
    return work


def _describe(source: Path, folder: Path, extension: str) -> None:
    """Package metadata as an installed wheel has it: transformers and others read the version from there."""
    version = _version(source)
    described = folder / f"flash_attn-{version}.dist-info"
    described.mkdir(exist_ok=True)
    information = source / "PKG-INFO"
    metadata = f"Metadata-Version: 2.1\nName: flash_attn\nVersion: {version}\n"
    if information.exists():
        metadata = information.read_text(encoding="utf-8")
    (described / "METADATA").write_text(metadata, encoding="utf-8")
    (described / "INSTALLER").write_text("trueup\n", encoding="utf-8")
    (described / "top_level.txt").write_text("flash_attn\nflash_attn_2_cuda\n", encoding="utf-8")
    names = [path.relative_to(folder) for path in sorted((folder / "flash_attn").rglob("*.py"))]
    record = [*map(str, names), extension, OPERATORS.name, *(f"{described.name}/{f.name}" for f in described.iterdir())]
    (described / "RECORD").write_text("".join(f"{name},,\n" for name in record), encoding="utf-8")


def _version(source: Path) -> str:
    for line in (source / "flash_attn/__init__.py").read_text(encoding="utf-8").splitlines():
        if line.startswith("__version__"):
            return line.split("=")[1].strip().strip("\"'")
    raise ValueError(f"{source} is no source distribution of flash-attn 2: it names no __version__")
