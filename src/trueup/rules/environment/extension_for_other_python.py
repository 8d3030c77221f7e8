"""A compiled module for another Python or another processor."""

from __future__ import annotations

from collections.abc import Iterable

from trueup.rules.definition import Rule, Sighting
from trueup.rules.environment_facts import install
from trueup.rules.extension_facts import fits_python
from trueup.schema.environment import Environment, Extension
from trueup.schema.finding import Evidence, Remedy


def detect_in_environment(environment: Environment) -> Sighting | None:
    """Where one module of a package fits, the others are builds for other Pythons or parts of no use here."""
    modules: dict[str, list[Extension]] = {}
    for extension in environment.extensions:
        modules.setdefault(extension.package or extension.file, []).append(extension)
    found = [builds[0] for builds in modules.values() if not any(_fits(environment, each) for each in builds)]
    if not found:
        return None
    first = found[0]
    return Sighting(
        message=(
            f"{first.file} is for {_kind(first)}; this is Python {environment.python} ({environment.python_tag}) on "
            f"{environment.machine}."
        ),
        evidence=tuple(Evidence(what="built for", value=_kind(each), at=each.file) for each in found[:5]),
        remedies=_remedies(environment, found),
    )


def _fits(environment: Environment, extension: Extension) -> bool:
    machine = extension.machine is None or environment.machine is None or extension.machine == environment.machine
    return machine and fits_python(environment, extension)


def _kind(extension: Extension) -> str:
    return " on ".join(part for part in (extension.python_tag, extension.machine) if part)


def _remedies(environment: Environment, found: Iterable[Extension]) -> tuple[Remedy, ...]:
    names = dict.fromkeys(each.package for each in found if each.package in environment.packages)
    pins = [f"{name}=={environment.packages[name].version}" for name in names if name]
    options = "--force-reinstall --no-deps --no-cache-dir"
    return (install(environment, *pins, options=options, id="reinstall-for-this-python"),) if pins else ()


RULE = Rule(
    id="environment/extension-for-other-python",
    title="A compiled module is for another Python or processor",
    layers=("environment", "attention"),
    severity="error",
    silent="The import system passes over the file: the error says that the module does not exist.",
    cause=(
        "The package was copied from or installed for another Python (an old folder on PYTHONPATH, an environment "
        "that was upgraded in place, a wrong --target), and Python loads modules of its own version only."
    ),
    remedies=(
        Remedy(
            id="reinstall-for-this-python",
            kind="install",
            automatic=False,
            how="pip install --force-reinstall --no-deps --no-cache-dir <package>, with the Python that will run it",
        ),
    ),
    caution="Modules of the stable ABI (abi3) serve every later Python.",
    sources=("https://peps.python.org/pep-3149/",),
    from_environment=detect_in_environment,
)
