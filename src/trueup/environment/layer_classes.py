"""Where the layer classes are defined that an FSDP configuration names: looked up in source files, nothing imported."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from trueup.environment.byte_ranges import head_of
from trueup.environment.host import Host
from trueup.schema.environment import Package, Setting

KEYS = frozenset({"fsdp_transformer_layer_cls_to_wrap", "FSDP_TRANSFORMER_CLS_TO_WRAP"})
CLASS = re.compile(rb"^class (\w+)[(:]", re.MULTILINE)
MOST_FILES = 4000
"""Looked into in one folder: the working folder may hold a data set, and a package may be huge."""
LONGEST_SOURCE = 1 << 21
SKIPPED = frozenset({".git", ".venv", "venv", "node_modules", "site-packages", "__pycache__"})


def layer_classes(
    asked: Iterable[Setting], search_path: Iterable[Path], packages: dict[str, Package], host: Host
) -> dict[str, dict[str, Any]]:
    """Name as it was asked for → `defined_in`, the first file that does, or None; `alike`, names that are near to it.

    Names are parted as accelerate parts them, at commas, blanks kept. Empty where no class is asked for, and where no
    transformers is installed: then nothing tells which classes a model has.
    """
    names = [name for setting in asked if _key(setting) in KEYS for name in setting.value.split(",") if name.strip()]
    folders = list(search_path)
    models = _first(folders, "transformers")
    if not names or models is None:
        return {}
    wanted = {name.strip().encode(): name for name in names}
    found: dict[str, dict[str, Any]] = {name: {"defined_in": None, "alike": []} for name in names}
    others: set[str] = set()
    for path in _sources(models, folders, packages, host, "".join(names).lower()):
        if not wanted:
            break
        text = _source(path)
        for plain in [plain for plain in wanted if plain in text]:
            if re.search(rb"^\s*class " + re.escape(plain) + rb"[(:]", text, re.MULTILINE):
                found[wanted.pop(plain)]["defined_in"] = str(path)
        if models in path.parents:
            others.update(each.decode() for each in CLASS.findall(text) if each.endswith((b"Layer", b"Block")))
    for name in wanted.values():
        found[name]["alike"] = _alike(name.strip(), others)
    return found


def _alike(name: str, others: set[str]) -> list[str]:
    """Equal but for case and underscores first, then what is spelled nearly so."""
    from difflib import get_close_matches

    plain = name.replace("_", "").lower()
    same = sorted(each for each in others if each.replace("_", "").lower() == plain)
    return same or get_close_matches(name, sorted(others), n=3, cutoff=0.8)


def _key(setting: Setting) -> str:
    return setting.name.rpartition(".")[2]


def _sources(models: Path, folders: list[Path], packages: dict[str, Package], host: Host, names: str) -> Iterator[Path]:
    """The likely places first: models of transformers, those of the hub, torch, the job's own, other packages."""
    of_models = (models / "models").glob("*/modeling_*.py")
    yield from sorted(of_models, key=lambda path: (path.parent.name.replace("_", "") not in names, path))
    home = host.expanded(host.variables.get("HF_HOME") or "~/.cache/huggingface")
    yield from _python_files(host.expanded(host.variables.get("HF_MODULES_CACHE") or str(home / "modules")))
    torch = _first(folders, "torch")
    if torch is not None:
        yield torch / "nn" / "modules" / "transformer.py"
    yield from _python_files(host.folder)
    for package in packages.values():
        if any(re.match(r"(?:torch|transformers)\b(?!-)", line) for line in package.requires):
            folder = _first(folders, package.name.replace("-", "_"))
            if folder is not None and folder not in (torch, models):
                yield from _python_files(folder)


def _python_files(folder: Path) -> Iterator[Path]:
    seen = 0
    waiting = [folder]
    while waiting and seen < MOST_FILES:
        try:
            inside = sorted(waiting.pop().iterdir())
        except OSError:
            continue
        for path in inside:
            seen += 1
            if path.suffix == ".py":
                yield path
            elif path.name not in SKIPPED and not path.is_symlink() and path.is_dir():
                waiting.append(path)


def _first(folders: Iterable[Path], name: str) -> Path | None:
    return next((folder / name for folder in folders if (folder / name).is_dir()), None)


def _source(path: Path) -> bytes:
    try:
        return head_of(path, LONGEST_SOURCE)
    except OSError:
        return b""
