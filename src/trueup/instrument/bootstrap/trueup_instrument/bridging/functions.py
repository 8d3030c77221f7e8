"""Any function around an attention kernel, bridged: an operator with a gradient and known shapes."""

from __future__ import annotations

import contextlib
import inspect
import re
import sys

from trueup_instrument.bridging.operators import captures, define, is_defined, recorded
from trueup_instrument.bridging.signatures import Argument, CannotBridge, arguments_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

NAME = re.compile(r"[A-Za-z_]\w*(::[A-Za-z_]\w*)?")
AUTOCAST = "ScalarType? trueup_autocast"
"""A last argument of the operators: the dtype of autocast where they are called. A graph runs without autocast, which
has been applied to what Dynamo saw; a function of plain operators behind the bridge has still to get it."""
INPUTS = 3
"""Query, key and value: the arguments that have gradients where none are named."""


def bridge(
    function: Callable[..., Any],
    *,
    name: str | None = None,
    backward: Callable[..., Any] | None = None,
    fake: Callable[..., Any] | None = None,
    arguments: Mapping[str, str] | None = None,
    differentiable: Sequence[str] | None = None,
    outputs: int = 1,
) -> Callable[..., Any]:
    """`function`, as an operator where Dynamo, selective checkpointing or FakeTensorMode look; else itself.

    `function(query, key, value, ...)` returns its output, or a tuple of `outputs` tensors with the output first, none
    of which shares memory with an argument. Of all results only the first has a gradient.

    `backward(grad, *results, *arguments)` returns the gradients of the `differentiable` arguments, by default the
    first three tensors. Without it the gradient is the function's own, for which the operator's backward computes the
    function once more: an operator can keep no graph of autograd. A kernel that makes no such graph needs `backward`.

    `fake(*arguments)` returns empty tensors of the shapes and dtypes of the results. Without it the output is
    contiguous, like the query but with the head size of the value; what the kernel returns is compared with that.

    `arguments` has the kinds of those that neither annotation nor default tells: `{"softmax_scale": "float?"}`.

    Raises CannotBridge, a ValueError, for what cannot be an operator.
    """
    import torch

    if hasattr(function, "_trueup_bridge"):
        raise CannotBridge(f"{function} is bridged already, as {function._trueup_bridge}")
    taken = arguments_of(torch, function, dict(arguments or {}))
    full = _full_name(torch, name or str(getattr(function, "__name__", "")))
    inputs = _inputs(taken, differentiable)
    if fake is None and outputs != 1:
        raise CannotBridge(f"{full} returns {outputs} tensors: give fake=, which returns as many")
    made = _Function(torch, function, full, taken, inputs, outputs, backward, fake)
    return made.bridged()


