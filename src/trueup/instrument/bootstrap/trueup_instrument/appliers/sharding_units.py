"""`sharding=off:layers.0,layers.1`: these units of FSDP stay whole, the others are sharded as the job has them.

A unit is named as its module is in the model. One that holds other units is always sharded: what it has for itself are
the parameters outside of them. The gradients of a unit that stays whole are averaged over the ranks, and FSDP is told
to ignore its parameters. Of FSDP1 the units are those that `auto_wrap_policy` makes.
"""

from __future__ import annotations

import sys
import types
import weakref

from trueup_instrument import modules
from trueup_instrument.appliers import casting, whole_fsdp1, whole_fsdp2
from trueup_instrument.appliers.agreeing import agree, agree_on_flat
from trueup_instrument.appliers.averaging import Averaging, Unit
from trueup_instrument.appliers.naming import Naming
from trueup_instrument.appliers.replacing import change_arguments, replace
from trueup_instrument.wrappers import modules_given

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType
    from typing import Any

    from trueup_instrument.appliers.switch import Switch


def attach(switch: Switch, averaging: Averaging) -> None:
    units = _Units(switch)
    whole_fsdp2.attach(switch, averaging, units.stays_whole)
    wrapper = _Wrapper(switch, averaging, units)
    switch.after(whole_fsdp1.FSDP1, wrapper.attach)
    switch.after("torch.nn.utils.clip_grad", _clip_both)
    switch.after("torch.optim.optimizer", lambda module: replace(module, "_default_to_fused_or_foreach", _one_by_one))


class _Units:
    """The units that a job makes, in their order."""

    def __init__(self, switch: Switch) -> None:
        self._switch = switch
        self._whole = frozenset(switch.parts or ())
        self._naming = Naming()
        self._names: list[str] = []
        self._made: weakref.WeakSet[Any] = weakref.WeakSet()
        self._kept: weakref.WeakSet[Any] = weakref.WeakSet()

    def chosen(self, unit: Any) -> bool:
        """Whether this unit, which holds no other, is one that stays whole."""
        name = self._naming.of(unit)
        self._names.append(name)
        self._switch.has_parts(self._names)
        return name in self._whole

    def stays_whole(self, arguments: dict[str, Any]) -> bool:
        """The same for a call of `fully_shard`; where it is to shard, it ignores the units within that stay whole."""
        targets = modules_given(arguments["module"])
        parts = [part for target in targets for part in target.modules()]
        holds_units = any(part in self._made for part in parts)
        self._made.update(targets)
        if not holds_units and len(targets) == 1 and self.chosen(targets[0]):
            if "ignored_params" in arguments:
                self._kept.update(targets)
                return True
            self._switch.cannot("this torch has no parameters that fully_shard ignores")
        within = {parameter for part in parts if part in self._kept for parameter in part.parameters()}
        if within:
            arguments["ignored_params"] = {*(arguments["ignored_params"] or ()), *within}
        return False


# -- FSDP1 -------------------------------------------------------------------------------------------------------------


class _Wrapper:
    def __init__(self, switch: Switch, averaging: Averaging, units: _Units) -> None:
        self._switch = switch
        self._averaging = averaging
        self._units = units
        self._wraps = False

    def attach(self, module: ModuleType) -> None:
        change_arguments(self._switch, module.FullyShardedDataParallel, "__init__", self._change)

    def _change(self, given: dict[str, Any]) -> None:
        if given.get("auto_wrap_policy") is None or given.get("ignored_states") is not None:
            return  # one of the wrappers that the policy makes, or the only one
        ignored = set(given.get("ignored_modules") or ())
        state = types.SimpleNamespace(_ignored_modules=ignored, _ignored_params=set())
        whole = [each for each in whole_fsdp1.chosen_by_policy(state, given) if self._units.chosen(each)]
        for unit in whole:
            self._keep_whole(unit, given)
        if whole:
            given["ignored_modules"] = [*ignored, *whole]

    def _keep_whole(self, unit: Any, given: dict[str, Any]) -> None:
        distributed = sys.modules["torch"].distributed
        name = modules.class_name(unit)
        if any(each.is_meta for each in unit.parameters()):
            raise RuntimeError(f"{name} has no values yet")
        group = given.get("process_group")
        group = distributed.group.WORLD if group is None or isinstance(group, tuple) else group
        device = given.get("device_id")
        if device is not None:
            unit.to(device if not isinstance(device, int) else f"cuda:{device}")
        ranks = distributed.get_process_group_ranks(group)
        if given.get("sync_module_states"):
            for each in (*unit.parameters(), *unit.buffers()):
                agree(each.detach(), 0, ranks[:1], group)
        else:
            agree_on_flat(list(unit.parameters()), ranks, group, bool(given.get("use_orig_params")))
        policy = given.get("mixed_precision")
        if policy is not None and policy.param_dtype is not None:
            casting.cast_arguments(unit, policy.param_dtype)
            casting.cast_in_forward(unit, policy.param_dtype)
        self._averaging.add(Unit([unit], group, getattr(policy, "reduce_dtype", None)))
        self._switch.changed(f"parameters stay whole, gradients are averaged over {group.size()} ranks", name)


# -- gradients of which some are split and some are whole, which torch does not take together --------------------------


def _is_mixed(tensors: Any) -> bool:
    return len({hasattr(each, "_local_tensor") for each in tensors if each is not None}) > 1


def _clip_both(module: ModuleType) -> None:
    for name in ("_get_total_norm", "get_total_norm"):
        replace(module, name, _norm_of_both)
    replace(module, "_has_foreach_support", _unless_mixed)


def _norm_of_both(original: Callable[..., Any]) -> Callable[..., Any]:
    def get_total_norm(tensors: Any, norm_type: float = 2.0, *args: Any, **kwargs: Any) -> Any:
        given = [tensors] if isinstance(tensors, sys.modules["torch"].Tensor) else list(tensors)
        if not _is_mixed(given):
            return original(given, norm_type, *args, **kwargs)
        split = [each for each in given if hasattr(each, "_local_tensor")]
        whole = [each for each in given if not hasattr(each, "_local_tensor")]
        both = [original(split, norm_type).full_tensor(), original(whole, norm_type)]
        return original(both, norm_type, *args, **kwargs)

    return get_total_norm


def _unless_mixed(original: Callable[..., Any]) -> Callable[..., Any]:
    def has_foreach_support(tensors: Any, *args: Any, **kwargs: Any) -> Any:
        return original(tensors, *args, **kwargs) and not _is_mixed(tensors)

    return has_foreach_support


def _one_by_one(original: Callable[..., Any]) -> Callable[..., Any]:
    """An optimizer that chooses for itself steps over them in a loop."""

    def default_to_fused_or_foreach(params: Any, *args: Any, **kwargs: Any) -> Any:
        return (False, False) if _is_mixed(params) else original(params, *args, **kwargs)

    return default_to_fused_or_foreach
