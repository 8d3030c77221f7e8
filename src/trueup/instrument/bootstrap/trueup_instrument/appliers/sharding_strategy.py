"""`sharding=replicate` and `sharding=grad_op`: FSDP with less of what it does, its units and hooks as they are.

`replicate` splits nothing: FSDP2 gets a mesh that only replicates, with a shard size of one, FSDP1 its strategy
NO_SHARD. `grad_op` splits gradients and optimizer states, and keeps parameters whole between forward and backward:
`reshard_after_forward=False`, SHARD_GRAD_OP.

Replicated, the ranks must agree, where sharded each keeps its own part of the parameters that it made: each part is
taken from the rank that would hold it.
"""

from __future__ import annotations

import sys

from trueup_instrument import modules
from trueup_instrument.appliers.agreeing import agree
from trueup_instrument.appliers.replacing import change_arguments, replace
from trueup_instrument.wrappers import modules_given

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType
    from typing import Any

    from trueup_instrument.appliers.switch import Switch

STATE = "torch.distributed.fsdp._fully_shard._fsdp_state"
FULLY_SHARD = "torch.distributed.fsdp._fully_shard._fully_shard"
FSDP1 = "torch.distributed.fsdp.fully_sharded_data_parallel"


def attach(switch: Switch) -> None:
    if switch.value == "grad_op":
        switch.after(
            FULLY_SHARD, lambda module: change_arguments(switch, module, "fully_shard", _whole_between(switch))
        )
        switch.after(FSDP1, lambda module: _grad_op(switch, module))
        return
    meshes = _Meshes()
    switch.after(FULLY_SHARD, lambda module: _replicated(switch, meshes, module))
    switch.after(STATE, lambda module: _agree_before_first_forward(switch, meshes, module.FSDPState))
    switch.after(FSDP1, lambda module: _no_shard(switch, meshes, module))


# -- parameters whole between forward and backward ---------------------------------------------------------------------


def _whole_between(switch: Switch) -> Callable[[dict[str, Any]], None]:
    def change(arguments: dict[str, Any]) -> None:
        if arguments["reshard_after_forward"] is not False:
            arguments["reshard_after_forward"] = False
            switch.changed("parameters stay whole until the backward pass", _names(arguments["module"]))

    return change


def _grad_op(switch: Switch, module: ModuleType) -> None:
    kind: Any = module
    strategy = kind.ShardingStrategy
    less = {
        None: strategy.SHARD_GRAD_OP,
        strategy.FULL_SHARD: strategy.SHARD_GRAD_OP,
        strategy.HYBRID_SHARD: strategy._HYBRID_SHARD_ZERO2,
    }

    def change(arguments: dict[str, Any]) -> None:
        asked = arguments["sharding_strategy"]
        if asked in less:
            arguments["sharding_strategy"] = less[asked]
            switch.changed(f"strategy {less[asked].name}", modules.class_name(arguments["module"]))

    change_arguments(switch, kind.FullyShardedDataParallel, "__init__", change)


# -- nothing split: FSDP2 ----------------------------------------------------------------------------------------------


class _Meshes:
    """Meshes and groups that replicate, one for each set of ranks."""

    def __init__(self) -> None:
        self._meshes: dict[tuple[Any, ...], Any] = {}
        self._sources: dict[Any, list[int]] = {}

    def of(self, mesh: Any) -> Any:
        """A mesh of (all ranks of `mesh`, 1): replicated over the first axis, sharded over the second."""
        import torch.distributed as dist
        from torch.distributed.device_mesh import DeviceMesh

        ranks = mesh.mesh.flatten().tolist()
        key = (mesh.device_type, *ranks)
        if key not in self._meshes:
            alone = dist.new_group([dist.get_rank()], use_local_synchronization=True)
            self._meshes[key] = DeviceMesh.from_group(
                [self.group(mesh), alone],
                mesh.device_type,
                mesh=[[rank] for rank in ranks],
                mesh_dim_names=("replicate", "shard"),
            )
        found = self._meshes[key]
        self._sources[found] = mesh.mesh.reshape(-1, mesh.mesh.shape[-1])[0].tolist()
        return found

    @staticmethod
    def group(mesh: Any) -> Any:
        """The process group of all ranks of a mesh of one or two dimensions."""
        if mesh.ndim == 1:
            return mesh.get_group()
        distributed = sys.modules["torch"].distributed
        return distributed.new_group(mesh.mesh.flatten().tolist(), use_local_synchronization=True)

    def sources(self, mesh: Any) -> list[int] | None:
        """The ranks that would each hold a part of a parameter on one of these meshes; None for another mesh."""
        return self._sources.get(mesh)


