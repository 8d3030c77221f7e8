"""`adapter before sharding`: modules are sharded, or replicated, when PEFT has put its adapters into them.

Calls of fully_shard wait until then, or for the optimizer where no adapter comes. DDP looks at the parameters anew.
"""

from __future__ import annotations

import weakref

from trueup_instrument import modules
from trueup_instrument.appliers.binding import Binding
from trueup_instrument.appliers.order import parts
from trueup_instrument.appliers.replacing import replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType
    from typing import Any

    from trueup_instrument.appliers.switch import Switch

FULLY_SHARD = "torch.distributed.fsdp._fully_shard._fully_shard"


def attach(switch: Switch) -> None:
    waiting = Waiting(switch)
    switch.after(FULLY_SHARD, waiting.of_fsdp2)
    switch.after("torch.distributed.fsdp.fully_sharded_data_parallel", waiting.of_fsdp1)
    switch.after(parts.DDP, waiting.of_ddp)
    switch.after(parts.TUNERS, lambda module: waiting.of_adapters(module.BaseTuner, "inject_adapter"))
    for name in ("__init__", "from_pretrained"):
        # mypy infers no type of a lambda with a default
        switch.after(parts.PEFT, lambda module, name=name: waiting.of_adapters(module.PeftModel, name))  # type: ignore[misc]
    switch.after("torch.optim.optimizer", waiting.of_optimizers)


class Waiting:
    """Sharding that waits for adapters."""

    def __init__(self, switch: Switch) -> None:
        self._switch = switch
        self._binding = Binding(switch)
        self._calls: list[tuple[Any, tuple[Any, ...], dict[str, Any]]] = []
        self._owner: Any = None
        self._replaying = False
        self._depth = 0
        self._replicas: weakref.WeakKeyDictionary[Any, tuple[tuple[Any, ...], dict[str, Any]]] = (
            weakref.WeakKeyDictionary()
        )
        """DDP around modules without adapters → its other arguments."""

    def of_fsdp2(self, owner: ModuleType) -> None:
        self._owner = owner
        is_early = self._switch.guarded(self._is_early)

        def make(original: Callable[..., Any]) -> Callable[..., Any]:
            def fully_shard(module: Any, *args: Any, **kwargs: Any) -> Any:
                if not is_early(module):
                    return original(module, *args, **kwargs)
                self._calls.append((module, args, kwargs))
                return module

            return fully_shard

        replace(owner, "fully_shard", make)

    def _is_early(self, module: Any) -> bool:
        return not self._replaying and not any(parts.has_adapter(each) for each in _several(module))

    def of_fsdp1(self, owner: ModuleType) -> None:
        tell = self._switch.guarded(self._tell_fsdp1)

        def make(original: Callable[..., Any]) -> Callable[..., Any]:
            def __init__(unit: Any, *args: Any, **kwargs: Any) -> None:
                original(unit, *args, **kwargs)
                tell(unit)

            return __init__

        replace(owner.FullyShardedDataParallel, "__init__", make)

    def _tell_fsdp1(self, unit: Any) -> None:
        if not parts.has_adapter(unit):
            self._switch.cannot("FSDP1 makes its units at once: what it has sharded takes no adapters")

    def of_ddp(self, owner: ModuleType) -> None:
        keep = self._switch.guarded(self._keep_replica)

        def make(original: Callable[..., Any]) -> Callable[..., Any]:
            def __init__(replica: Any, module: Any, *args: Any, **kwargs: Any) -> None:
                original(replica, module, *args, **kwargs)
                keep(replica, args, kwargs)

            return __init__

        replace(owner.DistributedDataParallel, "__init__", make)

    def _keep_replica(self, replica: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if not self._replaying and not parts.has_adapter(replica):
            self._replicas[replica] = args, kwargs

    def of_adapters(self, owner: Any, name: str) -> None:
        """The outermost of PEFT's entries that are nested; what is around it still sees plain tensors."""
        replay = self._switch.guarded(self._after_adapters)

        def make(original: Callable[..., Any]) -> Callable[..., Any]:
            def entry(*args: Any, **kwargs: Any) -> Any:
                self._depth += 1
                try:
                    result = original(*args, **kwargs)
                finally:
                    self._depth -= 1
                if self._depth == 0:
                    replay()
                return result

            return entry

        replace(owner, name, make)

    def _after_adapters(self) -> None:
        """In the order in which the program made the calls; those of models without adapters go on waiting."""
        ready = [call for call in self._calls if self._has_adapters_around(call[0])]
        self._calls = [call for call in self._calls if not any(call is each for each in ready)]
        self._shard(ready)
        for module, _, _ in ready:
            self._switch.changed("sharded after the adapters came", modules.class_name(_several(module)[0]))
        for replica, (args, kwargs) in list(self._replicas.items()):
            if parts.has_adapter(replica):
                del self._replicas[replica]
                self._again(replica, args, kwargs)

    def _again(self, replica: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self._replaying = True
        try:
            replica.__init__(replica.module, *args, **kwargs)
        finally:
            self._replaying = False
        self._switch.changed("replicated after the adapters came", modules.class_name(replica.module))

    def _has_adapters_around(self, module: Any) -> bool:
        """Whether adapters came into the module, or into another that waits with it and holds it."""
        reached: set[int] = set()
        for other, _, _ in self._calls:
            for root in _several(other):
                if parts.has_adapter(root):
                    reached.update(id(part) for part in root.modules())
        return any(id(each) in reached for each in _several(module))

    def of_optimizers(self, owner: ModuleType) -> None:
        """No adapter came: what waited is sharded now, as it would have been."""
        end = self._switch.guarded(self._end)

        def make(original: Callable[..., Any]) -> Callable[..., Any]:
            def __init__(optimizer: Any, *args: Any, **kwargs: Any) -> None:
                original(optimizer, *args, **kwargs)
                end(optimizer)

            return __init__

        replace(owner.Optimizer, "__init__", make)

    def _end(self, optimizer: Any) -> None:
        if self._calls:
            calls, self._calls = self._calls, []
            self._shard(calls)
            self._binding.rebind(optimizer)
            self._switch.cannot("no adapter came to what was sharded before the optimizer was made")

    def _shard(self, calls: list[tuple[Any, tuple[Any, ...], dict[str, Any]]]) -> None:
        self._replaying = True
        try:
            for module, args, kwargs in calls:
                self._owner.fully_shard(module, *args, **kwargs)
        finally:
            self._replaying = False


def _several(module: Any) -> list[Any]:
    """What fully_shard takes: a module or several."""
    return list(module) if isinstance(module, (list, tuple)) else [module]
