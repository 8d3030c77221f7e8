"""FSDP2 without its effect: modules keep plain parameters and no hooks, gradients are averaged over the ranks.

`fully_shard` still makes an FSDPModule of them, whose methods are taken and do nothing, but for those that say when
gradients are reduced and by what they are divided. What programs ask of DTensors (`full_tensor`, `to_local`,
`device_mesh`, `placements`) plain tensors answer as whole ones would.
"""

from __future__ import annotations

import inspect
import sys
import types

from trueup_instrument import modules, places
from trueup_instrument.appliers import casting
from trueup_instrument.appliers.agreeing import Agreement
from trueup_instrument.appliers.averaging import Averaging, Unit
from trueup_instrument.appliers.casts import TRAINERS
from trueup_instrument.appliers.replacing import replace
from trueup_instrument.wrappers import KEPT_WHOLE, modules_given

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType
    from typing import Any

    from trueup_instrument.appliers.switch import Switch

    StaysWhole = Callable[[dict[str, Any]], bool]

FULLY_SHARD = "torch.distributed.fsdp._fully_shard._fully_shard"


def attach(switch: Switch, averaging: Averaging, stays_whole: StaysWhole = lambda arguments: True) -> None:
    """`stays_whole` says of the arguments of a call of `fully_shard` whether it has no effect, and may change them."""
    agreement = Agreement()
    averaging.before_backward = agreement.settle
    switch.after(FULLY_SHARD, lambda module: _FullyShard(switch, averaging, agreement, module, stays_whole).attach())
    switch.after("torch.distributed.tensor._api", _distribute)


class Whole(tuple):  # type: ignore[type-arg]
    """Placements of a tensor that every rank has whole."""


