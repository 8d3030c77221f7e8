"""What the result of a run depends on, as one short text: the job's files, packages, variables, and the machine.

Files are read, nothing is imported. Not seen: edits by hand within installed packages, data outside of the working
folder, and what a job takes from the network.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import trueup
from trueup.environment.host import Host
from trueup.environment.interpreter import interpreter_of, package_folders
from trueup.environment.packages import installed
from trueup.environment.target import Target, TargetError, of_python
from trueup.runs.probe import ENTRIES, SKIPPED

CONTENT = 256 << 10
"""Bytes up to which a file counts by its content; a larger one by its size and time of change."""
CODE = (".py", ".pyi", ".so", ".yaml", ".yml", ".json", ".toml", ".cfg")
"""Kinds of files that count in folders that hold the code of others."""
OWN = Path(trueup.__file__).resolve().parent
BESIDE_RUNS = frozenset({"cli", "edits", "procedures", "reports"})
"""Folders of trueup in which nothing changes what a run does and what its record says."""
SITES = frozenset({"site-packages", "dist-packages"})
PASSING = frozenset((
    "_", "PWD", "OLDPWD", "SHLVL", "TERM", "TERM_PROGRAM", "COLORTERM", "COLUMNS", "LINES", "WINDOWID", "DISPLAY",
    "WAYLAND_DISPLAY", "INVOCATION_ID", "JOURNAL_STREAM", "STY", "TMUX", "TMUX_PANE", "PS1", "PROMPT_COMMAND",
    "HOSTNAME", "GPG_TTY", "LS_COLORS", "PYTEST_CURRENT_TEST",
))  # fmt: skip
"""Variables that differ from one shell to the next and change no training."""
WRITTEN = (".log", ".out", ".err")
"""Kinds of files that are written while jobs run, and that no job reads."""
PASSING_PREFIXES = ("SSH_", "XDG_SESSION", "DBUS_", "VTE_", "VSCODE_", "KONSOLE_", "ITERM_", "TRUEUP_")


class Fingerprint:
    """Taken of a working folder again and again; contents of unchanged files are read once.

    `ignored` are files that no run depends on, as results are; so are those that this process prints into.
    """

    def __init__(
        self, command: Sequence[str], folder: Path, variables: Mapping[str, str], ignored: Iterable[Path] = ()
    ) -> None:
        self._command = command
        self._folder = folder
        self._variables = variables
        self._ignored = {os.path.abspath(folder / path) for path in ignored}
        self._contents: dict[tuple[str, int, int], str] = {}

    def take(self) -> str:
        """A digest that is another one after any change of what a run depends on."""
        host = Host(variables=self._variables, folder=self._folder)
        facts = {
            "trueup": [trueup.__version__, *self._stated(OWN, SKIPPED | BESIDE_RUNS)],
            "machine": machine(host),
            "variables": sorted(relevant(self._variables)),
            "environments": [self._environment(target, host) for target in self._targets(host)],
            "files": list(self._files()),
            "named": list(self._named()),
        }
        return digest(facts)

    def _files(self) -> Iterator[tuple[str, str]]:
        """Of the working folder, as a probe copies it."""
        printed = [state for number in (1, 2) if (state := _state(number)) is not None]
        for path in _walk(self._folder, SKIPPED):
            state = _state(path)
            if path in self._ignored or path.endswith(WRITTEN):
                continue
            if state is not None and any(os.path.samestat(state, other) for other in printed):
                continue
            yield os.path.relpath(path, self._folder), self._counted(path)

    def _named(self) -> Iterator[tuple[str, str]]:
        """Files outside of the working folder that the command names, with the modules beside them."""
        for word in self._command:
            path = self._folder / word
            if not path.is_file() or self._folder in path.resolve().parents:
                continue
            yield word, self._counted(str(path))
            if path.suffix == ".py":
                yield from ((module.name, self._counted(str(module))) for module in sorted(path.parent.glob("*.py")))

    def _environment(self, target: Target, host: Host) -> list[object]:
        """Version of the Python, its packages, and the code that lies outside of the folders of packages."""
        interpreter = interpreter_of(target)
        folders = package_folders(target, interpreter, host)
        packages, _ = installed(folders)
        known = {self._folder, OWN.parent}
        code = [folder for folder in folders if folder.name not in SITES and folder.resolve() not in known]
        return [
            interpreter.version,
            interpreter.soabi,
            [(package.name, package.version, package.origin) for package in packages.values()],
            [self._stated(folder) for folder in code],
        ]

    def _targets(self, host: Host) -> Iterator[Target]:
        """The environments whose programs the command starts: of its first word, and of `python` on PATH."""
        path = self._variables.get("PATH")
        first = shutil.which(self._command[0], path=path) if self._command else None
        near = [str(Path(first).parent / name) for name in ("python", "python3")] if first else []
        seen = set()
        for python in (first, *near, shutil.which("python", path=path), shutil.which("python3", path=path)):
            try:
                target = of_python(host, python or "", "") if python and os.path.exists(python) else None
            except TargetError:
                continue
            if target is not None and target.prefix not in seen:
                seen.add(target.prefix)
                yield target

    def _stated(self, folder: Path, skipped: frozenset[str] = SKIPPED) -> list[tuple[str, int, int]]:
        """The code in a folder by sizes and times of change."""
        found = []
        for path in _walk(folder, skipped):
            if path.endswith(CODE) and (state := _state(path)) is not None:
                found.append((os.path.relpath(path, folder), state.st_size, state.st_mtime_ns))
        return found

    def _counted(self, path: str) -> str:
        state = _state(path)
        if state is None:
            return "gone"
        if state.st_size > CONTENT:
            return f"{state.st_size} {state.st_mtime_ns}"
        known = (path, state.st_size, state.st_mtime_ns)
        if known not in self._contents:
            try:
                self._contents[known] = hashlib.sha256(Path(path).read_bytes()).hexdigest()
            except OSError as error:
                return f"unreadable: {error.strerror}"
        return self._contents[known]


def digest(value: object) -> str:
    """A short text that is another one for another value of JSON's kinds."""
    return hashlib.sha256(json.dumps(value, sort_keys=True, default=str).encode()).hexdigest()[:32]


def relevant(variables: Mapping[str, str]) -> Iterable[tuple[str, str]]:
    """The variables that may change a run."""
    return (
        (name, value)
        for name, value in variables.items()
        if name not in PASSING and not name.startswith(PASSING_PREFIXES)
    )


def machine(host: Host) -> list[object]:
    """Processor, cores and GPUs; not the name, which a container changes at each start."""
    lines = (host.text("/proc/cpuinfo") or "").splitlines()
    models = {line.partition(":")[2].strip() for line in lines if line.startswith("model name")}
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    driver = host.text("/proc/driver/nvidia/version")
    gpus = [(path / "information").read_text() for path in sorted(host.path("/proc/driver/nvidia/gpus").glob("*"))]
    return [os.uname().machine, sorted(models), cores, driver, gpus]


def _walk(folder: Path, skipped: frozenset[str]) -> Iterator[str]:
    """The files below a folder in a fixed order, links to folders not followed, not endlessly many."""
    count = 0
    for place, names, files in os.walk(folder):
        names[:] = sorted(name for name in names if name not in skipped)
        for name in sorted(files):
            count += 1
            if count > ENTRIES:
                return
            yield os.path.join(place, name)


def _state(path: str | int) -> os.stat_result | None:
    try:
        return os.stat(path)
    except OSError:
        return None
