"""What FSDP flattens or reduces together has one dtype: the widest, so that no value is rounded.

Quantised weights stay, and what is wrapped with them takes the dtype that they are stored in.
"""

from __future__ import annotations

from trueup_instrument.appliers.replacing import change_arguments, replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

    from trueup_instrument.appliers.switch import Switch

QUANTISED = ("Params4bit", "Int8Params")


def attach(switch: Switch) -> None:
    switch.after("torch.distributed.fsdp.fully_sharded_data_parallel", lambda module: _fsdp1(switch, module))
    switch.after("torch.distributed.fsdp._fully_shard._fully_shard", lambda module: _fsdp2(switch, module))


def _fsdp1(switch: Switch, module: Any) -> None:
    def cast(arguments: dict[str, Any]) -> None:
        model = arguments["module"]
        ignored: set[int] = set()
        for each in arguments.get("ignored_modules") or ():
            ignored.update(id(parameter) for parameter in each.parameters())
        for state in arguments.get("ignored_states") or ():
            ignored.update(id(each) for each in (state.parameters() if hasattr(state, "parameters") else [state]))
        _unify(switch, model, [each for each in model.parameters() if id(each) not in ignored])

    change_arguments(switch, module.FullyShardedDataParallel, "__init__", cast)


def _fsdp2(switch: Switch, module: Any) -> None:
    """It asks for one dtype of what is trained only."""

    def cast(model: Any) -> None:
        for each in model if isinstance(model, (list, tuple)) else [model]:
            _unify(switch, each, [p for p in each.parameters() if p.requires_grad and not hasattr(p, "device_mesh")])

    cast_first = switch.guarded(cast)

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        def fully_shard(module: Any, **options: Any) -> Any:
            cast_first(module)
            return original(module, **options)

        return fully_shard

    replace(module, "fully_shard", make)


def _unify(switch: Switch, model: Any, parameters: Iterable[Any]) -> None:
    """In place: module, optimizer and program keep the same parameters."""
    floating = [each for each in parameters if each.is_floating_point()]
    dtypes = {each.dtype for each in floating}
    if len(dtypes) < 2:
        return
    stored = {each.dtype for each in floating if type(each).__name__ in QUANTISED}
    if len(stored) > 1:
        switch.cannot(f"quantised weights are stored in {', '.join(sorted(map(str, stored)))}")
        return
    dtype = next(iter(stored), None) or max(dtypes, key=lambda each: (each.itemsize, str(each)))
    others = [each for each in floating if each.dtype != dtype]
    for each in others:
        each.data = each.data.to(dtype)
    switch.changed(f"{len(others)} parameters cast to {dtype}", type(model).__name__)
