"""A wheel asks for a newer glibc or libstdc++ than the host has."""

from __future__ import annotations

from trueup.rules.definition import LogText, Rule, Sighting
from trueup.rules.log_facts import mention
from trueup.rules.symbols import FILE, distribution_of
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

RULE = Rule(
    id="environment/host-runtime-library-too-old",
    title="Wheel needs newer glibc or libstdc++ than the host has",
    layers=("environment", "attention"),
    severity="error",
    silent="",
    cause=(
        "The wheel was built on a newer distribution than this host. Wheels of flash-attn from 2.8 on need glibc "
        "2.32, and "
        "the system's libstdc++ is found before that of the environment."
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
)
