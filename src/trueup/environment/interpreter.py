"""Version and ABI of an environment's Python, and where it keeps its packages, without running it."""

from __future__ import annotations

import os
import re
from pathlib import Path

import msgspec

from trueup.environment.host import Host, names_in, text_of
from trueup.environment.target import CONFIGURATION, Target, configuration, library_folders

LIBRARY = re.compile(r"(?P<kind>python|pypy)(?P<version>3\.\d+)(?P<flags>t?d?)")
PATCH_LEVEL = re.compile(r'#define\s+PY_VERSION\s+"([^"]+)"')
SOABI = re.compile(r"""['"]SOABI['"]\s*:\s*['"]([^'"]+)['"]""")
VERSION = re.compile(r"3\.\d+(?:\.\d+)?(?:(?:a|b|rc)\d+)?")


class Interpreter(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a Python without starting it."""

    version: str | None = None
    """`3.11.7`, or `3.11` when no file tells the rest."""
    tag: str | None = None
    """As in the names of wheels: `cp311`, `cp313t` without the global lock, `pp310`."""
    soabi: str | None = None
    """As in the names of compiled modules: `cpython-311-x86_64-linux-gnu`."""
    base: Path | None = None
    """Prefix of the installation that holds the standard library; the same as the environment's when not virtual."""
    library: Path | None = None
    """Its folder of the standard library."""
    folder: str | None = None
    """Name of that folder, `python3.11`, which also names the folders of packages."""


def interpreter_of(target: Target) -> Interpreter:
    """The Python of an environment; unknown parts stay None."""
    own = _library(target.prefix, target)
    base = base_of(target)
    library = _library(base, target, named=own.name if own else None) or own
    if library is None:
        return Interpreter(version=_version_written(target), base=base)
    name = LIBRARY.fullmatch(library.name)
    assert name is not None, "library_folders() names folders of this pattern only"
    soabi = _soabi(library)
    tag = ("pp" if name["kind"] == "pypy" else "cp") + name["version"].replace(".", "")
    free_threaded = "t" in name["flags"] or (soabi or "").startswith(f"cpython-{name['version'].replace('.', '')}t")
    return Interpreter(
        version=_full_version(name["version"], target, base, library),
        tag=f"{tag}t" if free_threaded else tag,
        soabi=soabi,
        base=base,
        library=library,
        folder=library.name,
    )


def base_of(target: Target) -> Path:
    """The prefix of the installation behind a virtual environment, through environments made from environments."""
    prefix, said = target.prefix, target.configuration
    for _ in range(8):
        written, home = said.get("base-prefix"), said.get("home")
        if not written and not home:
            return prefix
        prefix = Path(written) if written else Path(home or "").parent
        said = configuration(prefix / CONFIGURATION)
    return prefix


def _library(prefix: Path, target: Target, named: str | None = None) -> Path | None:
    """The folder of the standard library under `prefix`, that of the right version where there are several."""
    folders = [folder for folder in library_folders(prefix) if LIBRARY.fullmatch(folder.name)]
    wanted = named or _name_from_executable(target)
    for folder in folders:
        if wanted is not None and folder.name == wanted:
            return folder
    if wanted is not None and named is None:
        folders = [folder for folder in folders if folder.name.startswith(wanted)] or folders
    written = _version_written(target)
    for folder in folders:
        name = LIBRARY.fullmatch(folder.name)
        if written and name and re.match(rf"{re.escape(name['version'])}(?!\d)", written):
            return folder
    return folders[-1] if folders else None


def _name_from_executable(target: Target) -> str | None:
    """`python3.11` from the interpreter's own name or the one that its links end at."""
    if target.executable is None:
        return None
    for name in (target.executable.name, os.path.basename(os.path.realpath(target.executable))):
        if LIBRARY.fullmatch(name):
            return name
    return None


def _version_written(target: Target) -> str | None:
    """The version in `pyvenv.cfg`; virtualenv writes `3.11.7.final.0`."""
    for key in ("version_info", "version"):
        found = VERSION.match(target.configuration.get(key, ""))
        if found:
            return found.group()
    return None


def _full_version(minor: str, target: Target, base: Path, library: Path) -> str:
    """The version with its patch number, from the first file that knows it."""
    candidates: list[str | None] = [
        _version_written(target),
        _header_version(base, library.name),
        *(name.split("-")[1] for name in names_in(base / "conda-meta") if re.match(r"python-3\.\d", name)),
        *VERSION.findall(str(base)),  # …/cpython-3.12.8-linux-x86_64-gnu, ~/.pyenv/versions/3.11.7
    ]
    for version in candidates:
        if version and re.match(rf"{re.escape(minor)}\.\d", version):
            return version
    return minor


def _header_version(base: Path, folder: str) -> str | None:
    for place in (base / "include" / folder, base / "include" / f"{folder}m"):
        found = PATCH_LEVEL.search(text_of(place / "patchlevel.h") or "")
        if found:
            return found.group(1).rstrip("+")
    return None


def _soabi(library: Path) -> str | None:
    """From the build settings that every CPython keeps as a file, `_sysconfigdata_*.py`; read, not run."""
    for name in names_in(library):
        if name.startswith("_sysconfigdata") and name.endswith(".py"):
            found = SOABI.search(text_of(library / name) or "")
            if found:
                return found[1]
    return None


def package_folders(target: Target, interpreter: Interpreter, host: Host) -> tuple[Path, ...]:
    """The folders that Python would search for packages, in the order of `sys.path`, those that exist only.

    PYTHONPATH, the environment's own, with `--system-site-packages` those of the installation behind it, the user's
    own, and what `.pth` files add. A line of a `.pth` file that is code is not run.
    """
    folder = interpreter.folder or "python3"
    given = [host.expanded(entry) for entry in host.variables.get("PYTHONPATH", "").split(os.pathsep) if entry]
    shares_system = target.configuration.get("include-system-site-packages", "").lower() == "true"
    sites = _sites(target.prefix, folder)
    if (shares_system or not target.is_virtual) and not host.variables.get("PYTHONNOUSERSITE"):
        user = host.variables.get("PYTHONUSERBASE")
        sites = [(Path(user) if user else host.home / ".local") / "lib" / folder / "site-packages", *sites]
    if shares_system and interpreter.base is not None:
        sites += _sites(interpreter.base, folder)
    found = _distinct([*given, *sites])
    return _distinct([*found, *(added for site in found if site not in given for added in _added_by_pth(site))])


def _sites(prefix: Path, folder: str) -> list[Path]:
    sites = [prefix / library / folder / "site-packages" for library in ("lib", "lib64")]
    if prefix == Path("/usr"):  # Debian keeps what its package manager and what pip installs apart
        local = Path("/usr/local")
        debian = [local / "lib" / folder / "dist-packages", prefix / "lib" / "python3" / "dist-packages"]
        sites = [local / library / folder / "site-packages" for library in ("lib", "lib64")] + debian + sites
    return sites


def _added_by_pth(site: Path) -> list[Path]:
    added = []
    for name in names_in(site):
        if not name.endswith(".pth") or name.startswith("."):
            continue
        for line in (text_of(site / name) or "").splitlines():
            line = line.strip()
            if line and not line.startswith(("#", "import ", "import\t")):
                added.append(site / line)
    return added


def _distinct(folders: list[Path]) -> tuple[Path, ...]:
    """Those that exist, each once: `lib64` is mostly a link to `lib`."""
    seen: dict[str, Path] = {}
    for folder in folders:
        try:
            if folder.is_dir():
                seen.setdefault(os.path.realpath(folder), folder)
        except (OSError, ValueError):  # a line of a .pth file can be anything
            continue
    return tuple(seen.values())
