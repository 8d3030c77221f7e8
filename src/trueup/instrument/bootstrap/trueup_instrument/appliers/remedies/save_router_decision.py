"""What a router chose in the forward pass is kept, and chosen again when a checkpoint recomputes the block.

Choices are the results of top-k and its like, copied: a program may normalise them in place. Everything else is
recomputed as before; so is a choice at random, whose result is thrown away, so that the generator goes on as it did.
What Dynamo traces is left alone, and so is a program that compiles anything with a torch whose compiled code falls back
to eager under a dispatch mode.
"""

from __future__ import annotations

import functools

from trueup_instrument.appliers.replacing import change_arguments, replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType
    from typing import Any

    from trueup_instrument.appliers.switch import Switch

    Choices = list[tuple[Any, list[tuple[int, ...]], Any]]
    """(operator, shapes of what it was given, what it gave), in the order of the calls."""

CHOOSING = (
    ("topk", "default"),
    ("sort", "default"),
    ("sort", "stable"),
    ("argmax", "default"),
    ("max", "dim"),
    ("multinomial", "default"),
)


STAYS_EAGER = "this torch runs compiled code eager under the mode that keeps choices"


def attach(switch: Switch) -> None:
    compiled = _compiled(switch)
    switch.after("torch.utils.checkpoint", lambda module: _functions(switch, module, compiled))


def _compiled(switch: Switch) -> Callable[[], bool]:
    """Asks whether the program has compiled anything so far, where that matters."""
    calls: list[bool] = []

    def noting(original: Callable[..., Any]) -> Callable[..., Any]:
        def torch_compile(*args: Any, **options: Any) -> Any:
            if not options.get("disable"):
                calls[:] = [True]
            return original(*args, **options)

        return torch_compile

    switch.after("torch", lambda torch: _compiles_under_modes() or replace(torch, "compile", noting))
    return lambda: bool(calls)


def _functions(switch: Switch, module: ModuleType, compiled: Callable[[], bool]) -> None:
    modes = functools.cache(lambda: _modes(switch))

    def contexts() -> tuple[Any, Any]:
        choices: Choices = []
        around, again = modes()
        return around(choices), again(choices)

    def keep(arguments: dict[str, Any]) -> None:
        import torch

        if arguments.get("use_reentrant") is not False or torch.compiler.is_compiling():
            return
        if arguments.get("context_fn") is not module.noop_context_fn:
            return
        if compiled():
            switch.cannot(STAYS_EAGER)
            return
        arguments["context_fn"] = contexts

    change_arguments(switch, module, "checkpoint", keep)


def _compiles_under_modes() -> bool:
    """Whether Dynamo asks a dispatch mode if compiled code within it may stay compiled."""
    from torch.utils._python_dispatch import TorchDispatchMode

    return hasattr(TorchDispatchMode, "ignore_compile_internals")


def _modes(switch: Switch) -> tuple[Any, Any]:
    """The modes of the forward pass and of the recomputation, of the torch that the program has imported."""
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode
    from torch.utils._pytree import tree_leaves, tree_map_only

    choosing = {getattr(getattr(torch.ops.aten, name), overload) for name, overload in CHOOSING}

    def copied(values: Any) -> Any:
        return tree_map_only(torch.Tensor, lambda tensor: tensor.detach().clone(), values)

    def shapes(arguments: Any) -> list[tuple[int, ...]]:
        return [tuple(each.shape) for each in tree_leaves(arguments) if isinstance(each, torch.Tensor)]

    class Around(TorchDispatchMode):  # type: ignore[misc]  # torch has no types here
        """Sees the operators that choose."""

        def __init__(self, choices: Choices) -> None:
            super().__init__()
            self.choices = choices

        @classmethod
        def ignore_compile_internals(cls) -> bool:
            """Compiled code within the region stays compiled, as within a selective checkpoint of torch."""
            return True

        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if func not in choosing:
                return func(*args, **(kwargs or {}))
            return self.choose(func, args, kwargs or {})

        def choose(self, func: Any, args: Any, kwargs: Any) -> Any:
            made = func(*args, **kwargs)
            self.choices.append((func, shapes((args, kwargs)), copied(made)))
            switch.changed(f"the result of {func} is kept for the recomputation")
            return made

    class Again(Around):
        """Gives what was chosen, from the first choice on in each recomputation."""

        def __enter__(self) -> Any:
            self.place = 0
            return super().__enter__()

        def choose(self, func: Any, args: Any, kwargs: Any) -> Any:
            place, self.place = self.place, self.place + 1
            if place >= len(self.choices) or self.choices[place][:2] != (func, shapes((args, kwargs))):
                return func(*args, **kwargs)
            if torch.Tag.nondeterministic_seeded in func.tags:
                func(*args, **kwargs)  # draws what the forward pass drew
            return copied(self.choices[place][2])

    return Around, Again
