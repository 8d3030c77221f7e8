"""Inductor wrote C++ that a current compiler does not accept."""

from __future__ import annotations

from trueup.rules.definition import LogText, Rule
from trueup.schema.finding import Remedy

TOOLS = (
    "Python.h: No such file or directory",
    "omp.h: No such file or directory",
    "command not found",
    "unrecognized command line option",
    "unrecognized command-line option",
    "cannot find -l",
    "No space left on device",
    "Permission denied",
    "cc1plus: fatal error",
    "undefined reference to",
    "experimental/filesystem",
    "ld: cannot find",
)
"""What a missing or old tool prints below the same headline."""

RULE = Rule(
    id="compile/inductor-cpp-codegen-failure",
    title="Inductor generates C++ that does not compile",
    layers=("compile", "environment"),
    severity="error",
    silent="",
    cause="A defect of the code generation, or a header that broke, in one torch release for one kernel or tool chain.",
    remedies=(
        Remedy(
            id="upgrade-torch",
            kind="install",
            automatic=False,
            how="the next patch release of torch (2.7.1 for 2.7.0 with Python 3.13)",
        ),
        Remedy(
            id="compile-without-inductor",
            kind="in-process",
            automatic=True,
            how='torch.compile(..., backend="aot_eager"), or torch.compiler.disable on the module that fails',
        ),
    ),
    caution="With gcc 8 or older in the command, or a missing header, the compiler is at fault, not Inductor.",
    sources=("https://github.com/pytorch/pytorch/issues/152172",),
    log=(
        LogText(
            text="InductorError: CppCompileError: C++ compile error", versions="torch 2.6 and newer", not_with=TOOLS
        ),
        LogText(text="CppCompileError: C++ compile error", versions="torch 2.0 and newer", not_with=TOOLS),
        LogText(text="CppCompileError", versions="cut short", not_with=TOOLS),
    ),
)
