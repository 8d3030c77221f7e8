"""What the `pyproject.toml` of the working folder asks of uv about packages that are built from source."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from trueup.environment.host import Host, text_of
from trueup.environment.packages import normalised
from trueup.schema.environment import Setting

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
FILE = "pyproject.toml"


def project_settings(host: Host, notes: list[str]) -> Iterator[Setting]:
    """`uv.dependencies` and what `[tool.uv]` says of builds; nothing for a project that uv does not manage."""
    path = host.folder / FILE
    text = text_of(path) if path.is_file() else None
    if text is None or not ("[tool.uv" in text or (host.folder / "uv.lock").is_file()):
        return
    try:
        said = _parsed(text)
    except ValueError as error:
        notes.append(f"{path} was not read: {error}")
        return
    uv = _table(_table(said, "tool"), "uv")
    for name, value in (
        ("uv.dependencies", _names(_table(said, "project").get("dependencies"))),
        ("uv.sources", _names(list(_table(uv, "sources")))),
        ("uv.no-build-isolation", str(uv.get("no-build-isolation", "")).lower()),
        ("uv.no-build-isolation-package", _names(uv.get("no-build-isolation-package"))),
        ("uv.extra-build-dependencies", _names(list(_table(uv, "extra-build-dependencies")))),
    ):
        if value:
            yield Setting(name=name, value=value, source=str(path))


def _parsed(text: str) -> dict[str, Any]:
    """Raises ValueError."""
    import msgspec

    try:
        said = msgspec.toml.decode(text)
    except msgspec.DecodeError as error:
        raise ValueError(str(error)) from error
    return said if isinstance(said, dict) else {}


def _table(said: dict[str, Any], key: str) -> dict[str, Any]:
    value = said.get(key)
    return value if isinstance(value, dict) else {}


def _names(requirements: Any) -> str:
    """Normalised names of a list of requirements. Those that name an address are left out: they may be wheels."""
    if not isinstance(requirements, list):
        return ""
    named = [NAME.match(each) for each in requirements if isinstance(each, str) and "@" not in each]
    return ",".join(normalised(each.group()) for each in named if each is not None)
