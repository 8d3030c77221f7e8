"""What torch's CompilerBisector leaves on and off, in a run in which it is on (TORCH_BISECT_BACKEND).

It asks for each pass, decomposition and lowering whether that is to be left out, counts the ones of one subsystem, and
leaves out those beyond the number TORCH_BISECT_MAX. It tells neither how many there were nor which one was the last.
"""

from __future__ import annotations

import functools
import os
import re

from trueup_instrument import patching, places

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType
    from typing import Any

    from trueup_instrument.session import Session

NAME = "compiler_bisector"
BACKEND = "TORCH_BISECT_BACKEND"
SUBSYSTEM = "TORCH_BISECT_SUBSYSTEM"
LAST = "TORCH_BISECT_MAX"
LENGTH_KEPT = 200
OPERATOR = re.compile(r"<OpOverload\(op='([\w.]+)', overload='(\w+)'\)>")


def attach(session: Session) -> None:
    if os.environ.get(BACKEND):
        session.after_torch(NAME, "torch._inductor.compiler_bisector", lambda module: _listen(session, module))


def _listen(session: Session, module: ModuleType) -> None:
    bisector = module.CompilerBisector
    method = bisector.__dict__["disable_subsystem"]
    original = method.__func__
    arguments = patching.arguments_of(original)
    applied: dict[str, int] = {}
    searched, last = os.environ.get(SUBSYSTEM), _number(os.environ.get(LAST))

    def look(args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        asked = arguments(args, kwargs)
        if asked.get("backend") != os.environ[BACKEND]:
            return
        name = str(asked.get("subsystem"))
        number = applied[name] = applied.get(name, 0) + 1
        if name == searched and number - 1 == last:
            session.write("compile", what="bisected", applied=dict(applied), last=_told(asked.get("debug_info")))
        elif not number & (number - 1):  # powers of two: a process that is killed has told the size
            session.write("compile", what="bisected", applied=dict(applied))

    look = session.guarded(NAME, look)

    @functools.wraps(original)
    def disable_subsystem(*args: Any, **kwargs: Any) -> Any:
        """Called while torch compiles, where `patching.around` looks at nothing."""
        look(args, kwargs)
        return original(*args, **kwargs)

    put = classmethod(disable_subsystem)
    bisector.disable_subsystem = put
    session.undo.append(lambda: patching.take_away(bisector, "disable_subsystem", put, method))
    session.at_end(lambda: session.write("compile", what="bisected", applied=applied) if applied else None)


def _told(debug_info: Callable[[], Any] | None) -> str | None:
    """What the bisector would tell of it; of a node of a graph also its operator and the user's line."""
    if debug_info is None:
        return None
    told = OPERATOR.sub(r"\1.\2", str(debug_info()))
    for cell in getattr(debug_info, "__closure__", None) or ():
        node = cell.cell_contents
        if hasattr(node, "target") and hasattr(node, "meta"):
            at = _line(node.meta.get("stack_trace"))
            told = f"{told} = {node.target}" + (f" ({at})" if at else "")
    return told[:LENGTH_KEPT]


def _line(trace: Any) -> str | None:
    """The user's line in a printed stack, innermost frame last."""
    found = re.findall(r'File "([^"]+)", line (\d+)', str(trace or ""))
    return places.user_line_of([(file, int(line)) for file, line in found])


def _number(text: str | None) -> int | None:
    try:
        return int(text or "")
    except ValueError:
        return None