class _Function:
    """One bridged function, with all that its operators need."""

    def __init__(
        self,
        torch: Any,
        function: Callable[..., Any],
        name: str,
        taken: tuple[Argument, ...],
        inputs: tuple[int, ...],
        outputs: int,
        backward: Callable[..., Any] | None,
        fake: Callable[..., Any] | None,
    ) -> None:
        self.torch, self.function, self.name, self.taken = torch, function, name, taken
        self.inputs, self.outputs, self.given_backward, self.given_fake = inputs, outputs, backward, fake

    def bridged(self) -> Callable[..., Any]:
        arguments = ", ".join([*(f"{each.kind} {each.name}" for each in self.taken), AUTOCAST])
        results = ", ".join(["Tensor"] * self.outputs)
        operator = define(
            self.torch, self.name, f"({arguments}) -> {_several(self.outputs, results)}", self.run, self.fake
        )
        grads = ", ".join(["Tensor grad", *(f"Tensor result_{number}" for number in range(self.outputs)), arguments])
        self.backward_operator = define(
            self.torch,
            f"{self.name}_backward",
            f"({grads}) -> {_several(len(self.inputs), ', '.join(['Tensor'] * len(self.inputs)))}",
            self.run_backward,
            self.fake_backward,
        )
        self.torch.library.register_autograd(self.name, self.backward, setup_context=self.keep)
        return self._call(operator)

    def _call(self, operator: Any) -> Callable[..., Any]:
        torch, captured, eager = self.torch, captures(self.torch), self.function
        if self.given_backward is not None:
            eager = self._eager()
        ordered, query = _ordered(self.name, self.taken), self.inputs[0]

        def call(*args: Any, **kwargs: Any) -> Any:
            if not captured():
                return eager(*args, **kwargs)
            given = ordered(args, kwargs)
            kind = given[query].device.type
            autocast = torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else None
            return operator(*given, autocast)

        call.__name__ = call.__qualname__ = getattr(self.function, "__name__", self.name)
        call.__doc__, call.__module__ = self.function.__doc__, self.function.__module__
        call.__signature__ = inspect.signature(self.function)  # type: ignore[attr-defined]
        call._trueup_bridge = operator  # type: ignore[attr-defined]
        return call

    def _eager(self) -> Callable[..., Any]:
        """The kernel and its backward without a dispatcher between them, as a library itself would join them."""
        run, backward, outputs, count = self.call, self.given_backward, self.outputs, len(self.taken)
        inputs, ordered = self.inputs, _ordered(self.name, self.taken)
        assert backward is not None

        class Kernel(self.torch.autograd.Function):  # type: ignore[misc,name-defined]
            @staticmethod
            def forward(ctx: Any, *args: Any) -> Any:
                results = run(*args)
                several = results if outputs > 1 else (results,)
                _save(ctx, args, several)
                ctx.mark_non_differentiable(*several[1:])
                return results

            @staticmethod
            def backward(ctx: Any, grad: Any, *others: Any) -> Any:
                args, results = _saved(ctx)
                return _placed(self.run_backward(grad, *results, *args, None), inputs, count)

        def eager(*args: Any, **kwargs: Any) -> Any:
            return Kernel.apply(*(args if len(args) == count and not kwargs else ordered(args, kwargs)))

        return eager

    def run(self, *given: Any) -> Any:
        *args, autocast = given
        with self._under(autocast, args):
            return self.call(*args)

    def _under(self, autocast: Any, args: Sequence[Any]) -> Any:
        kind = args[self.inputs[0]].device.type
        return self.torch.autocast(kind, dtype=autocast) if autocast is not None else contextlib.nullcontext()

    def call(self, *args: Any) -> Any:
        results = self.function(*args)
        several = tuple(results) if self.outputs > 1 else (results,)
        if self.given_fake is None:
            several = (self._as_foretold(several[0], self._like_query(args)),)
        return several if self.outputs > 1 else several[0]

    def _as_foretold(self, result: Any, foretold: tuple[Any, ...]) -> Any:
        if not isinstance(result, self.torch.Tensor):
            raise CannotBridge(f"{self.name} returns {type(result).__name__}, not a tensor: give outputs= and fake=")
        shape, dtype = foretold
        if tuple(result.shape) != shape or result.dtype != dtype:
            raise CannotBridge(
                f"{self.name} returns {tuple(result.shape)} of {result.dtype}, and {shape} of {dtype} was expected, "
                "like the query: give fake=, which returns an empty tensor of the right shape"
            )
        return result.contiguous()

    def _like_query(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        query = args[self.inputs[0]]
        like = args[self.inputs[2]] if len(self.inputs) >= INPUTS else query
        last = like.shape[-1] if like.ndim == query.ndim else query.shape[-1]
        return (*query.shape[:-1], last), query.dtype

    def fake(self, *given: Any) -> Any:
        args = given[:-1]
        if self.given_fake is not None:
            return self.given_fake(*args)
        shape, dtype = self._like_query(args)
        return args[self.inputs[0]].new_empty(shape, dtype=dtype)

    def run_backward(self, grad: Any, *given: Any) -> Any:
        results, args, autocast = given[: self.outputs], given[self.outputs : -1], given[-1]
        if self.given_backward is None:
            with self._under(autocast, args):
                gradients = self._own_gradient(grad, args)
        else:
            gradients = self.given_backward(grad, *results, *args)
        several = (gradients,) if isinstance(gradients, self.torch.Tensor) else tuple(gradients)
        wanted = [args[place] for place in self.inputs]
        if len(several) != len(wanted) or any(
            found.shape != each.shape or found.dtype != each.dtype for found, each in zip(several, wanted, strict=True)
        ):
            names = ", ".join(self.taken[place].name for place in self.inputs)
            raise CannotBridge(
                f"backward of {self.name} must return a gradient of the shape and dtype of each of {names}; it "
                "returned " + ", ".join(f"{tuple(each.shape)} of {each.dtype}" for each in several)
            )
        kept = tuple(each.contiguous() for each in several)
        return kept if len(kept) > 1 else kept[0]

    def _own_gradient(self, grad: Any, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """The function once more, and its own gradient: below a dispatcher autograd records nothing by itself."""
        torch = self.torch
        again = list(args)
        with torch.enable_grad(), recorded(torch):
            for place in self.inputs:
                again[place] = args[place].detach().requires_grad_()
            results = self.function(*again)
            out = results[0] if self.outputs > 1 else results
            if not out.requires_grad:
                raise CannotBridge(
                    f"{self.name} makes no graph of autograd, so that its gradient is not known: give backward="
                )
            found = torch.autograd.grad(out, [again[place] for place in self.inputs], grad, allow_unused=True)
        return tuple(
            torch.zeros_like(args[place]) if each is None else each
            for each, place in zip(found, self.inputs, strict=True)
        )

    def fake_backward(self, grad: Any, *given: Any) -> Any:
        args = given[self.outputs : -1]
        made = tuple(args[place].new_empty(args[place].shape) for place in self.inputs)
        return made if len(made) > 1 else made[0]

    def keep(self, ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        several = output if self.outputs > 1 else (output,)
        _save(ctx, inputs, several)
        ctx.mark_non_differentiable(*several[1:])

    def backward(self, ctx: Any, grad: Any, *others: Any) -> tuple[Any, ...]:
        args, results = _saved(ctx)
        return _placed(self.backward_operator(grad, *results, *args), self.inputs, len(args))


def _full_name(torch: Any, name: str) -> str:
    if not NAME.fullmatch(name):
        raise CannotBridge(f"{name!r} names no operator: give name=, as in name='my_kernel' or 'my_library::kernel'")
    full = name if "::" in name else f"trueup::{name}"
    if is_defined(torch, full):
        raise CannotBridge(f"an operator {full} exists: give another name=")
    return full


def _inputs(taken: tuple[Argument, ...], named: Sequence[str] | None) -> tuple[int, ...]:
    """The places of the arguments that have gradients."""
    tensors = {each.name: place for place, each in enumerate(taken) if each.kind == "Tensor"}
    wanted = list(tensors)[:INPUTS] if named is None else list(named)
    strange = [name for name in wanted if name not in tensors]
    if strange or not wanted:
        raise CannotBridge(
            f"differentiable= names {', '.join(strange) or 'nothing'}; the arguments that are always tensors: "
            + (", ".join(tensors) or "none")
        )
    return tuple(tensors[name] for name in wanted)


def _ordered(name: str, taken: tuple[Argument, ...]) -> Callable[[Any, Any], list[Any]]:
    """A function from the arguments of a call to all arguments in their order. It raises TypeError for a wrong call."""
    names = tuple(each.name for each in taken)
    defaults = {each.name: each.default for each in taken if each.default is not inspect.Parameter.empty}

    def ordered(args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
        given = {**defaults, **dict(zip(names, args, strict=False)), **kwargs}
        if len(args) > len(names) or len(given) != len(names) or any(each not in given for each in names):
            raise TypeError(
                f"{name} takes {', '.join(names)}; given {len(args)} of them and {', '.join(kwargs) or 'none'}"
            )
        return [given[each] for each in names]

    return ordered


def _several(count: int, written: str) -> str:
    return f"({written})" if count > 1 else written


def _placed(gradients: Any, places: tuple[int, ...], count: int) -> tuple[Any, ...]:
    several = gradients if isinstance(gradients, (tuple, list)) else (gradients,)
    found = dict(zip(places, several, strict=True))
    return tuple(found.get(place) for place in range(count))


def _save(ctx: Any, args: tuple[Any, ...], results: tuple[Any, ...]) -> None:
    """Tensors by save_for_backward, which checkpointing and offloading see; the rest as it is."""
    tensor = sys.modules["torch"].Tensor
    ctx.places = tuple(place for place, each in enumerate(args) if isinstance(each, tensor))
    ctx.rest = tuple(None if isinstance(each, tensor) else each for each in args)
    ctx.save_for_backward(*(args[place] for place in ctx.places), *results)


def _saved(ctx: Any) -> tuple[list[Any], tuple[Any, ...]]:
    args, tensors = list(ctx.rest), ctx.saved_tensors
    for place, each in zip(ctx.places, tensors, strict=False):
        args[place] = each
    return args, tensors[len(ctx.places) :]
