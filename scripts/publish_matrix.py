"""Make `src/trueup/environment/wheels/data/published.json`: which wheels a project attached to its releases.

    python scripts/publish_matrix.py flash-attn=PATH causal-conv1d=PATH mamba-ssm=PATH xformers=PATH bitsandbytes=PATH

What is not named stays as it is in the table. The PATH of bitsandbytes is a folder of its wheels, which `pip download
--no-deps --dest PATH bitsandbytes==…` fills, each other one a git clone (bare or not) with tags:
https://github.com/Dao-AILab/flash-attention,
https://github.com/Dao-AILab/causal-conv1d, https://github.com/state-spaces/mamba,
https://github.com/facebookresearch/xformers. Nothing is downloaded.

The wheels of such a project are the product of the matrix in the workflow that its tag carries: Python x torch x CUDA x
C++ ABI x runner image, less the exclusions. Read with it are the CUDA builds of torch that the workflow chooses from
(which decide the ABI that a wheel labelled FALSE really has) and, from `setup.py`, the GPU code that nvcc is asked for.

xformers publishes on torch's own index instead, each release for one torch: of it the torch, the CUDA builds and the
Pythons are read.

bitsandbytes publishes one wheel that holds a library for each CUDA: they are read from the names of the files in it.

What this cannot see: a job of the matrix that failed or ran out of time, and wheels that were attached to a release
later by hand. Those that are known stand, with their source, in `data/packages.toml`.
"""

from __future__ import annotations

import ast
import datetime
import json
import re
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml
from packaging.utils import parse_wheel_filename
from packaging.version import InvalidVersion, Version

OUTPUT = Path(__file__).parents[1] / "src/trueup/environment/wheels/data/published.json"
PROJECTS = {
    "flash-attn": ("https://github.com/Dao-AILab/flash-attention", "v2.1.0"),
    "causal-conv1d": ("https://github.com/Dao-AILab/causal-conv1d", "v1.0.0"),
    "mamba-ssm": ("https://github.com/state-spaces/mamba", "v1.0.0"),
}
"""Package → repository, first tag whose wheels carry the C++ ABI in their name."""
SECTIONS = ("projects", "pinned", "bundled")
PINNED = {"xformers": ("https://github.com/facebookresearch/xformers", "v0.0.28")}
"""Package → repository, first tag whose workflow has the shape that is read here."""

BUNDLED = {"bitsandbytes": "https://github.com/bitsandbytes-foundation/bitsandbytes"}
LIBRARY = re.compile(r"/lib\w+?_(?P<kind>cuda|rocm)(?P<version>\d+)\.so$")
LOOKS_FURTHER = "Highest packaged version <= runtime version"
"""In the source of a release that takes the nearest library where there is none for the CUDA of torch."""

WORKFLOWS = (".github/workflows/publish.yml", ".github/workflows/publish.yaml")
SHARED = ".github/workflows/_build.yml"
AXES = {"python-version": "python", "torch-version": "torch", "cuda-version": "cuda", "cxx11_abi": "abi", "os": "image"}

RETIRED = {"ubuntu-20.04": "2025-04-15"}
"""Runner images and the day from which jobs that ask for them never start:
https://github.com/actions/runner-images/issues/11101."""

GENCODE = re.compile(r"arch=compute_\d+a?,code=(?P<code>sm_\d+a?)")
CONDITION = re.compile(r"""bare_metal_version\s*(?P<sign><=|>=|<|>)\s*Version\(["'](?P<version>[\d.]+)["']\)""")
BUILDS = re.compile(r"\{\s*(?:'\d+\.\d+'\s*:\s*(?:\d+|\[[\d, ]+\])\s*,?\s*)+\}")
TORCH_REQUIREMENT = re.compile(r"^torch\s*(?P<specifier>[<>=!~][^;#\n]*)$", re.MULTILINE)
LABEL = re.compile(r"tmpname=cu\$\{(?P<variable>\w+)\}")
PYTHONS = re.compile(r"""python_requires\s*=\s*["'](?P<specifier>[^"']+)["']""")


