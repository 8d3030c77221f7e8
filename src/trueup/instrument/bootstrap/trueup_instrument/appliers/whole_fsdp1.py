"""FSDP1 without its effect: the wrapper calls the module as it is, gradients are averaged over the ranks.

Nothing is flattened, and `auto_wrap_policy` wraps nothing: parameters keep their names, shapes, dtypes and
`requires_grad`, whatever `use_orig_params` says. NO_SHARD would still flatten and hook, and so still fail where that is
the fault; it is not fallen back to, since there is nothing that only it could do. State dicts are whole ones under
every state dict type.
"""

from __future__ import annotations

import contextlib
import inspect
import sys

from trueup_instrument import modules
from trueup_instrument.appliers import casting
from trueup_instrument.appliers.agreeing import agree, agree_on_flat
from trueup_instrument.appliers.averaging import Averaging, Unit
from trueup_instrument.appliers.replacing import replace
from trueup_instrument.wrappers import KEPT_WHOLE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import ModuleType
    from typing import Any

    from trueup_instrument.appliers.switch import Switch

FSDP1 = "torch.distributed.fsdp.fully_sharded_data_parallel"
INSIDE = "_fsdp_wrapped_module."


def attach(switch: Switch, averaging: Averaging) -> None:
    switch.after(FSDP1, lambda module: _Wrapper(switch, averaging, module).attach())


class _Wrapper:
    def __init__(self, switch: Switch, averaging: Averaging, module: ModuleType) -> None:
        self._switch = switch
        self._averaging = averaging
        self._module: Any = module
        self._kind = self._module.FullyShardedDataParallel

    def attach(self) -> None:
        signature = inspect.signature(self._kind.__init__)

        def make(original: Callable[..., Any]) -> Callable[..., Any]:
            def __init__(wrapper: Any, *args: Any, **kwargs: Any) -> None:
                try:
                    bound = signature.bind(wrapper, *args, **kwargs)
                except TypeError:
                    original(wrapper, *args, **kwargs)
                    return
                bound.apply_defaults()
                self._wrap(wrapper, bound.arguments)

            return __init__

        replace(self._kind, "__init__", make)
        for function in (*_methods(self._module.nn.Module), *_contexts(self._averaging), *_of_optimizers()):
            replace(self._kind, function.__name__, _instead(function))
        tell = self._switch.guarded(lambda: self._switch.cannot("the communication hook of FSDP is not called", "FSDP"))
        replace(self._kind, "register_comm_hook", lambda original: lambda wrapper, state, hook: tell())

    def _wrap(self, wrapper: Any, given: dict[str, Any]) -> None:
        """Raises what FSDP raises for wrong arguments, as far as they are used."""
        from torch.distributed.fsdp import _init_utils

        module = given["module"]
        self._module.nn.Module.__init__(wrapper)
        _init_utils._init_ignored_module_states(
            wrapper, module, given.get("ignored_modules"), given.get("ignored_states")
        )
        _init_utils._init_device_handle(wrapper, module, wrapper._ignored_params, given.get("device_id"))
        wrapper._device_mesh = given.get("device_mesh")
        wrapper.process_group = group = self._group(given)
        wrapper.rank, wrapper.world_size = group.rank(), group.size()
        wrapper.__dict__[KEPT_WHOLE] = wrapper.world_size
        wrapper.sharding_strategy = self._module.ShardingStrategy.NO_SHARD
        wrapper._use_orig_params = wrapper._is_root = True
        wrapper._handle = wrapper._comm_hook = None
        wrapper._all_handles = []
        wrapper.training_state = self._module.TrainingState.IDLE
        wrapper.cpu_offload = given.get("cpu_offload") or self._module.CPUOffload()
        wrapper.mixed_precision = given.get("mixed_precision") or self._module.MixedPrecision()
        self._module._init_state_dict_state(wrapper)
        self._materialize(_init_utils, wrapper, given)
        wrapper._fsdp_wrapped_module = module
        wrapper._register_load_state_dict_pre_hook(_load_inside)
        self._agree(wrapper, given)
        self._cast(wrapper, given)
        dtype = getattr(given.get("mixed_precision"), "reduce_dtype", None)
        self._averaging.add(Unit([wrapper], group, dtype, wrapper._ignored_params))
        change = f"parameters stay whole, gradients are averaged over {wrapper.world_size} ranks"
        self._switch.changed(change, modules.class_name(module))

    def _group(self, given: dict[str, Any]) -> Any:
        """The process group of all ranks, where there are groups within and across nodes too."""
        distributed = sys.modules["torch"].distributed
        mesh, group = given.get("device_mesh"), given.get("process_group")
        if mesh is not None:
            ranks = mesh.mesh.flatten().tolist()
            return mesh.get_group() if mesh.ndim == 1 else distributed.new_group(ranks, use_local_synchronization=True)
        if group is None or isinstance(group, tuple):
            return distributed.group.WORLD
        return group

    @staticmethod
    def _materialize(init: Any, wrapper: Any, given: dict[str, Any]) -> None:
        module, device_id, make = given["module"], given.get("device_id"), given.get("param_init_fn")
        is_meta, is_deferred = init._need_to_materialize_module(
            module, wrapper._ignored_params, wrapper._ignored_modules
        )
        if (is_meta or is_deferred) and make is not None:
            init._materialize_with_param_init_fn(module, make, wrapper._ignored_modules)
        elif is_meta:
            init._materialize_meta_module(module, device_id, wrapper._ignored_modules, wrapper._device_handle)
        device = init._get_device_from_device_id(device_id, wrapper.rank, wrapper._device_handle)
        if device is not None:
            left = {id(each) for each in wrapper._ignored_params}
            for each in (*module.parameters(), *module.buffers()):
                if id(each) not in left and each.device != device:
                    each.data = each.data.to(device)
        parameter = next(module.parameters(), None)
        wrapper.compute_device = device or sys.modules["torch"].device("cpu" if parameter is None else parameter.device)

    def _agree(self, wrapper: Any, given: dict[str, Any]) -> None:
        torch: Any = sys.modules["torch"]
        module, group = given["module"], wrapper.process_group
        ranks = torch.distributed.get_process_group_ranks(group)
        if given.get("sync_module_states"):
            for each in (*module.parameters(), *module.buffers()):
                agree(each.detach(), 0, ranks[:1], group)
            return
        taken = {id(each) for each in wrapper._ignored_params}
        for unit in self._averaging.units_of(module):
            taken.update(id(each) for each in unit.parameters())
        for unit in (*chosen_by_policy(wrapper, given), module):
            mine = {id(each): each for each in unit.parameters() if id(each) not in taken}
            taken.update(mine)
            agree_on_flat(list(mine.values()), ranks, group, bool(given.get("use_orig_params")))

    @staticmethod
    def _cast(wrapper: Any, given: dict[str, Any]) -> None:
        policy = given.get("mixed_precision")
        if policy is None:
            return
        if policy.param_dtype is not None:
            if policy.cast_root_forward_inputs or policy.cast_forward_inputs:
                casting.cast_arguments(wrapper, policy.param_dtype)
            kept = tuple(getattr(policy, "_module_classes_to_ignore", ()))
            casting.cast_in_forward(wrapper, policy.param_dtype, wrapper._ignored_params, kept)
        if policy.buffer_dtype is not None:
            for each in wrapper.buffers():
                if each.is_floating_point():
                    each.data = each.data.to(policy.buffer_dtype)


