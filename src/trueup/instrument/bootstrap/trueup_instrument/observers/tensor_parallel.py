"""Tensor parallelism by plan."""

from __future__ import annotations

from trueup_instrument import modules, patching
from trueup_instrument.announcements import Announcements, is_own_decision
from trueup_instrument.wrappers import compiled_parts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType
    from typing import Any

    from trueup_instrument.session import Session

NAME = "tensor_parallel"


def attach(session: Session) -> None:
    say = Announcements(session)
    session.after_torch(NAME, "torch.distributed.tensor.parallel", lambda module: _parallelize(session, say, module))


def _parallelize(session: Session, say: Announcements, module: ModuleType) -> None:
    """It calls itself for each entry of the plan: one event for the outermost call."""
    if not hasattr(module, "parallelize_module"):
        return
    arguments = patching.arguments_of(module.parallelize_module)

    def before(args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if is_own_decision():
            say.request("sharding", "strategy", "TP", "parallelize_module")

    def after(result: Any, args: tuple[Any, ...], kwargs: dict[str, Any], seen: Any) -> None:
        given = arguments(args, kwargs)
        plan, mesh = given.get("parallelize_plan"), given.get("device_mesh")
        say.layer(
            "sharding",
            "parallelize_module",
            modules.class_name(given["module"]),
            plan=len(plan) if isinstance(plan, dict) else int(plan is not None),
            styles=_styles(plan),
            mesh=list(mesh.shape) if mesh is not None else None,
            compiled_inside=bool(compiled_parts(given["module"])),
        )

    patching.around(session, NAME, module, "parallelize_module", before, after, group="parallelize_module")


def _styles(plan: Any) -> dict[str, int]:
    """How often each style is in the plan."""
    styles = plan.values() if isinstance(plan, dict) else [plan] if plan is not None else []
    counts: dict[str, int] = {}
    for style in styles:
        name = style if isinstance(style, str) else type(style).__name__
        counts[name] = counts.get(name, 0) + 1
    return counts
