"""Import lines in the order in which isort puts them."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence


def in_sections(lines: Iterable[str]) -> list[str]:
    """The standard library first, `import` before `from`, names of one module in one line."""
    known = dict.fromkeys(lines)
    future = [line for line in known if _module(line) == "__future__"]
    standard = [line for line in known if _module(line) in sys.stdlib_module_names and line not in future]
    others = [line for line in known if line not in standard and line not in future]
    sections = [_in_order(section) for section in (future, standard, others) if section]
    return [line for section in sections for line in ("", *section)][1:]


def _module(line: str) -> str:
    return line.split()[1].split(".")[0]


def _in_order(lines: Sequence[str]) -> list[str]:
    return sorted(_joined(lines), key=lambda line: (line.startswith("from"), line.split()[1].lower(), line))


def _joined(lines: Sequence[str]) -> list[str]:
    """`from a import b` and `from a import c` in one line."""
    names: dict[str, set[str]] = {}
    plain: list[str] = []
    for line in lines:
        module, found, imported = line.removeprefix("from ").partition(" import ")
        if line.startswith("from ") and found and " as " not in imported:
            names.setdefault(module, set()).update(imported.split(", "))
        else:
            plain.append(line)
    joined = {module: ", ".join(sorted(found, key=_of_name)) for module, found in names.items()}
    return [*plain, *(f"from {module} import {found}" for module, found in joined.items())]


def _of_name(name: str) -> tuple[int, str]:
    """Constants, then classes, then the rest."""
    return (0 if name.isupper() and len(name) > 1 else 1 if name[:1].isupper() else 2), name