def main(arguments: list[str]) -> None:
    """Read each clone that was named and write the table."""
    before = json.loads(OUTPUT.read_text()) if OUTPUT.exists() else {}
    projects, pinned, bundled = (before.get(section, {}) for section in SECTIONS)
    for argument in arguments:
        package, _, folder = argument.partition("=")
        if package in BUNDLED:
            bundled[package] = bundled_project(Path(folder), BUNDLED[package])
        elif package in PINNED:
            repository, first = PINNED[package]
            pinned[package] = project(Path(folder), repository, Version(first), pinned_release)
        else:
            repository, first = PROJECTS[package]
            projects[package] = project(Path(folder), repository, Version(first), release)
    table = {
        "made": datetime.date.today().isoformat(),
        "by": "scripts/publish_matrix.py",
        "projects": projects,
        "pinned": pinned,
        "bundled": bundled,
    }
    OUTPUT.write_text(written(table))


def written(table: dict[str, Any]) -> str:
    """JSON with one release a line: small, and a new release is one new line in a difference."""
    sections = ", ".join(f'"{section}": {{\n{_section(table.get(section, {}))}\n}}' for section in SECTIONS)
    return f'{{"made": "{table["made"]}", "by": "{table["by"]}", {sections}}}\n'


def _section(projects: dict[str, Any]) -> str:
    lines = []
    for package, found in projects.items():
        releases = ",\n".join(json.dumps(each) for each in found["releases"])
        head = json.dumps({name: value for name, value in found.items() if name != "releases"})
        lines.append(f'{json.dumps(package)}: {head[:-1]}, "releases": [\n{releases}\n]}}')
    return ",\n".join(lines)


def project(
    folder: Path, repository: str, first: Version, read: Callable[[Path, str], dict[str, Any] | None]
) -> dict[str, Any]:
    """All releases of one project, the newest first."""
    releases = [found for tag in _tags(folder, first) if (found := read(folder, tag)) is not None]
    seen = _git(folder, "log", "-1", "--format=%cs %H", "HEAD").split()
    return {"repository": repository, "seen": seen[0], "commit": seen[1], "releases": releases}


def release(folder: Path, tag: str) -> dict[str, Any] | None:
    """What one tag says that it publishes; None when its workflow has no such matrix, or could not run."""
    name = next((name for name in WORKFLOWS if _shown(folder, tag, name)), None)
    if name is None:
        return None
    workflow, shared = _shown(folder, tag, name), _shown(folder, tag, SHARED)
    matrix = matrix_of(workflow)
    setup = _shown(folder, tag, "setup.py")
    label = LABEL.search(workflow + shared)
    if matrix is None or not setup:
        return None
    date, commit = _git(folder, "log", "-1", "--format=%cs %H", tag).split()
    matrix["image"] = [image for image in matrix["image"] if date < RETIRED.get(image, "9999")]
    if not matrix["image"]:
        return None
    pythons = PYTHONS.search(setup)
    return {
        "version": tag.removeprefix("v"),
        "date": date,
        "commit": commit,
        "workflow": name,
        "label": "minor" if label is not None and label["variable"] == "MATRIX_CUDA_VERSION" else "major",
        **matrix,
        "torch_builds": torch_builds(workflow + shared),
        "gpu_code": gpu_code(setup),
        "requires_python": pythons["specifier"] if pythons else None,
    }


def pinned_release(folder: Path, tag: str) -> dict[str, Any] | None:
    """What one tag of a project says whose workflow makes its matrix with a few lines of Python."""
    workflow = _shown(folder, tag, ".github/workflows/wheels.yml")
    torch, builds, pythons = (
        _listed(workflow, name) for name in ("torch_version in", "CU_VERSIONS =", "PY_VERSIONS =")
    )
    if not torch or not builds:
        return None
    date, commit = _git(folder, "log", "-1", "--format=%cs %H", tag).split()
    is_exact = "torch == " in _shown(folder, tag, ".github/workflows/wheels_build.yml")
    asked = TORCH_REQUIREMENT.search(_shown(folder, tag, "requirements.txt"))
    return {
        "version": tag.removeprefix("v"),
        "date": date,
        "commit": commit,
        "torch": f"=={torch[-1]}" if is_exact or asked is None else asked["specifier"].replace(" ", ""),
        "builds": builds,
        "pythons": pythons,
    }


def bundled_project(folder: Path, repository: str) -> dict[str, Any]:
    """What the wheels in a folder hold, the newest release first."""
    releases = [bundled_release(path) for path in folder.glob("*.whl")]
    releases.sort(key=lambda each: Version(each["version"]), reverse=True)
    return {"repository": repository, "seen": datetime.date.today().isoformat(), "releases": releases}


