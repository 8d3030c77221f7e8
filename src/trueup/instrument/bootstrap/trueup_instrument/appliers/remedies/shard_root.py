"""What FSDP2 was not given is sharded when the optimizer is made: the root, and adapters attached to its units."""

from __future__ import annotations

from trueup_instrument.appliers.binding import Binding
from trueup_instrument.appliers.replacing import replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from trueup_instrument.appliers.switch import Switch


def attach(switch: Switch) -> None:
    roots = Roots(switch)
    switch.after("torch.distributed.fsdp._fully_shard._fully_shard", roots.of_fsdp)
    switch.after("torch.optim.optimizer", roots.of_optimizers)


class Roots:
    """Models with units of FSDP2, and the options that the last one was sharded with."""

    def __init__(self, switch: Switch) -> None:
        self._switch = switch
        self._binding = Binding(switch)
        self._kind: Any = None
        self._shard: Callable[..., Any] | None = None
        self._options: dict[str, Any] = {}

    def of_fsdp(self, module: Any) -> None:
        self._kind = module.FSDPModule

        def make(original: Callable[..., Any]) -> Callable[..., Any]:
            self._shard = original

            def fully_shard(module: Any, **options: Any) -> Any:
                result = original(module, **options)
                self._options = {name: value for name, value in options.items() if name != "ignored_params"}
                return result

            return fully_shard

        replace(module, "fully_shard", make)

    def of_optimizers(self, module: Any) -> None:
        complete = self._switch.guarded(self._complete)

        def make(original: Callable[..., Any]) -> Callable[..., Any]:
            def init(self: Any, *args: Any, **kwargs: Any) -> None:
                original(self, *args, **kwargs)
                complete(self)

            return init

        replace(module.Optimizer, "__init__", make)

    def _complete(self, optimizer: Any) -> None:
        if self._shard is None:
            return
        given = {id(each) for group in optimizer.param_groups for each in group["params"]}
        for model in self._binding.models():
            units = [part for part in model.modules() if isinstance(part, self._kind)]
            plain = [each for each in model.parameters() if not hasattr(each, "device_mesh")]
            if units and any(id(each) in given for each in plain):
                self._shard_rest(model, units)
                self._binding.rebind(optimizer)

    def _shard_rest(self, model: Any, units: list[Any]) -> None:
        """Parts that came into a unit later are one unit for each; what is in none belongs to the root."""
        assert self._shard is not None
        for unit in units:
            late = [part for part in _own_parts(unit, self._kind) if _holds_plain(part)]
            if late:
                self._shard(late, **self._options)
                self._switch.changed(f"{len(late)} parts sharded that joined later", type(unit).__name__)
        if not isinstance(model, self._kind) and not _is_beneath(model, units):
            name = type(model).__name__
            self._shard(model, **self._options)
            self._switch.changed("the root sharded", name)


def _own_parts(unit: Any, kind: Any) -> list[Any]:
    """The modules below a unit that belong to no other unit."""
    found: list[Any] = []
    waiting = list(unit.children())
    while waiting:
        part = waiting.pop(0)
        if not isinstance(part, kind):
            found.append(part)
            waiting.extend(part.children())
    return found


def _holds_plain(module: Any) -> bool:
    own = list(module.parameters(recurse=False))
    return bool(own) and all(not hasattr(each, "device_mesh") for each in own)


def _is_beneath(model: Any, units: list[Any]) -> bool:
    """True when one unit holds all that the model does: a wrapper around a sharded root, such as PEFT's."""
    names = {id(each) for each in model.parameters()}
    return any(names <= {id(each) for each in unit.parameters()} for unit in units)
