"""Inductor or Triton finds no usable host compiler."""

from __future__ import annotations

from trueup.rules.definition import LogText, Rule, Sighting
from trueup.rules.environment_facts import as_version, asks_for_compile, said, torch_version, variable
from trueup.rules.expression import Expression
from trueup.rules.log_facts import mentions
from trueup.schema.environment import Environment, Tool
from trueup.schema.finding import Evidence, Remedy
from trueup.schema.log import Log

COMPILE_ERROR = r"C\+\+ compile error"
VERSION = Expression(
    r"(?:gcc|g\+\+|GCC|GNU)[-/ (]{0,2}(?:version )?(?P<major>\d{1,2})(?:\.\d+)?"
    r"|(?:gcc-toolset|devtoolset)-(?P<toolset>\d+)|include/c\+\+/(?P<headers>\d+)"
)
OLD = 9
"""gcc below this cannot compile what Inductor writes."""

TOO_OLD = Expression(
    r"unrecognized command[- ]line option -std=c\+\+(?:17|20|2a)|C\+\+(?:17|20) or later compatible compiler is "
    r"required"
    r"|You need C\+\+(?:17|20) to compile PyTorch|is less than the minimum required version"
)


def detect_log(log: Log) -> Sighting | None:
    """An old gcc named by what it printed; a current one that fails is another class."""
    for seen in mentions(log, f"{COMPILE_ERROR}|{TOO_OLD.pattern}"):
        text = seen.part.said
        majors = [int(found["major"] or found["toolset"] or found["headers"]) for found in VERSION.finditer(text)]
        old = [major for major in majors if 3 < major < OLD]
        if not old and not TOO_OLD.search(text):
            continue
        return Sighting(
            message=f"The host compiler{f' (gcc {old[0]})' if old else ''} is too old for the generated C++.",
            evidence=(seen.evidence(log), *(Evidence(what="gcc", value=major) for major in old[:1])),
            failure=seen.failure,
        )
    return None


OLDEST = 9
"""GCC with the C++17 that Inductor's code uses; gcc 8 fails on parts of it."""


def detect_in_environment(environment: Environment) -> Sighting | None:
    """Inductor takes CXX, else g++; clang++ only when CXX names it. Triton takes CC, gcc or clang."""
    if torch_version(environment) is None or not (environment.platform or "").startswith("Linux"):
        return None
    chosen, asked = variable(environment, "CXX"), asks_for_compile(environment)
    compiler = environment.tools.get("CXX" if chosen else "g++")
    trouble = _trouble(compiler, None if chosen is None else chosen.value)
    if trouble is None:
        return None
    return Sighting(
        message=f"torch.compile cannot build its C++ code here: {trouble}.",
        evidence=(
            *((said(chosen),) if chosen else ()),
            Evidence(
                what="C++ compiler",
                value="none" if compiler is None else compiler.version,
                at=None if compiler is None else compiler.path,
            ),
            *((said(asked, "torch.compile asked for"),) if asked else ()),
        ),
        severity="warning" if asked else "note",
        remedies=(
            Remedy(
                id="install-cxx-compiler",
                kind="install",
                automatic=False,
                how="apt-get install g++ (or dnf install gcc-c++, conda install gxx); export CXX where it is not g++",
            ),
        ),
    )


def _trouble(compiler: Tool | None, chosen: str | None) -> str | None:
    if compiler is None:
        return f"CXX names {chosen}, which is not there" if chosen else "there is no g++ on PATH and CXX is not set"
    version = as_version(compiler.version)
    is_gcc = "clang" not in (compiler.path or "")
    if is_gcc and version is not None and version.major < OLDEST:
        return f"{compiler.name} is {compiler.version}, and it takes {OLDEST} or newer"
    return None


RULE = Rule(
    id="environment/cxx-compiler-missing-or-too-old",
    title="Inductor finds no usable host C++ compiler",
    layers=("environment", "compile"),
    severity="error",
    silent="",
    cause=(
        "Inductor and Triton need a host compiler at run time, also for models on a GPU: C++17 for Inductor. Slim "
        "images have none, and old distributions have gcc 8 or earlier."
    ),
    remedies=(
        Remedy(
            id="use-found-compiler",
            kind="env-var",
            automatic=True,
            how="export CXX=/usr/bin/g++ (and CC=/usr/bin/gcc), a compiler of version 9 or newer that is there",
        ),
        Remedy(
            id="install-host-compiler",
            kind="install",
            automatic=False,
            how="apt-get install -y g++ (conda install -c conda-forge gxx); where the default is old, export "
            "CC=gcc-11 CXX=g++-11",
        ),
        Remedy(
            id="backend-without-compiler",
            kind="config-edit",
            automatic=False,
            how='torch.compile(..., backend="aot_eager"), or no compile',
        ),
    ),
    caution="A current gcc that fails on generated code is a defect of the code generator.",
    sources=("https://github.com/pytorch/pytorch/issues/130815",),
    log=(
        LogText(text="No working C++ compiler found in", versions="torch 2.0 or newer"),
        LogText(text="InvalidCxxCompiler", versions="torch 2.0 or newer"),
        LogText(
            text="Failed to find C compiler. Please specify via CC environment variable", versions="triton 2.1 or newer"
        ),
        LogText(text="RuntimeError: Compiler: <name> is not found", versions="torch 2.5 or newer"),
        LogText(text="No such file or directory: g++", versions="Python"),
        LogText(text="No such file or directory: gcc", versions="Python"),
        LogText(text="No such file or directory: cl", versions="Python on Windows"),
        LogText(text="g++: command not found", versions="bash"),
        LogText(text="gcc: command not found", versions="bash"),
        LogText(text="g++: not found", versions="sh"),
        LogText(text="gcc: not found", versions="sh"),
        LogText(text="command 'gcc' failed: No such file or directory", versions="setuptools"),
        LogText(text="command 'g++' failed: No such file or directory", versions="setuptools"),
        LogText(text="unable to execute 'gcc': No such file or directory", versions="setuptools"),
        LogText(
            text="C++17 or later compatible compiler is required to use PyTorch",
            versions="headers of torch 2.1 or newer",
        ),
        LogText(
            text="The current installed version of <compiler> (<version>) is less than the minimum required version",
            versions="torch any",
        ),
        LogText(
            text="may be ABI-incompatible with PyTorch! Please use a compiler that is ABI-compatible with GCC",
            strength="supporting",
            versions="torch any, a warning",
        ),
        LogText(
            text="C++ compile error",
            strength="supporting",
            versions="torch 2.0 or newer; only with an old gcc in the command",
            not_with=("CppCompileError",),
        ),
        LogText(
            text="Microsoft Visual C++ 14.0 or greater is required",
            strength="supporting",
            versions="setuptools on Windows",
        ),
        LogText(
            text="Python.h: No such file or directory",
            strength="supporting",
            versions="gcc, headers of Python are missing (python3-dev)",
        ),
    ),
    from_log=detect_log,
    from_environment=detect_in_environment,
)
