"""torch.distributed's default group and device meshes."""

from __future__ import annotations

from trueup_instrument import patching
from trueup_instrument.announcements import Announcements, spoken

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType
    from typing import Any

    from trueup_instrument.session import Session

NAME = "distributed"


def attach(session: Session) -> None:
    if not hasattr(session, "process_group"):
        session.process_group = None
    say = Announcements(session)
    session.after_torch(NAME, "torch.distributed.distributed_c10d", lambda module: _groups(session, say, module))
    session.after_torch(NAME, "torch.distributed.device_mesh", lambda module: _meshes(session, say, module))


def _groups(session: Session, say: Announcements, module: ModuleType) -> None:
    if not hasattr(module, "init_process_group"):
        return
    arguments = patching.arguments_of(module.init_process_group)

    def initialised(result: Any, args: tuple[Any, ...], kwargs: dict[str, Any], seen: Any) -> None:
        given = arguments(args, kwargs)
        session.process_group = {
            "backend": str(module.get_backend()),
            "world_size": module.get_world_size(),
            "rank": module.get_rank(),
        }
        timeout = given.get("timeout")
        say.layer(
            "launcher",
            "init_process_group",
            **session.process_group,
            requested_backend=spoken(given.get("backend")),
            init_method=_scheme(given.get("init_method")),
            timeout_seconds=timeout.total_seconds() if timeout is not None else None,
        )

    patching.around(session, NAME, module, "init_process_group", after=initialised)


def _scheme(init_method: Any) -> str | None:
    """`env`, `tcp` or `file`: the address itself is nobody's business."""
    return init_method.partition(":")[0] if isinstance(init_method, str) else None


def _meshes(session: Session, say: Announcements, module: ModuleType) -> None:
    if not hasattr(module, "init_device_mesh"):
        return
    arguments = patching.arguments_of(module.init_device_mesh)

    def made(mesh: Any, args: tuple[Any, ...], kwargs: dict[str, Any], seen: Any) -> None:
        given = arguments(args, kwargs)
        names = given.get("mesh_dim_names")
        say.layer(
            "launcher",
            "mesh",
            device=spoken(given.get("device_type")),
            shape=list(given.get("mesh_shape") or ()),
            names=list(names) if names else None,
        )

    patching.around(session, NAME, module, "init_device_mesh", after=made)
