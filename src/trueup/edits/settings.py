"""Lines that set a switch of torch: changed where the user's code sets it, else put behind the imports."""

from __future__ import annotations

from collections.abc import Callable

import libcst as cst

from trueup.edits.draft import Draft, Editor, literal
from trueup.edits.python_source import Source, Statement

DYNAMO = "torch._dynamo.config"
FUNCTORCH = "torch._functorch.config"
INDUCTOR = "torch._inductor.config"


def setting(module: str, name: str, value: str, *aliases: str, add: bool = True, loaded: str = "") -> Editor:
    """An editor that sets `module.name`; `add` says whether it is put in where nobody sets it.

    `loaded` is the module to import where `import torch` alone does not load it.
    """

    def editor(draft: Draft) -> bool:
        found = False
        for source in draft.job.sources():
            for assign in assignments(source, module, name, *aliases):
                draft.of(source).change(assign.value, lambda node: cst.parse_expression(value))
                found = True
        script = draft.job.script()
        if found or not add or script is None:
            return found
        if loaded:
            draft.require(script, f"import {loaded}")
        draft.set_line(script, f"{module}.{name} = {value}")
        return True

    return editor


def at_least(module: str, name: str, value: int, *aliases: str) -> Editor:
    """As `setting`, where a higher number stays."""

    def editor(draft: Draft) -> bool:
        for source in draft.job.sources():
            for assign in assignments(source, module, name, *aliases):
                now = literal(assign.value)
                if not isinstance(now, int) or now >= value:
                    return False
        return setting(module, name, str(value), *aliases)(draft)

    return editor


def line(code: str) -> Editor:
    """An editor that has a line run once torch is imported."""

    def editor(draft: Draft) -> bool:
        script = draft.job.script()
        if script is not None:
            draft.set_line(script, code)
        return script is not None

    return editor


def without(module: str, wrong: Callable[[object], bool], *names: str) -> Editor:
    """An editor that takes out the lines that set one of `names` to a wrong value; True also when there are none."""

    def editor(draft: Draft) -> bool:
        for source in draft.job.sources():
            for assign in assignments(source, module, *names):
                statement = source.statement_of(assign)
                if statement is not None and wrong(literal(assign.value)) and _is_alone(statement):
                    draft.of(source).remove(statement)
        return True

    return editor


def assignments(source: Source, module: str, *names: str) -> list[cst.Assign]:
    """Assignments to `module.name`, however the module was imported."""
    wanted = {f"{module}.{name}" for name in names}
    return [
        assign
        for assign in source.nodes(cst.Assign)
        if len(assign.targets) == 1 and wanted & source.names(assign.targets[0].target)
    ]


def _is_alone(statement: Statement) -> bool:
    return isinstance(statement, cst.SimpleStatementLine) and len(statement.body) == 1
