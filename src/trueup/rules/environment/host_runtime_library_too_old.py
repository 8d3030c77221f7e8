"""A wheel asks for a newer glibc or libstdc++ than the host has."""

from __future__ import annotations

from trueup.rules.definition import LogText, Rule, Sighting
from trueup.rules.environment_facts import install
from trueup.rules.log_facts import mention
from trueup.rules.symbols import FILE, distribution_of
from trueup.schema.environment import Environment
from trueup.schema.finding import Evidence, Remedy
from trueup.schema.log import Log

VERSION = r"version (?P<version>(?:GLIBC|GLIBCXX|CXXABI|GCC)_[\w.]+) not (?:found|defined)(?P<by>[^\n]*)"


def detect_log(log: Log) -> Sighting | None:
    seen = mention(log, VERSION)
    if seen is None:
        return None
    version, library = seen.found["version"], "glibc" if seen.found["version"].startswith("GLIBC_") else "libstdc++"
    files = FILE.findall(seen.found["by"])
    asking = (distribution_of(files[-1]) or files[-1]) if files else "A library"
    first = GLIBC if library == "glibc" else LIBSTDCXX
    return Sighting(
        message=f"{asking} asks for {version}, and the {library} of this host is older.",
        evidence=(seen.evidence(log), Evidence(what="symbol version that is missing", value=version)),
        remedies=(*first, NEWER_IMAGE),
        failure=seen.failure,
    )


GLIBC = (
    Remedy(
        id="build-on-this-host",
        kind="install",
        automatic=False,
        how="pip install --no-build-isolation --no-binary PACKAGE --no-cache-dir PACKAGE; for flash-attn "
        "FLASH_ATTENTION_FORCE_BUILD=TRUE pip install --no-build-isolation flash-attn",
    ),
    Remedy(
        id="wheel-of-older-base",
        kind="install",
        automatic=False,
        how="pip install --no-build-isolation flash-attn==2.7.4.post1, the last whose wheels were built on an older "
        "base",
    ),
)
LIBSTDCXX = (
    Remedy(
        id="newer-libstdcxx",
        kind="install",
        automatic=False,
        how="conda install -c conda-forge libstdcxx-ng, then export "
        'LD_LIBRARY_PATH="$CONDA_PREFIX/lib:$LD_LIBRARY_PATH"',
    ),
)
NEWER_IMAGE = Remedy(
    id="newer-base-image",
    kind="install",
    automatic=False,
    how="a newer base image (Ubuntu 22.04 has glibc 2.35); never copy a foreign glibc in",
)


LAST_FLASH_FOR_OLD_GLIBC = "flash-attn==2.7.4.post1"


def detect_in_environment(environment: Environment) -> Sighting | None:
    found = [extension for extension in environment.extensions if extension.missing_versions]
    if not found:
        return None
    wanted = sorted({version for extension in found for version in extension.missing_versions})
    tools = environment.tools
    offered = [
        Evidence(what=f"{name} of this machine", value=tools[name].version, at=tools[name].path)
        for name in ("glibc", "libstdc++")
        if name in tools
    ]
    return Sighting(
        message=f"{found[0].file} needs {', '.join(wanted[:3])}, which this machine does not have.",
        evidence=(
            *(Evidence(what="needs", value=", ".join(each.missing_versions), at=each.file) for each in found[:5]),
            *offered,
        ),
        remedies=tuple(_remedies(environment, wanted, {extension.package for extension in found})),
    )


def _remedies(environment: Environment, wanted: list[str], packages: set[str | None]) -> list[Remedy]:
    if any(version.startswith("GLIBC_") for version in wanted):
        if "flash-attn" in packages:
            return [
                install(
                    environment,
                    LAST_FLASH_FOR_OLD_GLIBC,
                    options="--no-deps --no-build-isolation",
                    id="flash-attn-of-older-base",
                )
            ]
        return []
    prefix = environment.prefix or "PREFIX"
    how = f"conda install -p {prefix} -c conda-forge libstdcxx-ng, then export LD_LIBRARY_PATH={prefix}/lib"
    return [Remedy(id="newer-libstdcxx", kind="install", automatic=False, how=how)]


RULE = Rule(
    id="environment/host-runtime-library-too-old",
    title="Wheel needs newer glibc or libstdc++ than the host has",
    layers=("environment", "attention"),
    severity="error",
    silent="",
    cause=(
        "The wheel was built on a newer distribution than this host. Wheels of flash-attn from 2.8 on need glibc "
        "2.32, and the system's libstdc++ is found before that of the environment."
    ),
    remedies=(*GLIBC, *LIBSTDCXX, NEWER_IMAGE),
    caution="The same wheel name may come from builders with different baselines: read the versions that the .so asks "
    "for.",
    sources=("https://github.com/Dao-AILab/flash-attention/issues/1708",),
    log=(
        LogText(
            text="Missing dependencies: GLIBC",
            strength="supporting",
            versions="conda and audit tools",
        ),
    ),
    from_log=detect_log,
    from_environment=detect_in_environment,
)
