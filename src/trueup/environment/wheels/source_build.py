"""Building a package here: the exact line, what is missing for it, and about how long it takes."""

from __future__ import annotations

import math
from collections.abc import Iterator

from packaging.version import InvalidVersion, Version

from trueup.environment.wheels import commands
from trueup.environment.wheels.here import Here
from trueup.environment.wheels.knowledge import Build, Known
from trueup.schema.environment import Environment
from trueup.schema.wheels import Way

GIB = 1024**3


NEEDED = ("packaging", "psutil", "setuptools", "wheel", "ninja")
"""What the `setup.py` of these packages import or call; without build isolation nothing is fetched for them."""


def source_build(environment: Environment, here: Here, known: Known, wanted: str = "") -> Way | None:
    """None when it cannot be built for this torch or these GPUs at all. `wanted` is a version specifier."""
    build = known.build
    if build is None or here.torch is None or here.cuda is None or here.system != "linux" or here.torch_lacks:
        return None
    codes = _codes(build, here)
    if here.capabilities and build.codes and not codes:
        return None
    jobs, rule = max_jobs(environment, build)
    variables = {**build.variables, "MAX_JOBS": str(jobs)}
    if build.architectures and codes:
        variables[build.architectures] = ";".join(map(str, codes))
    elif not build.codes and here.capabilities:
        variables["TORCH_CUDA_ARCH_LIST"] = ";".join(sorted({f"{a}.{b}" for a, b in here.capabilities}))
    what, sources = build.command + wanted, build.sources
    if build.cxx20_from_torch and here.torch.release >= Version(build.cxx20_from_torch).release and build.cxx20_source:
        what, sources = build.cxx20_source, (*sources, *build.cxx20_sources)
    minutes = _minutes(build, jobs, max(1, len(codes)))
    return Way(
        kind="source",
        title=f"build it here against torch {here.torch}",
        commands=commands.build(environment, what, variables),
        missing=tuple(_missing(environment, here, build)),
        minutes=minutes,
        cost="; ".join(_cost(build, here, rule, minutes)),
        sources=sources,
    )


def max_jobs(environment: Environment, build: Build) -> tuple[int, str]:
    """MAX_JOBS and the rule it follows: that of flash-attn's own `setup.py`, with the container's limits."""
    limits = environment.limits
    cpus = float(limits.get("container_cpus") or limits.get("cpus") or 2)
    by_cores = max(1, math.floor(min(cpus, limits.get("cpus") or cpus)) // 2)
    per_job = build.memory_per_job_gib or 9
    memory = limits.get("memory_bytes")
    if memory is None:
        return 1, f"MAX_JOBS is 1 because the memory could not be read; one job takes up to {per_job} GiB"
    by_memory = max(1, int(memory / GIB // per_job))
    jobs = min(by_cores, by_memory)
    rule = (
        f"MAX_JOBS = min(half of {cpus:g} CPUs, {memory / GIB:.0f} GiB / {per_job} GiB a job) = {jobs}, "
        "the rule of flash-attn's setup.py applied to all memory, not to what is free now"
    )
    if memory / GIB < per_job:
        rule += "; one job may need more memory than there is"
    return jobs, rule


def _cost(build: Build, here: Here, rule: str, minutes: tuple[int, int] | None) -> Iterator[str]:
    yield rule
    if minutes is None:
        yield f"how long it takes is not known: {build.estimate}"
    else:
        yield f"the minutes are an estimate, scaled by jobs and GPU generations from public reports: {build.estimate}"
    if build.architectures:
        yield f"TORCH_CUDA_ARCH_LIST has no effect: setup.py sets the architectures itself, from {build.architectures}"
    elif build.codes:
        yield "TORCH_CUDA_ARCH_LIST has no effect: setup.py sets the architectures itself"
    if build.cxx20_from_torch and here.torch is not None and here.torch.release[:2] >= (2, 13):
        yield "torch from 2.13 on is written in C++20, which the sources of 2.8.3.post1 and before do not ask for"


def _codes(build: Build, here: Here) -> list[int]:
    """The values of the architecture variable that serve the GPUs here."""
    wanted = set()
    for major, minor in here.capabilities:
        own = [code for code in build.codes if code // 10 == major and code % 10 <= minor]
        wanted.update(own[-1:])
    return sorted(wanted)


def _minutes(build: Build, jobs: int, generations: int) -> tuple[int, int] | None:
    if build.job_minutes is None:
        return None
    low, high = (minutes * generations / jobs for minutes in build.job_minutes)
    return max(1, round(low)), max(1, round(high))


def _missing(environment: Environment, here: Here, build: Build) -> Iterator[str]:
    assert here.cuda is not None
    needed = Version(build.nvcc)
    if build.blackwell_nvcc and any(capability[0] >= 10 for capability in here.capabilities):
        needed = max(needed, Version(build.blackwell_nvcc))
    nvcc = environment.tools.get("nvcc")
    wanted = f"nvcc of CUDA {here.cuda.major} (torch here has {here.cuda})"
    wanted += f", at least {needed}" if needed.major == here.cuda.major and needed.minor else ""
    version = _version(nvcc.version) if nvcc is not None else None
    if nvcc is None:
        yield f"{wanted}: none found"
    elif version is None:
        yield f"{wanted}: the version of {nvcc.path} could not be read"
    elif version.major != here.cuda.major or version < needed:
        yield f"{wanted}: {nvcc.path} is {version}"
    if not {"g++", "CXX", "clang++"} & environment.tools.keys():
        yield "a C++ compiler (g++)"
    there = {*environment.packages, *environment.tools}
    absent = [name for name in NEEDED if name not in there]
    if absent:
        hours = "; without ninja one file is compiled at a time, for hours" if "ninja" in absent else ""
        yield f"{', '.join(absent)}: {commands.install(environment, absent)['pip']}{hours}"


def _version(text: str | None) -> Version | None:
    try:
        return Version(text) if text else None
    except InvalidVersion:
        return None
