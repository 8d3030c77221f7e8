"""Which kernel of scaled_dot_product_attention runs on a CPU, told before, against the one that ran."""

from dataclasses import replace

import pytest

from trueup.attention.call import DTYPES, Call, Mask, Place
from trueup.attention.predict import Prediction, predict
from trueup.attention.trial import Ran, tensors, try_sdpa, watched

pytestmark = pytest.mark.filterwarnings("ignore:.*(kernel|kernels) (not used|do not support)", "ignore:.*disabled")

SHAPE = (2, 4, 8, 16)
HERE = Place(versions={"torch": (2, 13)})
PLAIN = Call(query=SHAPE, key=SHAPE, value=SHAPE, dtype="fp32", requires_grad=False, place=HERE)


def of(query=SHAPE, key=None, value=None, **options) -> Call:
    """Keys as the queries, values as the keys, unless they are named."""
    key = key or query
    return replace(PLAIN, query=query, key=key, value=value or key, **options)


def heads(number: int) -> tuple[int, ...]:
    return (2, number, 8, 16)


def masked(kind: str, **options) -> Call:
    return of(mask=Mask(kind=kind, **options))


def off(*names: str, **options) -> Call:
    return of(place=replace(HERE, disabled=frozenset(names)), **options)


CALLS: dict[str, tuple[Call, str | None]] = {
    "plain": (of(), "sdpa-flash-cpu"),
    "training": (of(requires_grad=True), "sdpa-flash-cpu"),
    # grouped heads
    "grouped, enable_gqa": (of(key=heads(2), enable_gqa=True), "sdpa-flash-cpu"),
    "grouped, enable_gqa, training": (of(key=heads(2), enable_gqa=True, requires_grad=True), "sdpa-flash-cpu"),
    "grouped, expanded": (of(key=heads(4)), "sdpa-flash-cpu"),
    "grouped, neither": (of(key=heads(2)), "sdpa-math"),
    "one head of keys, neither": (of(key=heads(1)), "sdpa-math"),
    "one head of keys, enable_gqa": (of(key=heads(1), enable_gqa=True), "sdpa-flash-cpu"),
    "three heads of keys, enable_gqa": (of(key=heads(3), enable_gqa=True), "sdpa-math"),
    "fewer heads of values, enable_gqa": (of(key=heads(2), value=heads(1), enable_gqa=True), "sdpa-math"),
    "grouped, enable_gqa, masked": (
        of(key=heads(2), enable_gqa=True, mask=Mask(kind="padding")),
        "sdpa-flash-cpu",
    ),
    "grouped, 3 dimensions": (of((4, 8, 16), (2, 8, 16), enable_gqa=True), "sdpa-math"),
    "grouped, 2 dimensions": (of((8, 16), enable_gqa=True), "sdpa-math"),
    "one batch of keys for two of queries": (of(key=(1, 4, 8, 16)), "sdpa-math"),
    # masks
    "causal": (masked("causal"), "sdpa-flash-cpu"),
    "causal, fewer keys": (of(key=(2, 4, 5, 16), mask=Mask(kind="causal")), "sdpa-flash-cpu"),
    "causal, one query": (of((2, 4, 1, 16), SHAPE, mask=Mask(kind="causal")), "sdpa-flash-cpu"),
    **{
        f"mask: {kind}": (masked(kind, window=3 if kind == "window" else None), "sdpa-flash-cpu")
        for kind in ("causal-tensor", "padding", "all-ones", "float", "window", "document")
    },
    "mask of fp32 beside bf16": (of(dtype="bf16", mask=Mask(kind="float", dtype="fp32")), "sdpa-flash-cpu"),
    "mask of fp64 beside fp32": (masked("float", dtype="fp64"), None),
    "mask that needs a gradient": (masked("float", requires_grad=True), "sdpa-math"),
    "mask and is_causal": (of(mask=Mask(kind="padding"), causal=True), "sdpa-flash-cpu"),
    "mask and is_causal, dropout": (of(mask=Mask(kind="padding"), causal=True, dropout=0.1), "sdpa-math"),
    **{
        f"mask of shape {shape}": (masked("all-ones", shape=shape), kernel)
        for shape, kernel in {
            (8,): None,
            (8, 8): "sdpa-flash-cpu",
            (1, 8): "sdpa-flash-cpu",
            (8, 1): "sdpa-flash-cpu",
            (1, 8, 8): "sdpa-math",
            (4, 8, 8): "sdpa-math",
            (2, 8, 8): "sdpa-math",
            (2, 1, 1, 8): "sdpa-flash-cpu",
            (2, 1, 8, 8): "sdpa-flash-cpu",
            (2, 4, 8, 8): "sdpa-flash-cpu",
            (1, 3, 8, 8): "sdpa-math",
        }.items()
    },
    # dtypes
    **{dtype: (of(dtype=dtype), "sdpa-flash-cpu") for dtype in DTYPES if dtype != "fp8"},
    "bf16, dropout": (of(dtype="bf16", dropout=0.1), "sdpa-math"),
    # head sizes
    **{
        f"head size {size}": (of((2, 4, 8, size)), "sdpa-flash-cpu")
        for size in (1, 7, 8, 16, 33, 64, 80, 96, 128, 192, 256, 257, 512)
    },
    "values of a smaller size": (of(value=(2, 4, 8, 8)), "sdpa-math"),
    "values of a larger size": (of(value=(2, 4, 8, 24)), "sdpa-math"),
    "keys of another size": (of(key=(2, 4, 8, 8), value=SHAPE), "sdpa-math"),
    # dropout, dimensions, empty and strided inputs
    "dropout": (of(dropout=0.1), "sdpa-math"),
    "dropout, training": (of(dropout=0.1, requires_grad=True), "sdpa-math"),
    "5 dimensions": (of((1, 2, 4, 8, 16)), "sdpa-math"),
    "3 dimensions": (of((4, 8, 16)), "sdpa-math"),
    "2 dimensions": (of((8, 16)), "sdpa-math"),
    "1 dimension": (of((16,)), None),
    "no batch": (of((0, 4, 8, 16)), None),
    "no batch of queries": (of((0, 4, 8, 16), (1, 4, 8, 16)), "sdpa-math"),
    "no heads": (of((2, 0, 8, 16)), None),
    "no queries": (of((2, 4, 0, 16), SHAPE), None),
    "no keys": (of(key=(2, 4, 0, 16)), None),
    "no size": (of((2, 4, 8, 0)), None),
    "no size of queries and keys": (of((2, 4, 8, 0), value=SHAPE), "sdpa-math"),
    "strided": (of(contiguous=False), "sdpa-math"),
    "strided, size 1": (of((2, 4, 8, 1), contiguous=False), "sdpa-math"),
    # switches
    "flash off": (off("flash"), "sdpa-math"),
    "math off": (off("math"), "sdpa-flash-cpu"),
    "math off, dropout": (off("math", dropout=0.1), None),
    "flash and math off": (off("flash", "math"), None),
    "kernels of GPUs off": (off("efficient"), "sdpa-flash-cpu"),
}  # fmt: skip