class _FullyShard:
    def __init__(
        self,
        switch: Switch,
        averaging: Averaging,
        agreement: Agreement,
        module: ModuleType,
        stays_whole: StaysWhole,
    ) -> None:
        self._switch = switch
        self._stays_whole = switch.guarded(stays_whole)
        self._averaging = averaging
        self._agreement = agreement
        self._default_mesh = getattr(module, "_init_default_mesh", None) or module._init_default_fully_shard_mesh
        self._kind = _plain_kind(module.FSDPModule, averaging)
        self._kinds: dict[type, Any] = {}
        self._module = module
        self._groups: dict[Any, Any] = {}

    def attach(self) -> None:
        replace(self._module, "fully_shard", self._make)
        replace(self._module, "register_fsdp_forward_method", self._only_sharded)
        replace(self._module, "share_comm_ctx", self._only_sharded)
        self._switch.after("torch._dynamo.eval_frame", lambda frames: self._compiled(frames.OptimizedModule))

    def _make(self, original: Callable[..., Any]) -> Callable[..., Any]:
        signature = inspect.signature(original)
        keep_whole = self._switch.guarded(self._keep_whole)

        def fully_shard(*args: Any, **kwargs: Any) -> Any:
            try:
                bound = signature.bind(*args, **kwargs)
            except TypeError:
                return original(*args, **kwargs)
            bound.apply_defaults()
            if not self._stays_whole(bound.arguments) or not keep_whole(bound.arguments):
                return original(*bound.args, **bound.kwargs)
            return bound.arguments["module"]

        return fully_shard

    def _only_sharded(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def call(module: Any, *args: Any, **kwargs: Any) -> Any:
            if not any(isinstance(each, self._kind) for each in modules_given(module)):
                return original(module, *args, **kwargs)
            return None

        return call

    def _keep_whole(self, arguments: dict[str, Any]) -> bool:
        targets = modules_given(arguments["module"])
        name = ", ".join(modules.class_name(target) for target in targets)
        if arguments.get("dp_mesh_dims") is not None or any(map(_is_distributed, targets)):
            self._switch.cannot("parameters that another kind of parallelism has split stay sharded", name)
            return False
        mesh = arguments["mesh"] or self._default_mesh()
        group = self._group(mesh)
        ignored = list(arguments.get("ignored_params") or ())
        _move(targets, mesh.device_type, ignored)
        policy, placement = arguments.get("mp_policy"), arguments.get("shard_placement_fn")
        size = sys.modules["torch"].distributed.get_world_size(group)
        sources = mesh.mesh.reshape(-1, mesh.mesh.shape[-1])[0].tolist()
        for target in targets:
            left = {id(each) for each in ignored}
            axes = {n: _axis(placement, p) for n, p in target.named_parameters() if id(p) not in left}
            self._agreement.later(target, axes, sources, group)
            self._cast(target, policy, ignored)
            self._change_class(target)
            target.__dict__[KEPT_WHOLE] = size
        self._averaging.add(Unit(targets, group, getattr(policy, "reduce_dtype", None), ignored))
        _answer_as_distributed(mesh)
        self._switch.changed(f"parameters stay whole, gradients are averaged over {size} ranks", name)
        return True

    def _group(self, mesh: Any) -> Any:
        """The process group of all ranks of a mesh of one or two dimensions."""
        if mesh.ndim == 1:
            return mesh.get_group()
        ranks = tuple(mesh.mesh.flatten().tolist())
        if ranks not in self._groups:
            distributed = sys.modules["torch"].distributed
            self._groups[ranks] = distributed.new_group(list(ranks), use_local_synchronization=True)
        return self._groups[ranks]

    @staticmethod
    def _cast(target: Any, policy: Any, ignored: list[Any]) -> None:
        dtype = getattr(policy, "param_dtype", None)
        if dtype is not None:
            if policy.cast_forward_inputs:
                casting.cast_arguments(target, dtype)
            casting.cast_in_forward(target, dtype, ignored)
        if getattr(policy, "output_dtype", None) is not None:
            casting.cast_result(target, policy.output_dtype)

    def _change_class(self, target: Any) -> None:
        kind = type(target)
        if isinstance(target, self._kind):
            return
        if kind not in self._kinds:
            self._kinds[kind] = type(f"FSDP{kind.__name__}", (self._kind, kind), {})
        self._kinds[kind].__call__ = self._agreeing_call(kind)
        target.__class__ = self._kinds[kind]

    def _agreeing_call(self, kind: Any) -> Callable[..., Any]:
        """Until the ranks agree, the first call of a unit from outside of graphs sees to that; then it is plain."""
        settle = self._switch.guarded(self._settle)

        def __call__(unit: Any, *args: Any, **kwargs: Any) -> Any:
            if not sys.modules["torch"].compiler.is_compiling():
                settle()
            return kind.__call__(unit, *args, **kwargs)

        return __call__

    def _settle(self) -> None:
        if self._agreement.settle():
            for kind in self._kinds.values():
                if "__call__" in vars(kind):
                    del kind.__call__

    def _compiled(self, kind: Any) -> None:
        """A module compiled as a whole is called within its graph: the ranks agree before."""
        settle = self._switch.guarded(self._settle)

        def make(original: Callable[..., Any]) -> Callable[..., Any]:
            def __call__(compiled: Any, *args: Any, **kwargs: Any) -> Any:
                if not sys.modules["torch"].compiler.is_compiling():
                    settle()
                return original(compiled, *args, **kwargs)

            return __call__

        replace(kind, "__call__", make)


def _plain_kind(fsdp: Any, averaging: Averaging) -> Any:
    """A subclass of FSDPModule whose methods leave the module alone."""

    def nothing(self: Any, *args: Any, **kwargs: Any) -> None:
        return None

    def __new__(cls: Any, *args: Any, **kwargs: Any) -> Any:
        own = cls.__mro__[cls.__mro__.index(fsdp) + 1]
        made = own.__new__(own, *args, **kwargs)  # a part of a container is none of these: as FSDP has it
        made.__init__(*args, **kwargs)
        return made

    def __deepcopy__(self: Any, memo: dict[int, Any]) -> Any:
        import copy

        made = object.__new__(type(self))
        memo[id(self)] = made
        made.__dict__.update(copy.deepcopy(self.__dict__, memo))
        return made

    def _apply(self: Any, *args: Any, **kwargs: Any) -> Any:
        return super(fsdp, self)._apply(*args, **kwargs)

    def _get_fsdp_state(self: Any) -> Any:
        """A state that has nothing to do."""
        return types.SimpleNamespace(_fsdp_param_groups=[], _fsdp_param_group=None, _is_root=False, _modules=(self,))

    def unshard(self: Any, async_op: bool = False) -> Any:
        handle = getattr(sys.modules["torch.distributed.fsdp"], "UnshardHandle", types.SimpleNamespace)
        return handle() if async_op else None

    def set_requires_gradient_sync(self: Any, requires_gradient_sync: bool, *, recurse: bool = True) -> None:
        for unit in averaging.units_of(self) if recurse else averaging.units_of(self)[:1]:
            unit.reduces = requires_gradient_sync

    def set_gradient_divide_factor(self: Any, factor: float) -> None:
        averaging.units_of(self)[0].divisor = factor

    silent = {
        name: nothing for name, value in vars(fsdp).items() if inspect.isfunction(value) and not name.startswith("__")
    }
    own = [__new__, __deepcopy__, _apply, _get_fsdp_state, unshard]
    own += [set_requires_gradient_sync, set_gradient_divide_factor]
    methods = {function.__name__: function for function in own}
    methods["set_reduce_scatter_divide_factor"] = set_gradient_divide_factor
    return type("Whole", (fsdp,), {**silent, **methods})


def _is_distributed(module: Any) -> bool:
    """Whether a parameter outside the units already made is a DTensor."""
    return any(hasattr(parameter, "_local_tensor") for parameter in module.parameters())


def _axis(placement: Any, parameter: Any) -> int:
    """The axis along which a parameter would be split."""
    shard = placement(parameter) if placement is not None else None
    shard = getattr(shard, "placement", shard)
    return int(getattr(shard, "dim", 0))


def _move(targets: list[Any], device_type: str, ignored: list[Any]) -> None:
    torch: Any = sys.modules["torch"]
    left = {id(each) for each in ignored}
    device = torch.device(device_type)
    if device_type != "cpu":
        device = torch.device(device_type, torch.get_device_module(device_type).current_device())
    for target in targets:
        for each in (*target.parameters(), *target.buffers()):
            if id(each) not in left and not each.is_meta and each.device != device:
                each.data = each.data.to(device)


# -- what programs ask of DTensors -------------------------------------------------------------------------------------


def _answer_as_distributed(mesh: Any) -> None:
    tensor: Any = sys.modules["torch"].Tensor
    if not hasattr(tensor, "full_tensor"):
        tensor.full_tensor = lambda self, **_: self
        tensor.to_local = lambda self, **_: self
    replicated = sys.modules["torch.distributed.tensor"].Replicate
    tensor.device_mesh = property(lambda self: _asked("device_mesh", mesh))
    tensor.placements = property(lambda self: _asked("placements", Whole([replicated()] * mesh.ndim)))


def _asked(name: str, answer: Any) -> Any:
    """Of the program, or a trainer that shards in its name; for others a plain tensor has none."""
    filename = sys._getframe(2).f_code.co_filename
    if places.is_user_file(filename) or places.installed(filename).partition("/")[0] in TRAINERS:
        return answer
    raise AttributeError(f"'Tensor' object has no attribute {name!r}")


def _distribute(module: ModuleType) -> None:
    def whole(original: Callable[..., Any]) -> Callable[..., Any]:
        def call(tensor: Any, device_mesh: Any = None, placements: Any = None, **kwargs: Any) -> Any:
            if isinstance(placements, Whole):
                return tensor
            return original(tensor, device_mesh, placements, **kwargs)

        return call

    replace(module, "distribute_tensor", whole)
    replace(module.DTensor, "from_local", whole)
