"""Sharded data parallelism: `fully_shard` (FSDP2) and the FullyShardedDataParallel class (FSDP1)."""

from __future__ import annotations

import types

from trueup_instrument import modules, patching
from trueup_instrument.announcements import Announcements, is_own_decision, precision_name, spoken
from trueup_instrument.attributes import plain_attribute
from trueup_instrument.wrappers import compiled_parts, modules_given

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType
    from typing import Any

    from trueup_instrument.session import Session

NAME = "fsdp"


def attach(session: Session) -> None:
    say = Announcements(session)
    session.after_torch(NAME, "torch.distributed.fsdp", lambda module: _fsdp1(session, say, module))
    for name in ("torch.distributed.fsdp", "torch.distributed._composable.fsdp", "torch.distributed._composable"):
        session.after_torch(NAME, name, lambda module: _fsdp2(session, say, module))


def _fsdp2(session: Session, say: Announcements, module: ModuleType) -> None:
    """Every name under which torch exports `fully_shard`, also those it keeps for older programs."""
    if not isinstance(getattr(module, "fully_shard", None), types.FunctionType):
        return
    arguments = patching.arguments_of(module.fully_shard)

    def before(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[str, bool]:
        given = arguments(args, kwargs)
        if is_own_decision():
            strategy = "HSDP" if len(_sizes(given.get("mesh")) or ()) == 2 else "FSDP2"
            say.request("sharding", "strategy", strategy, "fully_shard")
            _request_precision(say, given.get("mp_policy"), "MixedPrecisionPolicy")
        targets = modules_given(given.get("module"))
        return ", ".join(modules.class_name(target) for target in targets), any(map(compiled_parts, targets))

    def after(result: Any, args: tuple[Any, ...], kwargs: dict[str, Any], seen: Any) -> None:
        given = arguments(args, kwargs)
        policy = given.get("mp_policy")
        say.layer(
            "sharding",
            "fully_shard",
            seen[0],
            reshard_after_forward=given.get("reshard_after_forward"),
            mesh=_sizes(given.get("mesh")),
            param_dtype=spoken(getattr(policy, "param_dtype", None)),
            reduce_dtype=spoken(getattr(policy, "reduce_dtype", None)),
            output_dtype=spoken(getattr(policy, "output_dtype", None)),
            cpu_offload=type(given.get("offload_policy")).__name__ == "CPUOffloadPolicy",
            ignored=len(given.get("ignored_params") or ()),
            compiled_inside=seen[1],
        )

    patching.around(session, NAME, module, "fully_shard", before, after)


def _fsdp1(session: Session, say: Announcements, module: ModuleType) -> None:
    """The class wraps submodules by making more of itself: one event, for the outermost, with the number of units."""
    kind = getattr(module, "FullyShardedDataParallel", None)
    if kind is None:
        return
    arguments = patching.arguments_of(kind.__init__)

    def before(args: tuple[Any, ...], kwargs: dict[str, Any]) -> int:
        given = arguments(args, kwargs)
        if is_own_decision():
            say.request("sharding", "strategy", "FSDP1", "FullyShardedDataParallel")
            _request_precision(say, given.get("mixed_precision"), "MixedPrecision")
        wrapped = given.get("module")
        return compiled_parts(wrapped) if wrapped is not None else 0

    def after(result: Any, args: tuple[Any, ...], kwargs: dict[str, Any], compiled: Any) -> None:
        given = arguments(args, kwargs)
        sharded, policy = args[0], given.get("mixed_precision")
        say.layer(
            "sharding",
            "FullyShardedDataParallel",
            modules.class_name(sharded),
            units=sum(isinstance(part, kind) for part in sharded.modules()),
            sharding_strategy=spoken(plain_attribute(sharded, "sharding_strategy", given.get("sharding_strategy"))),
            use_orig_params=given.get("use_orig_params"),
            mixed_precision=policy
            and {
                "param": spoken(policy.param_dtype),
                "reduce": spoken(policy.reduce_dtype),
                "buffer": spoken(policy.buffer_dtype),
            },
            auto_wrap_policy=given.get("auto_wrap_policy") is not None,
            cpu_offload=bool(getattr(given.get("cpu_offload"), "offload_params", False)),
            ignored_modules=len(plain_attribute(sharded, "_ignored_modules") or ()),
            ignored_parameters=len(plain_attribute(sharded, "_ignored_params") or ()),
            compiled_inside=bool(compiled),
        )

    patching.around(session, NAME, kind, "__init__", before, after, group="FSDP1")


def _request_precision(say: Announcements, policy: Any, source: str) -> None:
    say.request("precision", "dtype", precision_name(getattr(policy, "param_dtype", None)), source)


def _sizes(mesh: Any) -> list[int] | None:
    """Sizes of a device mesh, or None where the whole default group is meant."""
    return list(mesh.shape) if mesh is not None else None