def _replicated(switch: Switch, meshes: _Meshes, module: Any) -> None:
    default_mesh = getattr(module, "_init_default_mesh", None) or module._init_default_fully_shard_mesh

    def change(arguments: dict[str, Any]) -> None:
        targets = modules_given(arguments["module"])
        if arguments.get("dp_mesh_dims") is not None or any(map(_is_distributed, targets)):
            switch.cannot("parameters that another kind of parallelism has split stay sharded", _names(targets))
            return
        mesh = meshes.of(arguments["mesh"] or default_mesh())
        arguments["mesh"] = mesh
        if type(arguments["reshard_after_forward"]) is int:  # a smaller group to shard over in backward
            arguments["reshard_after_forward"] = True
        switch.changed(f"replicated over {mesh.size(0)} ranks, sharded over 1", _names(targets))

    change_arguments(switch, module, "fully_shard", change)


def _is_distributed(module: Any) -> bool:
    """Whether a parameter outside the units already made is a DTensor."""
    from torch.distributed.fsdp import FSDPModule

    waiting = [module]
    while waiting:
        part = waiting.pop()
        if any(hasattr(p, "placements") for p in part._parameters.values() if p is not None):
            return True
        waiting += [child for child in part._modules.values() if child and not isinstance(child, FSDPModule)]
    return False


def _agree_before_first_forward(switch: Switch, meshes: _Meshes, state: Any) -> None:
    agreed = switch.guarded(lambda module: _agree_on_dtensors(meshes, module))

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        def _lazy_init(self: Any) -> None:
            is_root = self._is_root is None
            original(self)
            if is_root:
                for module in self._modules:
                    agreed(module)

        return _lazy_init

    if not replace(state, "_lazy_init", make):
        switch.cannot("ranks that made different parameters keep them", "FSDPState")


def _agree_on_dtensors(meshes: _Meshes, module: Any) -> None:
    for parameter in module.parameters():
        mesh: Any = getattr(parameter, "device_mesh", None)
        sources = meshes.sources(mesh) if mesh is not None else None
        if sources is not None:
            agree(parameter.to_local(), getattr(parameter.placements[-1], "dim", 0), sources, mesh.get_group(0))


# -- nothing split: FSDP1 ----------------------------------------------------------------------------------------------


def _no_shard(switch: Switch, meshes: _Meshes, module: Any) -> None:
    kind = module.FullyShardedDataParallel
    no_shard = module.ShardingStrategy.NO_SHARD

    def change(arguments: dict[str, Any]) -> None:
        if arguments["sharding_strategy"] is no_shard:
            return
        mesh = arguments.get("device_mesh")
        if mesh is not None and mesh.ndim == 2:
            arguments["device_mesh"], arguments["process_group"] = None, meshes.group(mesh)
        elif isinstance(arguments["process_group"], tuple):  # of a hybrid: groups within and across nodes
            arguments["process_group"] = None
        arguments["sharding_strategy"] = no_shard
        switch.changed("strategy NO_SHARD", modules.class_name(arguments["module"]))

    agreed = switch.guarded(_agree_on_flat_parameter)

    def then_agree(original: Callable[..., Any]) -> Callable[..., Any]:
        def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
            original(self, *args, **kwargs)
            agreed(self)

        return __init__

    replace(kind, "__init__", then_agree)
    change_arguments(switch, kind, "__init__", change)


def _agree_on_flat_parameter(unit: Any) -> None:
    handle = getattr(unit, "_handle", None)
    if handle is not None and handle.flat_param.device.type != "meta":
        sources = sys.modules["torch"].distributed.get_process_group_ranks(unit.process_group)
        agree(handle.flat_param.detach(), 0, sources, unit.process_group)


def _names(given: Any) -> str:
    return ", ".join(modules.class_name(target) for target in modules_given(given))
