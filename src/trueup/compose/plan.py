"""The plan of a composition: typed, frozen data. Nothing here touches torch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

Sharding = Literal["none", "ddp", "fsdp1", "fsdp2"]
DType = Literal["fp32", "bf16", "fp16"]
Beyond = Literal["warn", "raise", "eager"]


@dataclass(frozen=True, kw_only=True, slots=True)
class CompilePolicy:
    """How each block is compiled, and what happens when one of them is compiled again and again."""

    dynamic: bool | None = None
    """As torch.compile takes it: None makes a dimension dynamic once it has varied."""
    fullgraph: bool = False
    """Fail at the first graph break instead of splitting the block."""
    backend: str | Callable[..., Any] = "inductor"
    mode: str | None = None
    """Of inductor: `max-autotune`, `reduce-overhead`, ..."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Of inductor."""
    recompiles_per_block: int | None = 8
    """Variants beyond the first that one block may run; None sets no limit but Dynamo's own.

    Blocks of one class share their compiled variants, and each counts those that it ran itself: one variant per layer
    index is none too many for any block, nine input shapes are eight recompiles for each.
    """
    beyond: Beyond = "warn"
    """Beyond the limit: `warn` once for each block, `raise`, or run this block `eager` from then on.

    Dynamo itself stops to compile a function for all blocks of a class at once.
    """

    def __post_init__(self) -> None:
        _one_of("beyond", self.beyond, Beyond)
        if self.recompiles_per_block is not None and self.recompiles_per_block < 0:
            raise ValueError("CompilePolicy(recompiles_per_block=...) is a number from 0, or None for no limit")
        if (self.mode or self.options) and self.backend != "inductor":
            raise ValueError("CompilePolicy(mode=..., options=...) are inductor's: set backend='inductor'")
        if self.mode and self.options:
            raise ValueError("torch.compile takes mode or options: set one of CompilePolicy(mode=..., options=...)")


@dataclass(frozen=True, kw_only=True, slots=True)
class Checkpointing:
    """Which blocks give up their activations and compute them again in the backward pass."""

    every: int = 1
    """1: each block; 2: every second one."""
    reentrant: bool = False
    preserve_rng_state: bool = True
    """Without it, dropout draws other numbers in the recomputation."""
    context_fn: Callable[[], Any] | None = None
    """Of torch.utils.checkpoint.checkpoint: selective checkpointing."""

    def __post_init__(self) -> None:
        if self.every < 1:
            raise ValueError("Checkpointing(every=...) is 1 for each block, 2 for every second one, ...")


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    """What a model is to get."""

    blocks: tuple[str, ...] = ()
    """Class names of the blocks; empty: the members of the lists in which one class comes more than once."""
    tensor_parallel: Mapping[str, Any] = field(default_factory=dict)
    """Name of a submodule → its ParallelStyle, as `parallelize_module` takes it; `mesh` needs a dimension `tp`."""
    mesh: Any = None
    """A DeviceMesh. None: one dimension over all ranks. The dimension `tp` is tensor-parallel, the others hold data."""
    checkpointing: Checkpointing | None = None
    compile: CompilePolicy | None = None
    sharding: Sharding = "none"
    sharding_options: Mapping[str, Any] = field(default_factory=dict)
    """Further arguments of `fully_shard`, FullyShardedDataParallel or DistributedDataParallel."""
    reshard_after_forward: bool = True
    """FSDP: give gathered parameters back after each forward pass (ZeRO-3), or keep them until backward (ZeRO-2)."""
    use_orig_params: bool = True
    """FSDP1: keep the parameters as they are beside the flat one."""
    precision: DType = "fp32"
    """What the blocks compute in; parameters and optimizer state keep their dtype. fp16 needs a GradScaler of yours."""
    reduce_dtype: DType = "fp32"
    """What FSDP sums gradients in."""

    def __post_init__(self) -> None:
        _one_of("sharding", self.sharding, Sharding)
        _one_of("precision", self.precision, DType)
        _one_of("reduce_dtype", self.reduce_dtype, DType)
        if isinstance(self.blocks, str):
            raise ValueError(f"Plan(blocks=...) is a tuple of class names: blocks=({self.blocks!r},)")
        _a_plan_of("checkpointing", self.checkpointing, Checkpointing)
        _a_plan_of("compile", self.compile, CompilePolicy)


def _a_plan_of(name: str, value: object, kind: type) -> None:
    if value is not None and not isinstance(value, kind):
        raise ValueError(f"Plan({name}=...) is None or a {kind.__name__}: {name}={kind.__name__}(), not {value!r}")


def _one_of(name: str, value: object, kind: Any) -> None:
    if value not in get_args(kind):
        raise ValueError(f"{name}={value!r} is none of {', '.join(map(repr, get_args(kind)))}")
