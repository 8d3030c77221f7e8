"""Which torch the compiled modules of an environment were built against: the folder of its headers, as they name it.

Checks of torch that are expanded from its headers keep the path of the header for their message, so that nearly every
module holds the path of the torch it was compiled with: `/tmp/pip-build-env-x/overlay/lib/python3.11/site-packages`.
"""

from __future__ import annotations

import mmap
import re
from collections.abc import Iterable
from pathlib import Path

from trueup.environment.byte_ranges import opened
from trueup.schema.environment import Extension

INCLUDE = b"/torch/include/"
PATH = re.compile(rb"/[\w./+@~-]*\Z")
LONGEST_PATH = 1024


def torch_headers(extensions: Iterable[Extension], search_path: Iterable[Path]) -> dict[str, str]:
    """Module → the folder of packages whose torch it was compiled with. Only of modules that lack something: the whole
    file is searched. Those that do not tell are left out."""
    folders = list(search_path)
    found = {}
    for extension in extensions:
        path = next((folder / extension.file for folder in folders if (folder / extension.file).is_file()), None)
        if path is not None and extension.missing_symbols:
            folder = _folder_in(path)
            if folder is not None:
                found[extension.file] = folder
    return found


def _folder_in(path: Path) -> str | None:
    try:
        with opened(path) as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            at = content.find(INCLUDE)
            if at < 0:
                return None
            named = PATH.search(content[max(0, at - LONGEST_PATH) : at])
    except (OSError, ValueError):  # gone, or empty
        return None
    return named.group().decode("ascii") if named is not None else None
