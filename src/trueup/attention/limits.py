"""Constraints that several kernels share, made for each from its numbers and its source."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from trueup.attention import changes
from trueup.attention.call import Call, Dtype, MaskKind, Version
from trueup.attention.constraints import Change, Constraint, Source

Holds = Callable[[Call], bool]


def dtypes(source: Source, *taken: Dtype, raises: bool = False) -> Constraint:
    """Queries, keys and values of one of these."""
    return Constraint(
        about="dtype",
        needs=listed(taken),
        holds=lambda call: call.dtype in taken,
        given=lambda call: call.dtype,
        change=lambda call: changes.cast(*(each for each in ("bf16", "fp16", "fp32") if each in taken)),
        source=source,
        raises=raises,
    )


def device(source: Source, kind: str, raises: bool = False) -> Constraint:
    """Tensors on a CPU, or on a GPU."""
    return Constraint(
        about="device",
        needs="tensors on a GPU" if kind == "cuda" else "tensors on a CPU",
        holds=lambda call: call.place.device == kind,
        given=lambda call: "a CPU" if call.place.device == "cpu" else "a GPU",
        source=source,
        raises=raises,
    )


def generations(source: Source, least: Version, most: Version | None = None, raises: bool = False) -> Constraint:
    """GPUs from one compute capability on, up to another."""
    upto = f" to {code(most)}" if most else " or newer"
    return Constraint(
        about="GPU",
        needs=f"{code(least)}{upto}",
        holds=lambda call: call.within(least, most),
        given=lambda call: code(call.place.capability) if call.place.capability else "no GPU",
        source=source,
        raises=raises,
    )


def package(source: Source, name: str, least: Version = (), how: str = "") -> Constraint:
    """A distribution that is installed."""
    needs = f"{name} {'.'.join(map(str, least))} or newer" if least else f"{name} installed"

    def given(call: Call) -> str:
        found = call.place.versions.get(name)
        return f"{name} {'.'.join(map(str, found))}" if found else f"no {name}"

    return Constraint(
        about="package",
        needs=needs,
        holds=lambda call: call.place.has(name, least),
        given=given,
        change=lambda call: _installed(how, name, least) if how else None,
        source=source,
        raises=True,
    )


def _installed(how: str, name: str, least: Version) -> Change:
    return Change(words=how, apply=lambda call: with_package(call, name, least), exact=False)


def four_dimensions(source: Source, raises: bool = False) -> Constraint:
    return Constraint(
        about="dimensions",
        needs="queries, keys and values of 4 dimensions",
        holds=lambda call: len(call.query) == len(call.key) == len(call.value) == 4,
        given=lambda call: f"{len(call.query)}, {len(call.key)} and {len(call.value)} dimensions",
        change=changes.four_dimensions,
        source=source,
        raises=raises,
    )


def head_size(
    source: Source,
    most: int,
    multiple: int = 1,
    least: int = 1,
    *,
    when: Holds = lambda call: True,
    about: str = "head size",
    raises: bool = False,
) -> Constraint:
    """Head sizes of queries and values from `least` to `most` that are multiples of something."""

    def fits(size: int) -> bool:
        return least <= size <= most and size % multiple == 0

    def change(call: Call) -> Change | None:
        padded = -(-max(call.head_size, call.value_size, least) // multiple) * multiple
        return changes.pad_sizes(call, multiple) if padded <= most else None

    parts = [f"multiples of {multiple}"] if multiple > 1 else []
    return Constraint(
        about=about,
        needs=" and ".join([*parts, f"from {least} to {most}" if least > 1 else f"at most {most}"]),
        holds=lambda call: not when(call) or (fits(call.head_size) and fits(call.value_size)),
        given=sizes,
        change=change,
        source=source,
        raises=raises,
    )


def aligned_for_cutlass(source: Source) -> Constraint:
    """Head sizes of the memory-efficient kernel: what one load of a matrix product takes."""

    def alignment(call: Call) -> int:
        half = call.dtype in ("fp16", "bf16")
        tensor_cores = call.within((8, 0)) or (call.within((7, 0)) and half)
        least = 4 if call.within((8, 0)) else 1
        return max(least, 8 if half else 4) if tensor_cores else least

    def holds(call: Call) -> bool:
        same = call.query[-1] == call.key[-1]
        return same and all(size > 0 and size % alignment(call) == 0 for size in (call.head_size, call.value_size))

    return Constraint(
        about="head size",
        needs="multiples of 8 in half precision, of 4 in fp32 from sm_80 on",
        holds=holds,
        given=sizes,
        change=lambda call: changes.pad_sizes(call, alignment(call)),
        source=source,
    )


def same_sizes(source: Source, raises: bool = False) -> Constraint:
    return Constraint(
        about="head size",
        needs="queries, keys and values of one head size",
        holds=lambda call: call.query[-1] == call.key[-1] == call.value[-1],
        given=sizes,
        change=changes.pad_sizes,
        source=source,
        raises=raises,
    )


def same_key_size(source: Source, raises: bool = True) -> Constraint:
    return Constraint(
        about="head size",
        needs="queries and keys of one head size",
        holds=lambda call: call.query[-1] == call.key[-1],
        given=sizes,
        source=source,
        raises=raises,
    )


def no_dropout(source: Source, raises: bool = False) -> Constraint:
    return Constraint(
        about="dropout",
        needs="none",
        holds=lambda call: call.dropout == 0,
        given=lambda call: f"dropout_p={call.dropout:g}",
        change=changes.no_dropout,
        source=source,
        raises=raises,
    )


def last_stride(source: Source, *, of_mask: bool, size_of_one: bool = False, raises: bool = False) -> Constraint:
    """Rows in one piece; `size_of_one`: heads of size 1 have no stride that matters."""

    def holds(call: Call) -> bool:
        inputs = call.contiguous or (size_of_one and call.head_size == 1)
        return inputs and (not of_mask or not call.mask.is_tensor or call.mask.contiguous)

    return Constraint(
        about="strides",
        needs="stride 1 in the last dimension",
        holds=holds,
        given=lambda call: "another stride in the last dimension" + ("" if not call.contiguous else " of the mask"),
        change=changes.contiguous,
        source=source,
        raises=raises,
    )


def masks(source: Source, *taken: MaskKind, needs: str, raises: bool = False) -> Constraint:
    """Only these kinds of mask."""
    return Constraint(
        about="mask",
        needs=needs,
        holds=lambda call: call.mask.kind in taken,
        given=mask_in_words,
        change=changes.drop_plain_mask,
        source=source,
        raises=raises,
    )


def without(source: Source, feature: str, words: str, raises: bool = True) -> Constraint:
    """A feature that the kernel has no argument for: a boolean field of the call."""
    return Constraint(
        about=words,
        needs="none, as it has no argument for it",
        holds=lambda call: not getattr(call, feature),
        given=lambda call: words,
        source=source,
        raises=raises,
    )


def grouped_heads(source: Source, raises: bool = True) -> Constraint:
    """As many heads of values as of keys, and their number a divisor of that of the queries."""

    def holds(call: Call) -> bool:
        return call.key_heads == call.value_heads > 0 and call.heads % call.key_heads == 0

    return Constraint(
        about="heads",
        needs="as many heads of keys as of values, a divisor of those of the queries",
        holds=holds,
        given=heads,
        change=changes.expand_heads,
        source=source,
        raises=raises,
    )


def flagged_heads(source: Source) -> Constraint:
    """Groups of heads by the flag alone."""

    def holds(call: Call) -> bool:
        if not call.key_heads == call.value_heads > 0:
            return False
        return call.heads == call.key_heads or (call.enable_gqa and call.heads % call.key_heads == 0)

    return Constraint(
        about="heads",
        needs="as many heads of keys as of queries, or enable_gqa and a divisor of them",
        holds=holds,
        given=heads,
        change=changes.enable_gqa,
        source=source,
        raises=True,
    )


def same_batch(source: Source, raises: bool = False) -> Constraint:
    return Constraint(
        about="batch",
        needs="queries, keys and values of one batch size",
        holds=lambda call: len({shape[0] for shape in (call.query, call.key, call.value)}) == 1,
        given=lambda call: f"{call.query[0]}, {call.key[0]} and {call.value[0]}",
        source=source,
        raises=raises,
    )


def with_package(call: Call, name: str, release: Version) -> Call:
    """The call where a package is installed."""
    versions = {**call.place.versions, name: release or (9999,)}
    return replace(call, place=replace(call.place, versions=versions))


def sizes(call: Call) -> str:
    if call.query[-1] == call.key[-1] == call.value[-1]:
        return str(call.head_size)
    if call.query[-1] == call.key[-1]:
        return f"{call.head_size}, and {call.value_size} of values"
    return f"{call.query[-1]}, {call.key[-1]} and {call.value[-1]}"


def heads(call: Call) -> str:
    flag = " with enable_gqa" if call.enable_gqa else ""
    kv = str(call.key_heads) if call.key_heads == call.value_heads else f"{call.key_heads} and {call.value_heads}"
    return f"{call.heads} heads of queries, {kv} of keys and values{flag}"


MASKS = {
    "none": "no mask",
    "causal": "is_causal",
    "causal-tensor": "a causal mask as a tensor",
    "all-ones": "an all-ones mask",
    "padding": "a padding mask",
    "document": "a mask of packed documents",
    "float": "a float mask",
}


def mask_in_words(call: Call) -> str:
    """`a mask of a sliding window of 128`."""
    if call.mask.kind == "window":
        return f"a sliding window of {call.mask.window}"
    return MASKS[call.mask.kind]


def code(capability: Version | None) -> str:
    """`sm_90` for (9, 0)."""
    return f"sm_{capability[0]}{capability[1]}" if capability else "an unknown GPU"


def listed(names: tuple[str, ...]) -> str:
    """`fp16, bf16 or fp32`."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} or {names[-1]}"
