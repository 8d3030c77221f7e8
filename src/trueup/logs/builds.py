"""Compilers, build systems, package installers and the dynamic loader."""

from __future__ import annotations

from trueup.logs.marks import mark

MARKS = (
    # The dynamic loader, before a Python exception wraps its words.
    mark(
        r"undefined symbol: \S+|symbol lookup error|cannot open shared object file|"
        r"failed to map segment from shared object",
        "loader",
    ),
    mark(r"version `\S+' not found \(required by|wrong ELF class|invalid ELF header|file too short$", "loader"),
    # Compilers and linkers.
    mark(r"^nvcc fatal|^ptxas\S* (?:fatal|error)|^ptxas \S+, line \d+; (?:fatal|error)", "build", type="ptxas or nvcc"),
    mark(
        r"^\S+?[:(]\d+(?::\d+|\))?: (?:fatal )?error(?: #\d+)?:|^(?:\S+/)?(?:g\+\+|gcc|cc|c\+\+|"
        r"clang(?:\+\+)?|cc1plus|x86_64-\S+)(?:-\d+)?: (?:fatal |internal compiler )?error:",
        "build",
        type="compiler",
    ),
    mark(r"^\S+\.cuh?\(\d+\): error", "build", type="compiler"),
    mark(r"^(?:\S*/)?ld(?:\.\w+)?: ", "build", type="linker"),
    mark(r"^collect2: error", "build", "summary"),
    mark(r"^#error |^error: #error|Unsupported gpu architecture", "build", type="compiler"),
    mark(r"C\+\+ compile error|Internal Triton PTX codegen error", "build", continues=True),
    mark(
        r"^FAILED: |^ninja: (?:build stopped|fatal|error)|^(?:g?make|cmake)(?:\[\d+\])?: \*\*\*|"
        r"^-- Configuring incomplete",
        "build",
        "summary",
    ),
    mark(
        r"^error: [Cc]ommand '.*' (?:failed|returned)|^error: The build backend returned an error|"
        r"^error: legacy-install-failure|"
        r"^error: metadata-generation-failed|^error: subprocess-exited",
        "build",
        "summary",
    ),
    mark(
        r"^(?:Failed building|Failed to build) |^ERROR: Failed building|Could not build wheels for|failed-wheel-build",
        "build",
        "summary",
    ),
    mark(
        r"^× (?:Failed to build|Failed to download and build|Building wheel|Encountered error|"
        r"Preparing metadata|Getting requirements|python setup)",
        "build",
        "summary",
    ),
    mark(r"^[×╰├]─?[▶>]? *.*(?:failed|error|did not run successfully)", "build", "summary"),
    # Installers.
    mark(r"^ResolutionImpossible: for help visit", "build", "summary"),
    mark(r"^hint: ", "build", type="hint", continues=True),
    mark(
        r"^(?:× |error: )No solution found when resolving|"
        r"Cannot install .* because these package versions have conflict",
        "build",
        type="resolution",
        continues=True,
    ),
    mark(
        r"Could not find a version that satisfies the requirement|No matching distribution found|"
        r"is not a supported wheel on this platform",
        "build",
        type="resolution",
    ),
    mark(
        r"pip's dependency resolver does not currently take into account|which is incompatible\.$|"
        r"requires \S+, but you have ",
        "build",
        "warning",
        "conflict",
    ),
    mark(
        r"^(?:PackagesNotFoundError|UnsatisfiableError|LibMambaUnsatisfiableError|CondaHTTPError|"
        r"ResolvePackageNotFound)\b",
        "build",
        type="resolution",
        continues=True,
    ),
    mark(
        r"^Attempting uninstall: |^Found existing installation: |^Successfully uninstalled ",
        "build",
        "warning",
        "uninstall",
    ),
    mark(r"^CMake Error", "build", continues=True),
    mark(r"^error(?:\[\w+\])?: ", "build", continues=True),
)
