"""Names of the tensors in weight files of the working folder, from the headers of the files; no tensor is read."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from trueup.environment.byte_ranges import head_of
from trueup.environment.host import Host, names_in

LONGEST_HEADER = 1 << 24
"""Safetensors allows 100 MB; that of a model of a thousand blocks is 2 MB."""
MOST_FILES = 40
NAME = re.compile(rb'"((?:[\w-]+\.)*[\w-]+)"\s*:\s*\{\s*"(?:dtype|shape|data_offsets)"')
COMPILED = b"_orig_mod."


def weights(host: Host) -> dict[str, dict[str, Any]]:
    """File → `tensors`, how many it holds, and `of_compiled_module`, the first name with the prefix of one, or None.

    https://github.com/huggingface/safetensors#format: eight bytes with the length of the header, then JSON. What is
    no such file is left out: a file that is not understood proves nothing.
    """
    found = {}
    for path in _files(host.folder):
        header = _header(path)
        names = NAME.findall(header) if header else []
        if names:
            prefixed = next((name.decode() for name in names if COMPILED in name), None)
            found[str(path)] = {"tensors": len(names), "of_compiled_module": prefixed}
    return found


def _files(folder: Path) -> Iterator[Path]:
    """In the folder and in the folders of checkpoints in it."""
    names = names_in(folder)
    inside = [name for name in names if name.startswith(("checkpoint", "output", "model", "step", "epoch"))]
    paths = [folder / name for name in names if name.endswith(".safetensors")]
    for name in inside[:MOST_FILES]:
        paths += [folder / name / each for each in names_in(folder / name) if each.endswith(".safetensors")]
    yield from paths[:MOST_FILES]


def _header(path: Path) -> bytes | None:
    try:
        length = int.from_bytes(head_of(path, 8), "little")
        return head_of(path, 8 + length)[8:] if 2 <= length <= LONGEST_HEADER else None
    except OSError:
        return None