@pytest.mark.parametrize(("call", "kernel"), CALLS.values(), ids=list(CALLS))
def test_the_kernel_that_is_told_before_is_the_one_that_runs(call: Call, kernel: str | None):
    before = predict(call)
    after = try_sdpa(call)
    assert before.kernel == kernel, "the prediction is not what this table says"
    agree(before, after)


def agree(before: Prediction, after: Ran) -> None:
    assert (before.kernel, before.succeeds) == (after.kernel, after.error is None), f"{before.error} / {after.error}"


@pytest.mark.parametrize("layout", ["strided", "jagged"])
@pytest.mark.filterwarnings("ignore:.*nested tensors")
def test_nested_tensors(layout: str):
    import torch
    from torch.nn.functional import scaled_dot_product_attention

    def nested():
        rows = [torch.randn(length, 4, 16) for length in (5, 7)]
        if layout == "jagged":
            return torch.nested.nested_tensor(rows, layout=torch.jagged).transpose(1, 2)
        return torch.nested.nested_tensor([row.transpose(0, 1).contiguous() for row in rows])

    before = predict(of(nested=True))
    assert before.kernel == "sdpa-math"
    inputs = nested(), nested(), nested()
    agree(before, watched(lambda: scaled_dot_product_attention(*inputs)))


@pytest.mark.parametrize(
    ("backends", "call", "kernel"),
    [
        (("FLASH_ATTENTION",), PLAIN, "sdpa-flash-cpu"),
        (("MATH",), PLAIN, "sdpa-math"),
        (("EFFICIENT_ATTENTION", "MATH"), PLAIN, "sdpa-math"),
        (("FLASH_ATTENTION", "MATH"), of(dropout=0.1), "sdpa-math"),
        (("FLASH_ATTENTION",), of(dropout=0.1), None),
        (("CUDNN_ATTENTION",), PLAIN, None),
    ],
    ids=["flash", "math", "efficient, math", "flash, math, dropout", "flash, dropout", "cudnn"],
)
@pytest.mark.parametrize("set_priority", [False, True])
def test_the_context_that_restricts_kernels_is_followed(backends, call: Call, kernel: str | None, set_priority: bool):
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.nn.functional import scaled_dot_product_attention

    words = {"FLASH_ATTENTION": "flash", "EFFICIENT_ATTENTION": "efficient", "CUDNN_ATTENTION": "cudnn", "MATH": "math"}
    disabled = frozenset(words.values()) - {words[name] for name in backends}
    before = predict(replace(call, place=replace(HERE, disabled=disabled)))
    assert before.kernel == kernel
    inputs = tensors(call)
    with sdpa_kernel([getattr(SDPBackend, name) for name in backends], set_priority=set_priority):
        agree(before, watched(lambda: scaled_dot_product_attention(*inputs, dropout_p=call.dropout)))
