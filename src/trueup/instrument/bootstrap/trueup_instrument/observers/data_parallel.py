"""Replicated training: DistributedDataParallel, replicate and DataParallel."""

from __future__ import annotations

from trueup_instrument import modules, patching
from trueup_instrument.announcements import Announcements, is_own_decision, spoken
from trueup_instrument.attributes import plain_attribute
from trueup_instrument.wrappers import compiled_parts, modules_given

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType
    from typing import Any

    from trueup_instrument.session import Session

NAME = "data_parallel"


def attach(session: Session) -> None:
    say = Announcements(session)
    session.after_torch(NAME, "torch.nn.parallel.distributed", lambda module: _ddp(session, say, module))
    session.after_torch(NAME, "torch.nn.parallel.data_parallel", lambda module: _data_parallel(session, say, module))
    for name in ("torch.distributed._composable", "torch.distributed._composable.replicate_with_fsdp"):
        session.after_torch(NAME, name, lambda module: _replicate(session, say, module))


def _ddp(session: Session, say: Announcements, module: ModuleType) -> None:
    kind = module.DistributedDataParallel
    arguments = patching.arguments_of(kind.__init__)

    def before(args: tuple[Any, ...], kwargs: dict[str, Any]) -> int:
        wrapped = arguments(args, kwargs).get("module")
        if type(wrapped).__name__ != "ParameterList" and is_own_decision():
            say.request("sharding", "strategy", "DDP", "DistributedDataParallel")
        return compiled_parts(wrapped) if wrapped is not None else 0

    def after(result: Any, args: tuple[Any, ...], kwargs: dict[str, Any], compiled: Any) -> None:
        given = arguments(args, kwargs)
        inside = given["module"]
        if type(inside).__name__ == "ParameterList":  # what replicate() makes at the first forward
            return
        say.layer(
            "sharding",
            "DistributedDataParallel",
            modules.class_name(inside),
            params=sum(1 for parameter in inside.parameters() if parameter.requires_grad),
            compiled_inside=bool(compiled),
            **{name: spoken(given.get(name)) for name in DDP_DETAIL if name in given},
        )

    patching.around(session, NAME, kind, "__init__", before, after)


DDP_DETAIL = (
    "find_unused_parameters",
    "static_graph",
    "gradient_as_bucket_view",
    "bucket_cap_mb",
    "broadcast_buffers",
    "mixed_precision",
)


def _data_parallel(session: Session, say: Announcements, module: ModuleType) -> None:
    def after(result: Any, args: tuple[Any, ...], kwargs: dict[str, Any], seen: Any) -> None:
        replicas = args[0]
        say.request("sharding", "strategy", "DataParallel", "DataParallel")
        say.layer(
            "sharding",
            "DataParallel",
            modules.class_name(replicas.module),
            devices=len(plain_attribute(replicas, "device_ids", ())),
            compiled_inside=bool(compiled_parts(replicas.module)),
        )

    patching.around(session, NAME, module.DataParallel, "__init__", after=after)


def _replicate(session: Session, say: Announcements, module: ModuleType) -> None:
    """Two functions of that name: one on DDP, a newer one on the machinery of fully_shard."""
    if not callable(getattr(module, "replicate", None)):
        return
    arguments = patching.arguments_of(module.replicate)

    def before(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[str, bool]:
        say.request("sharding", "strategy", "DDP", "replicate")
        targets = modules_given(arguments(args, kwargs).get("module"))
        return ", ".join(modules.class_name(target) for target in targets), any(map(compiled_parts, targets))

    def after(result: Any, args: tuple[Any, ...], kwargs: dict[str, Any], seen: Any) -> None:
        given = arguments(args, kwargs)
        policy = given.get("mp_policy")
        say.layer(
            "sharding",
            "replicate",
            seen[0],
            compiled_inside=seen[1],
            param_dtype=spoken(getattr(policy, "param_dtype", None)),
            reduce_dtype=spoken(getattr(policy, "reduce_dtype", None)),
        )

    patching.around(session, NAME, module, "replicate", before, after)
