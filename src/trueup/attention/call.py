"""One call of attention, as values: shapes, dtype, mask and what else it asks for, and the place where it runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, get_args

Dtype = Literal["fp64", "fp32", "fp16", "bf16", "fp8"]
DTYPES: tuple[Dtype, ...] = get_args(Dtype)
BYTES: Mapping[Dtype, int] = {"fp64": 8, "fp32": 4, "fp16": 2, "bf16": 2, "fp8": 1}

MaskKind = Literal["none", "causal", "causal-tensor", "all-ones", "padding", "window", "document", "float"]
MASK_KINDS: tuple[MaskKind, ...] = get_args(MaskKind)

Version = tuple[int, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Mask:
    """What is hidden, and how the caller says so."""

    kind: MaskKind = "none"
    """`causal` is the flag, `causal-tensor` the same as a tensor; `all-ones` a tensor that hides nothing; `window` and
    `document` are causal inside of a sliding window, or of each packed document; `float` is added to the scores."""
    window: int | None = None
    """Tokens that a query sees, itself included; with kind `window`."""
    shape: tuple[int, ...] | None = None
    """Of the tensor; None for one that fits the kind."""
    dtype: Dtype | Literal["bool"] | None = None
    """Of the tensor; None for the dtype of the queries with kind `float`, else bool."""
    requires_grad: bool = False
    contiguous: bool = True
    """Whether its last dimension has stride 1."""
    traced: bool = False
    """Whether a library makes it inside of a graph, where it does not look for a flag that says the same."""

    @property
    def is_tensor(self) -> bool:
        """Whether scaled_dot_product_attention is given a tensor for it."""
        return self.kind not in ("none", "causal")

    @property
    def hides_nothing(self) -> bool:
        return self.kind in ("none", "all-ones")

    @property
    def is_plain(self) -> bool:
        """Whether `is_causal`, or nothing at all, says the same."""
        return self.kind in ("none", "all-ones", "causal", "causal-tensor")


@dataclass(frozen=True, kw_only=True, slots=True)
class Place:
    """Where the call runs: the device, what is installed, and what is switched on."""

    device: Literal["cpu", "cuda"] = "cpu"
    capability: Version | None = None
    """Compute capability of the GPU: (9, 0)."""
    versions: Mapping[str, Version] = field(default_factory=dict)
    """Installed package → release. `torch` is always there; `cuda` and `cudnn` are those that torch uses."""
    disabled: frozenset[str] = frozenset()
    """Kernels of scaled_dot_product_attention that are switched off, by torch.backends.cuda or sdpa_kernel."""
    order: tuple[str, ...] | None = None
    """Order that sdpa_kernel(..., set_priority=True) has set for a GPU; None for torch's own."""
    deterministic: bool = False
    """torch.use_deterministic_algorithms(True)."""

    def has(self, package: str, at_least: Version = ()) -> bool:
        """Whether a package of at least this release is here."""
        found = self.versions.get(package)
        return found is not None and found >= at_least

    @property
    def torch(self) -> Version:
        return self.versions.get("torch", ())


@dataclass(frozen=True, kw_only=True, slots=True)
class Call:
    """What one call is given. Shapes are those of scaled_dot_product_attention: (batch, heads, length, head size)."""

    query: tuple[int, ...]
    key: tuple[int, ...]
    value: tuple[int, ...]
    dtype: Dtype = "bf16"
    mask: Mask = Mask()
    causal: bool = False
    """is_causal beside a mask; with mask kind `causal` it is implied."""
    enable_gqa: bool = False
    """The flag, which an entry other than scaled_dot_product_attention may not have."""
    dropout: float = 0.0
    softcap: bool = False
    sinks: bool = False
    """Learned attention sinks: one more column of the softmax."""
    alibi: bool = False
    requires_grad: bool = True
    """Whether one of the inputs does, with gradients on."""
    nested: bool = False
    contiguous: bool = True
    """Whether the last dimension of queries, keys and values has stride 1."""
    compiled: bool = False
    """Whether torch.compile traces it."""
    entry: str = "sdpa"
    """What is called; a name of `trueup.attention.entries`."""
    place: Place = Place()

    @property
    def rank(self) -> int:
        return len(self.query)

    @property
    def batch(self) -> int:
        return self.query[0] if self.rank == 4 else 1

    @property
    def head_size(self) -> int:
        return self.query[-1]

    @property
    def value_size(self) -> int:
        return self.value[-1]

    @property
    def length(self) -> int:
        return self.query[-2] if self.rank > 1 else 1

    @property
    def key_length(self) -> int:
        return self.key[-2] if len(self.key) > 1 else 1

    @property
    def value_length(self) -> int:
        return self.value[-2] if len(self.value) > 1 else 1

    @property
    def heads(self) -> int:
        return self.query[-3] if self.rank > 2 else 1

    @property
    def key_heads(self) -> int:
        return self.key[-3] if len(self.key) > 2 else 1

    @property
    def value_heads(self) -> int:
        return self.value[-3] if len(self.value) > 2 else 1

    @property
    def is_grouped(self) -> bool:
        """Fewer heads of keys and values than of queries."""
        return self.heads != self.key_heads or self.heads != self.value_heads

    @property
    def is_causal(self) -> bool:
        """Whether the flag is set."""
        return self.causal or self.mask.kind == "causal"

    @property
    def mask_shape(self) -> tuple[int, ...]:
        """Of the mask's tensor: (length, length of keys), and before it the batch where rows of it differ."""
        if self.mask.shape is not None:
            return self.mask.shape
        last = (self.length, self.key_length)
        return (self.batch, 1, *last) if self.mask.kind in ("padding", "document") and self.rank == 4 else last

    @property
    def mask_dtype(self) -> str:
        return self.mask.dtype or (self.dtype if self.mask.kind == "float" else "bool")

    def is_gpu(self, *majors: int) -> bool:
        """Whether it runs on a GPU, of one of these generations when some are named."""
        capability = self.place.capability
        if self.place.device != "cuda" or capability is None:
            return False
        return not majors or capability[0] in majors

    def within(self, least: Version, most: Version | None = None) -> bool:
        """Whether the GPU's compute capability is in this range, both ends included."""
        capability = self.place.capability
        if self.place.device != "cuda" or capability is None:
            return False
        return least <= capability and (most is None or capability <= most)
