"""Gradients of whole models, averaged over the ranks that train them, after each outermost backward pass.

The mean is what FSDP and DDP leave. Where units do not reduce, gradients add up until they do. Each rank calls the same
collectives in the same order: one that tells which gradients are there, then one for each unit and dtype.
"""

from __future__ import annotations

import sys
import weakref
from collections import OrderedDict

from trueup_instrument.appliers.replacing import replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any

    from trueup_instrument.appliers.switch import Switch

    Owned = list[tuple["Unit", list[Any]]]
    Before = dict[int, tuple[Any, int]]
    """id of a parameter → its gradient and the version of that, before a backward pass."""


class Unit:
    """Modules whose gradients are reduced together over the ranks of `group`, in `dtype` if that is given."""

    def __init__(self, modules: Iterable[Any], group: Any, dtype: Any = None, ignored: Iterable[Any] = ()) -> None:
        self._modules = [weakref.ref(module) for module in modules]
        self._ignored = [weakref.ref(parameter) for parameter in ignored]
        self.group = group
        self.dtype = dtype
        self.reduces = True
        """Whether the next backward pass reduces gradients."""
        self.divisor: float | None = None
        """What sums of gradients are divided by, where that is not the number of ranks."""
        self.pending: list[weakref.ref[Any]] = []
        """Parameters with gradients that are not reduced yet."""

    @property
    def modules(self) -> list[Any]:
        return [module for reference in self._modules if (module := reference()) is not None]

    def parameters(self) -> Iterator[Any]:
        """Those that the modules hold now, as they came to be: materialized, replaced, or added."""
        ignored = {id(parameter) for reference in self._ignored if (parameter := reference()) is not None}
        for module in self.modules:
            for parameter in module.parameters():
                if id(parameter) not in ignored and not hasattr(parameter, "_local_tensor"):
                    yield parameter


class Averaging:
    """All units of this process, in the order in which they were made: inner ones first."""

    def __init__(self, switch: Switch) -> None:
        self._units: list[Unit] = []
        self._of: weakref.WeakKeyDictionary[Any, Unit] = weakref.WeakKeyDictionary()
        self._hooks: list[tuple[weakref.ref[Any], OrderedDict[int, Callable[..., Any]]]] = []
        self._running = False
        self.before_backward: Callable[[], object] = lambda: None
        switch.after("torch.autograd", lambda module: replace(module, "backward", self._backward))
        switch.after("torch._tensor", lambda module: replace(module.Tensor, HOOK, self._after_reducing))

    def add(self, unit: Unit) -> None:
        self._units = [each for each in self._units if each.modules] + [unit]
        for module in unit.modules:
            self._of[module] = unit

    def units_of(self, module: Any) -> list[Unit]:
        """The units of a module and of its parts."""
        found = [unit for part in module.modules() if (unit := self._of.get(part)) is not None]
        return list(dict.fromkeys(found))

    def unit_of(self, module: Any) -> Unit | None:
        return self._of.get(module)

    def leave(self, module: Any) -> None:
        """The unit of a module is averaged no more."""
        unit = self._of.pop(module, None)
        self._units = [each for each in self._units if each is not unit]

    def _backward(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def backward(*args: Any, **kwargs: Any) -> Any:
            if self._running or not self._units:
                return original(*args, **kwargs)
            self.before_backward()
            owned = self._owned()
            before = {id(each): _state(each) for _, parameters in owned for each in parameters}
            self._running = True
            try:
                result = original(*args, **kwargs)
            finally:
                self._running = False
            self._reduce(owned, before)
            return result

        return backward

    def _owned(self) -> Owned:
        """Each unit with the trained parameters that no unit within it has."""
        taken: set[int] = set()
        owned: Owned = []
        for unit in self._units:
            mine = [each for each in unit.parameters() if each.requires_grad and id(each) not in taken]
            taken.update(map(id, mine))
            owned.append((unit, list({id(each): each for each in mine}.values())))
        return owned

    def _reduce(self, owned: Owned, before: Before) -> None:
        """Raises what the collectives raise."""
        groups: dict[Any, Owned] = {}
        for unit, parameters in owned:
            late = {id(each) for reference in unit.pending if (each := reference()) is not None}
            moved = [each for each in parameters if id(each) in late or _has_moved(each, before[id(each)])]
            unit.pending = [weakref.ref(each) for each in moved]
            if unit.reduces and parameters:
                groups.setdefault(unit.group, []).append((unit, parameters))
        for group, members in groups.items():
            if any(unit.pending for unit, _ in members):
                self._reduce_group(group, members)

    def _reduce_group(self, group: Any, members: Owned) -> None:
        torch: Any = sys.modules["torch"]
        distributed = torch.distributed
        size = distributed.get_world_size(group)
        flags = []
        for unit, parameters in members:
            pending = {id(each) for reference in unit.pending if (each := reference()) is not None}
            flags += [id(each) in pending and each.grad is not None for each in parameters]
        everywhere = torch.tensor(flags, dtype=torch.int32, device=members[0][1][0].device)
        distributed.all_reduce(everywhere, group=group)
        ranks = iter(everywhere.tolist())
        for unit, parameters in members:
            reduced = [each for each in parameters if next(ranks)]
            unit.pending = []
            for parameter in reduced:
                if parameter.grad is None:
                    parameter.grad = torch.zeros_like(parameter)
            _average([each.grad for each in reduced], unit, size)
            self._call_hooks(reduced)

    def _after_reducing(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Hooks that use a gradient as soon as it is there, as an optimizer within the backward pass, get the mean."""

        def register_post_accumulate_grad_hook(tensor: Any, hook: Callable[..., Any]) -> Any:
            if not any(tensor is each for unit in self._units for each in unit.parameters()):
                return original(tensor, hook)
            from torch.utils.hooks import RemovableHandle

            hooks = next((hooks for reference, hooks in self._hooks if reference() is tensor), None)
            if hooks is None:
                hooks = OrderedDict()
                self._hooks.append((weakref.ref(tensor), hooks))
            handle = RemovableHandle(hooks)
            hooks[handle.id] = hook
            return handle

        return register_post_accumulate_grad_hook

    def _call_hooks(self, reduced: list[Any]) -> None:
        for reference, hooks in self._hooks:
            parameter = reference()
            if hooks and any(parameter is each for each in reduced):
                for hook in list(hooks.values()):
                    hook(parameter)


HOOK = "register_post_accumulate_grad_hook"


def _state(parameter: Any) -> tuple[Any, int]:
    gradient = parameter.grad
    return gradient, 0 if gradient is None else gradient._version


def _has_moved(parameter: Any, before: tuple[Any, int]) -> bool:
    gradient, version = _state(parameter)
    return gradient is not None and (gradient is not before[0] or version != before[1])


def _average(gradients: list[Any], unit: Unit, size: int) -> None:
    """Reduce in place: dense gradients of one dtype together, sparse ones each by itself."""
    torch: Any = sys.modules["torch"]
    together: dict[Any, list[Any]] = {}
    with torch.no_grad():
        for gradient in gradients:
            if gradient.is_sparse:
                torch.distributed.all_reduce(gradient, group=unit.group)
                gradient /= unit.divisor or size
            else:
                together.setdefault((gradient.dtype, gradient.device), []).append(gradient)
        for (dtype, _), several in together.items():
            flat = torch.cat([each.reshape(-1) for each in several]).to(unit.dtype or dtype)
            torch.distributed.all_reduce(flat, group=unit.group)
            flat /= unit.divisor or size
            for each, part in zip(several, flat.split([each.numel() for each in several]), strict=True):
                each.copy_(part.view(each.shape))