def bundled_release(wheel: Path) -> dict[str, Any]:
    """What one wheel says of itself, and the libraries in it."""
    name, version, _, _ = parse_wheel_filename(wheel.name)
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        metadata = archive.read(next(each for each in names if each.endswith(".dist-info/METADATA"))).decode()
        source = archive.read(f"{name}/cextension.py").decode()
        date = max(each.date_time for each in archive.infolist())
    libraries = [found for each in names if (found := LIBRARY.search(each))]
    asked = re.search(r"^Requires-Dist: torch[ \t]*\(?(?P<specifier>[^;)\n]*)$", metadata, re.MULTILINE)
    python = re.search(r"^Requires-Python: (?P<specifier>.+)$", metadata, re.MULTILINE)
    return {
        "version": str(version),
        "date": "{:04}-{:02}-{:02}".format(*date),
        "file": wheel.name,
        "platform": wheel.stem.rpartition("-")[2],
        "torch": asked["specifier"].strip() if asked else "",
        "requires_python": python["specifier"].strip() if python else None,
        **{
            kind: sorted({found["version"] for found in libraries if found["kind"] == kind}, key=int)
            for kind in ("cuda", "rocm")
        },
        "nearest": LOOKS_FURTHER in source,
    }


def _listed(workflow: str, name: str) -> list[str]:
    """The literal list behind a name; empty without one."""
    found = re.search(re.escape(name) + r"\s*(\[[^\]]*\])", workflow)
    return [] if found is None else list(map(str, ast.literal_eval(found[1])))


def matrix_of(workflow: str) -> dict[str, Any] | None:
    """The axes of the job that builds wheels, and what is left out of their product.

    Releases of torch that are nightlies are dropped: a wheel built for one serves nobody who has the final release."""
    for job in yaml.safe_load(workflow).get("jobs", {}).values():
        matrix = job.get("strategy", {}).get("matrix")
        if not isinstance(matrix, dict) or not AXES.keys() <= matrix.keys():
            continue
        axes = {ours: [_text(value) for value in matrix[theirs]] for theirs, ours in AXES.items()}
        axes["torch"] = [torch for torch in axes["torch"] if ".dev" not in torch]
        left_out = [{AXES[axis]: _text(value) for axis, value in rule.items()} for rule in matrix.get("exclude", ())]
        return {**axes, "exclude": [rule for rule in left_out if ".dev" not in rule.get("torch", "")]}
    return None


def torch_builds(workflow: str) -> dict[str, list[str]]:
    """`2.6` → the CUDA builds of torch among which the workflow takes the newest that fits."""
    found: dict[str, set[str]] = {}
    text = re.sub(r"\\\s*\n\s*", "", workflow)
    for literal in BUILDS.findall(text):
        for torch, builds in ast.literal_eval(literal).items():
            found.setdefault(torch, set()).update(map(str, builds if isinstance(builds, list) else [builds]))
    return {torch: sorted(builds, key=int) for torch, builds in found.items()}


def gpu_code(setup: str) -> list[dict[str, str]]:
    """The code that nvcc makes, each with the versions of nvcc for which it is asked: `>=12.8`."""
    found = []
    conditions: list[tuple[int, str]] = []
    for line in setup.splitlines():
        text = line.strip()
        if not text or text.startswith("#"):
            continue
        depth = len(line) - len(line.lstrip())
        conditions = [each for each in conditions if each[0] < depth]
        condition = CONDITION.search(text)
        if condition is not None and text.startswith(("if", "elif")):
            conditions.append((depth, condition["sign"] + condition["version"]))
        code = GENCODE.search(text)
        if code is not None:
            found.append({"code": code["code"], "nvcc": ",".join(needed for _, needed in conditions)})
    return found


def _tags(folder: Path, first: Version) -> list[str]:
    """Tags of final releases from `first` on, the newest first."""
    tags = {}
    for tag in _git(folder, "tag", "--list", "v*").split():
        try:
            tags[Version(tag)] = tag
        except InvalidVersion:
            continue
    return [tags[version] for version in sorted(tags, reverse=True) if version >= first]


def _text(value: Any) -> str:
    """A cell of the matrix as the workflow writes it: YAML reads TRUE as a truth and 3.10 as a number."""
    return str(value).upper() if isinstance(value, bool) else str(value)


def _shown(folder: Path, tag: str, name: str) -> str:
    done = subprocess.run(["git", "-C", str(folder), "show", f"{tag}:{name}"], capture_output=True, check=False)
    return done.stdout.decode()


def _git(folder: Path, *arguments: str) -> str:
    return subprocess.run(["git", "-C", str(folder), *arguments], capture_output=True, check=True).stdout.decode()


if __name__ == "__main__":
    main(sys.argv[1:])