def chosen_by_policy(wrapper: Any, given: dict[str, Any]) -> list[Any]:
    """What the policy would have wrapped, inner modules first."""
    from torch.distributed.fsdp import wrap

    policy, module = given.get("auto_wrap_policy"), given["module"]
    if policy is None:
        return []
    chosen: list[Any] = []
    if isinstance(policy, wrap._Policy):
        wanted = policy._run_policy(module, wrapper._ignored_modules, {})
        return [each for each in reversed(list(module.modules())) if each in wanted and each is not module]

    def choose(module: Any, **_: Any) -> Any:
        chosen.append(module)
        return module

    ignored = (wrapper._ignored_modules, wrapper._ignored_params)
    wrap._recursive_wrap(module, policy, choose, *ignored, only_wrap_children=True)
    return chosen


def _instead(function: Callable[..., Any]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    return lambda original: function


def _load_inside(state_dict: dict[str, Any], prefix: str, *_: Any) -> None:
    from torch.distributed.utils import _replace_by_prefix

    _replace_by_prefix(state_dict, prefix, prefix + INSIDE)


def _methods(base: Any) -> list[Callable[..., Any]]:
    """What a wrapper does that only passes calls on."""

    def forward(self: Any, *args: Any, **kwargs: Any) -> Any:
        return self._fsdp_wrapped_module(*args, **kwargs)

    def state_dict(self: Any, *args: Any, **kwargs: Any) -> Any:
        return self._fsdp_wrapped_module.state_dict(*args, **kwargs)

    def named_parameters(self: Any, *args: Any, **kwargs: Any) -> Iterator[tuple[str, Any]]:
        for name, each in base.named_parameters(self, *args, **kwargs):
            yield name.replace(INSIDE, ""), each

    def named_buffers(self: Any, *args: Any, **kwargs: Any) -> Iterator[tuple[str, Any]]:
        for name, each in base.named_buffers(self, *args, **kwargs):
            yield name.replace(INSIDE, ""), each

    def apply(self: Any, fn: Callable[[Any], None]) -> Any:
        return base.apply(self, fn)

    def _apply(self: Any, *args: Any, **kwargs: Any) -> Any:
        return base._apply(self, *args, **kwargs)

    def check_is_root(self: Any) -> bool:
        return True

    def clip_grad_norm_(self: Any, max_norm: float, norm_type: float = 2.0) -> Any:
        return sys.modules["torch"].nn.utils.clip_grad_norm_(self.parameters(), max_norm, norm_type)

    return [forward, state_dict, named_parameters, named_buffers, apply, _apply, check_is_root, clip_grad_norm_]


def _contexts(averaging: Averaging) -> list[Callable[..., Any]]:
    @contextlib.contextmanager
    def no_sync(self: Any) -> Iterator[None]:
        units = averaging.units_of(self)
        before = [unit.reduces for unit in units]
        for unit in units:
            unit.reduces = False
        try:
            yield
        finally:
            for unit, reduces in zip(units, before, strict=True):
                unit.reduces = reduces

    @contextlib.contextmanager
    def summon_full_params(module: Any, *args: Any, **kwargs: Any) -> Iterator[None]:
        yield

    return [no_sync, summon_full_params]


# -- states of optimizers: by the names of parameters, as FSDP saves them ----------------------------------------------


def _of_optimizers() -> list[Callable[..., Any]]:
    def optim_state_dict(model: Any, optim: Any, optim_state_dict: Any = None, group: Any = None) -> dict[str, Any]:
        given = optim.state_dict() if optim_state_dict is None else optim_state_dict
        return _renamed(given, _names(model, optim))

    def optim_state_dict_to_load(
        model: Any,
        optim: Any,
        optim_state_dict: Any,
        is_named_optimizer: bool = False,
        load_directly: bool = False,
        group: Any = None,
    ) -> dict[str, Any]:
        result = _renamed(optim_state_dict, {name: place for place, name in _names(model, optim).items()})
        if load_directly:
            optim.load_state_dict(result)
        return result

    def full_optim_state_dict(model: Any, optim: Any, *args: Any, **kwargs: Any) -> dict[str, Any]:
        return optim_state_dict(model, optim)

    def sharded_optim_state_dict(model: Any, optim: Any, group: Any = None) -> dict[str, Any]:
        return optim_state_dict(model, optim)

    def shard_full_optim_state_dict(
        full_optim_state_dict: Any, model: Any, optim_input: Any = None, optim: Any = None
    ) -> dict[str, Any]:
        return optim_state_dict_to_load(model, optim, full_optim_state_dict)

    def flatten_sharded_optim_state_dict(sharded_optim_state_dict: Any, model: Any, optim: Any) -> dict[str, Any]:
        return optim_state_dict_to_load(model, optim, sharded_optim_state_dict)

    old: list[Callable[..., Any]] = [full_optim_state_dict, sharded_optim_state_dict, shard_full_optim_state_dict]
    return [optim_state_dict, optim_state_dict_to_load, *old, flatten_sharded_optim_state_dict]


def _renamed(given: dict[str, Any], names: dict[Any, Any]) -> dict[str, Any]:
    return {
        "state": {names.get(key, key): value for key, value in given["state"].items()},
        "param_groups": [
            {**group, "params": [names.get(key, key) for key in group["params"]]} for group in given["param_groups"]
        ],
    }


def _names(model: Any, optim: Any) -> dict[int, str]:
    """Place of a parameter in the optimizer → its name in the model; of all parameters where there is no optimizer."""
    names = {id(each): name.replace(INSIDE, "") for name, each in model.named_parameters()}
    groups = optim.param_groups if optim is not None else [{"params": list(model.parameters())}]
    held = [each for group in groups for each in group["params"]]
    return {place: names[id(each)] for place, each in enumerate(held) if id(each) in names}
