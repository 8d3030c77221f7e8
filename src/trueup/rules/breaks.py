"""Dynamo's graph-break texts, read: what the compiled code did that could not be traced."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Literal

from trueup.rules.compilation import partly_eager
from trueup.rules.expression import Expression
from trueup.schema.finding import Evidence, Severity
from trueup.schema.record import Compile, GraphBreak, Record

Kind = Literal[
    "branch", "scalar", "extension", "device hook", "trainer", "flat parameters", "deliberate", "torch", "python"
]

_PATTERNS: tuple[tuple[Kind, Expression], ...] = (
    ("device hook", Expression(r"AlignDevicesHook|CpuOffload|accelerate[/\\]hooks\.py")),
    ("trainer", Expression(r"pytorch_lightning|lightning[/\\.](?:pytorch|fabric)|composer[/\\.]trainer")),
    ("flat parameters", Expression(r"use_orig_params=(?:True|False)")),
    (
        "branch",
        Expression(
            r"Data-dependent branching|Dynamic control flow is not supported|generic_jump \w*TensorVariable"
            r"|[Gg]uard on data-dependent"
        ),
    ),
    (
        "scalar",
        Expression(
            r"Tensor\.item\(\)|_local_scalar_dense|call_method\[target=(?:item|tolist)\]"
            r"|(?:[Dd]ata dependent|[Dd]ynamic shape) operator|Unsupported: Tensor\.(?:item|tolist|nonzero)\b"
            r"|DynamicOutputShapeException|DataDependentOutputException"
        ),
    ),
    ("deliberate", Expression(r"torch\.compiler\.disable|torch\._dynamo\.graph_break\(\)")),
)
FEW = 6
"""Compiled regions of a whole model that breaks at one place: before, after, and the frames around it."""
_INSIDE_TORCH = Expression(r"(?:^|[/\\])torch[/\\](?:optim|nn[/\\]parallel|distributed|_dynamo|autograd)[/\\]")
_OF_DDP = Expression(r"\bDistributedDataParallel\b|torch\.nn\.parallel\.distributed")
_OF_TRAINER = Expression(r"(?:^|[/\\])(?:transformers[/\\]trainer|accelerate[/\\]accelerator)\.py")
"""Frames that are traced only where the training step itself was compiled."""
_EXTENSION = Expression(
    r"(?:builtin `|unsupported builtin |(?:skip function|call_function) (?=[\w.]*PyCapsule\.))"
    r"(?P<name>[\w.]+?)\.?(?:`|$|\s)"
)
"""In torch 2.0 and 2.1 `call_function PyCapsule.fwd in skip_files`, in 2.2 and 2.3 `skip function PyCapsule.fwd`."""
_OF_PYBIND = Expression(r"pybind11_detail_function_record_\w+\.")
"""Under which pybind11 3 keeps a function of a module; a user calls `module.function`."""
_SIGNS_OF_EXTENSION = ("third-party C/C++ Python extension", "PyCapsule", "does not know how to trace the builtin")
_NO_EXTENSION = sys.stdlib_module_names | {"torch"}


def break_kind(graph_break: GraphBreak) -> Kind:
    """The class of a break; `python` when nothing more specific is known."""
    text = break_text(graph_break)
    if _OF_TRAINER.search(graph_break.frame or ""):
        return "trainer"
    for kind, pattern in _PATTERNS:
        if pattern.search(text):
            return kind
    if extension_function(graph_break):
        return "extension"
    # Wrappers and optimizers of torch break at known places that cost little.
    inside = _INSIDE_TORCH.search(graph_break.frame or graph_break.at or "") or _OF_DDP.search(text)
    return "torch" if inside else "python"


def breaks(compile: Compile, kind: Kind) -> tuple[GraphBreak, ...]:
    """The graph breaks of this kind."""
    return tuple(each for each in compile.breaks if break_kind(each) == kind)


def break_text(graph_break: GraphBreak) -> str:
    """Everything that Dynamo said about a break."""
    parts = (graph_break.reason, graph_break.explanation, graph_break.frame, graph_break.at)
    return "\n".join(part for part in parts if part)


def extension_function(graph_break: GraphBreak) -> str | None:
    """The function of a third-party C++ extension that a break names; None for builtins of Python itself."""
    text = break_text(graph_break)
    if not any(sign in text for sign in _SIGNS_OF_EXTENSION):
        return None
    match = _EXTENSION.search(text)
    if match is None or match["name"].split(".")[0] in _NO_EXTENSION:
        return None
    return _OF_PYBIND.compiled.sub("", match["name"])


def times(found: Iterable[GraphBreak]) -> int:
    """How often these breaks happened."""
    return sum(each.count for each in found)


def break_evidence(found: Iterable[GraphBreak]) -> tuple[Evidence, ...]:
    """One evidence a break: its type or first line, its count, the user's line."""
    return tuple(
        Evidence(
            what=f"graph breaks: {first_line(each.reason) or each.kind}",
            value=each.count,
            at=each.at or each.frame,
        )
        for each in found
    )


def first_line(text: str) -> str:
    """The first line that is not empty."""
    return next((line.strip() for line in text.splitlines() if line.strip()), "")


def break_severity(record: Record, found: Iterable[GraphBreak]) -> Severity:
    """A warning when breaks leave part of the model eager, cut its blocks in pieces or stand at several places.

    How often Dynamo met a break says little: it tries a frame again, and the frames around it, and then breaks anew.
    """
    compile = record.actual.compile
    places = {each.frame or each.at or each.reason for each in found}
    # Past a recompile limit functions run eager whether or not they broke; the limit has a finding of its own.
    eager = partly_eager(compile) and not compile.limits
    hurts = len(places) >= 3 or eager or _in_pieces(compile)
    return "warning" if hurts else "note"


def _in_pieces(compile: Compile) -> bool:
    """True when many more compiled regions run in a step than one for each block, or the few of one break."""
    return compile.blocks.total > 0 and (compile.regions_per_step or 0) > max(compile.blocks.total + 1, FEW)
