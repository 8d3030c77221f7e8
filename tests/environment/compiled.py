"""Small shared objects, compiled here, and folders of packages that hold them."""

from __future__ import annotations

import hashlib
import importlib.util
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

NEW_CHECK = "_ZN3c106detail14torchCheckFailEPKcS2_jRKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE"
OLD_CHECK = "_ZN3c106detail14torchCheckFailEPKcS2_jRKSs"


def compiled(output: Path, source: str, *options: str) -> Path:
    """A shared object of C source. Options stand behind the source, where the linker wants libraries."""
    output.parent.mkdir(parents=True, exist_ok=True)
    file = output.parent / f"{output.name}.c"
    file.write_text(source)
    command = ["gcc", "-shared", "-fPIC", "-o", str(output), str(file), *options]
    subprocess.run(command, check=True, capture_output=True, text=True, timeout=120)
    file.unlink()
    return output


def calling(*names: str, weak: tuple[str, ...] = ()) -> str:
    """Source of a function that calls each of `names` by its symbol."""
    declared = "".join(f"extern void {name}(void);\n" for name in names)
    declared += "".join(f"extern void {name}(void) __attribute__((weak));\n" for name in weak)
    calls = "".join(f"  {name}();\n" for name in names) + "".join(f"  if ({name}) {name}();\n" for name in weak)
    return f"{declared}void entry(void) {{\n{calls}}}\n"


def installed(folder: Path, package: str, version: str = "1.0") -> None:
    """The metadata that an installer leaves for what lies in `folder / package`."""
    files = [path for path in (folder / package).rglob("*") if path.is_file()]
    information = folder / f"{package}-{version}.dist-info"
    information.mkdir(parents=True, exist_ok=True)
    (information / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: {version}\n")
    lines = [
        f"{path.relative_to(folder)},sha256={hashlib.sha256(path.read_bytes()).hexdigest()},{path.stat().st_size}"
        for path in files
    ]
    (information / "RECORD").write_text("\n".join([*lines, f"{information.name}/RECORD,,", ""]))


def installed_torch() -> Path:
    """The folder of the installed torch, which is not imported."""
    found = importlib.util.find_spec("torch")
    if found is None or found.origin is None:
        pytest.skip("no torch is installed")
    return Path(found.origin).parent


def variables(cache: Path, **others: str) -> Mapping[str, str]:
    """Of a host whose caches are under `cache`, with no search path of the user's in them."""
    return {"HOME": str(cache), "XDG_CACHE_HOME": str(cache / "cache"), **others}
