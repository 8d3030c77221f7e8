"""Which kernel a Hugging Face decoder runs on a CPU for each implementation and mask, told before."""

from dataclasses import replace
from typing import Any

import pytest

from trueup.attention.call import Call, Mask, Place
from trueup.attention.predict import predict
from trueup.attention.trial import Ran, tensors, watched

BATCH, LENGTH, HEADS, SIZE = 2, 12, 4, 16
HERE = Place(versions={"torch": (2, 13), "transformers": (5, 24)})
MASKS = {
    "none": Mask(),
    "all-ones": Mask(kind="all-ones"),
    "padding": Mask(kind="padding"),
    "document": Mask(kind="document"),
    "float": Mask(kind="float"),
}


def call(entry: str, mask: Mask, kv_heads: int, *, length: int = LENGTH, **options: Any) -> Call:
    key = (BATCH, kv_heads, LENGTH, SIZE)
    made = Call(
        query=(BATCH, HEADS, length, SIZE), key=key, value=key, dtype="fp32", mask=mask, entry=entry, place=HERE
    )
    return replace(made, **options)


def model(implementation: str, kv_heads: int, window: int | None = None, dropout: float = 0.0) -> Any:
    import transformers

    family = "Mistral" if window else "Llama"
    config = getattr(transformers, f"{family}Config")(
        hidden_size=HEADS * SIZE,
        intermediate_size=32,
        num_hidden_layers=1,
        num_attention_heads=HEADS,
        num_key_value_heads=kv_heads,
        head_dim=SIZE,
        vocab_size=32,
        attention_dropout=dropout,
        **({"sliding_window": window} if window else {}),
    )
    config._attn_implementation = implementation
    return getattr(transformers, f"{family}ForCausalLM")(config)


def inputs(mask: str) -> dict[str, Any]:
    import torch

    ids = torch.arange(BATCH * LENGTH).reshape(BATCH, LENGTH) % 32
    ones = torch.ones(BATCH, LENGTH, dtype=torch.long)
    given: dict[str, Any] = {"input_ids": ids, "use_cache": False}
    if mask == "all-ones":
        given["attention_mask"] = ones
    elif mask == "padding":
        given["attention_mask"] = ones.clone()
        given["attention_mask"][0, -3:] = 0
    elif mask == "float":
        given["attention_mask"] = torch.zeros(BATCH, 1, LENGTH, LENGTH)
    elif mask == "document":
        given["position_ids"] = torch.arange(LENGTH).remainder(LENGTH // 2).expand(BATCH, -1)
    return given


def step(network: Any, given: dict[str, Any]) -> Ran:
    return watched(lambda: network(**given).logits.sum().backward())


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("kv_heads", [HEADS, 2, 1])
@pytest.mark.parametrize(
    ("implementation", "entry", "kernel"), [("eager", "hf-eager", "eager"), ("sdpa", "hf-sdpa", "sdpa-flash-cpu")]
)
def test_a_decoder_in_training(implementation: str, entry: str, kernel: str, kv_heads: int, mask: str):
    before = predict(call(entry, MASKS[mask], kv_heads))
    assert (before.kernel, before.error) == (kernel, "")
    assert step(model(implementation, kv_heads).train(), inputs(mask)) == Ran(kernel, None)


@pytest.mark.parametrize("window", [4, LENGTH, LENGTH + 1])
def test_a_sliding_window(window: int):
    before = predict(call("hf-sdpa", Mask(kind="window", window=window), 2))
    assert before.given.mask.is_tensor == (window <= LENGTH), "a window that hides nothing is no mask"
    assert step(model("sdpa", 2, window).train(), inputs("none")) == Ran(before.kernel, None)


def test_dropout_in_attention_leaves_math():
    before = predict(call("hf-sdpa", Mask(), 2, dropout=0.1))
    assert before.kernel == "sdpa-math"
    assert step(model("sdpa", 2, dropout=0.1).train(), inputs("none")) == Ran("sdpa-math", None)


@pytest.mark.parametrize("kv_heads", [HEADS, 2])
@pytest.mark.parametrize("mask", ["none", "padding"])
def test_what_reaches_scaled_dot_product_attention(monkeypatch, kv_heads: int, mask: str):
    """Not only the kernel: the flags, shapes and mask that the library passes are those that were told."""
    import torch

    seen: list[tuple[Any, ...]] = []
    real = torch.nn.functional.scaled_dot_product_attention

    def spy(query, key, value, attn_mask=None, dropout_p=0.0, scale=None, is_causal=False, enable_gqa=False):
        shapes = tuple(tuple(each.shape) for each in (query, key, value))
        seen.append((*shapes, attn_mask is not None, is_causal, enable_gqa))
        return real(query, key, value, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa)

    monkeypatch.setattr(torch.nn.functional, "scaled_dot_product_attention", spy)
    model("sdpa", kv_heads)(**inputs(mask))
    given = predict(call("hf-sdpa", MASKS[mask], kv_heads)).given
    told = (given.query, given.key, given.value, given.mask.is_tensor, given.is_causal, given.enable_gqa)
    assert seen == [told]


@pytest.mark.parametrize("whole", [True, False], ids=["model", "blocks"])
def test_what_is_compiled_decides_whether_there_is_a_mask(whole: bool):
    """Compiled as a whole, transformers makes a mask where a flag would do, and repeats the heads for it."""
    import torch

    calls: list[tuple[tuple[int, ...], bool, bool]] = []

    def backend(graph, examples):
        for node in graph.graph.nodes:
            if node.target is torch.nn.functional.scaled_dot_product_attention:
                key = tuple(node.args[1].meta["example_value"].shape)
                calls.append((key, node.kwargs["attn_mask"] is not None, bool(node.kwargs.get("enable_gqa"))))
        return graph

    torch._dynamo.reset()
    network = model("sdpa", 2)
    compiled = torch.compile(network, backend=backend) if whole else network
    if not whole:
        network.model.layers[0].compile(backend=backend)
    compiled(**inputs("none"))
    given = predict(call("hf-sdpa", Mask(), 2, compiled=whole)).given
    assert calls == [(given.key, given.mask.is_tensor, given.enable_gqa)]
    assert given.mask.is_tensor == whole


@pytest.mark.parametrize("kv_heads", [HEADS, 2])
def test_one_new_token_with_a_cache(kv_heads: int):
    import torch

    network = model("sdpa", kv_heads).eval()
    with torch.no_grad():
        filled = network(torch.zeros(BATCH, LENGTH - 1, dtype=torch.long), use_cache=True).past_key_values
        token = torch.zeros(BATCH, 1, dtype=torch.long)
        after = watched(lambda: network(token, past_key_values=filled))
    before = predict(call("hf-sdpa", Mask(), kv_heads, length=1, requires_grad=False))
    assert not before.given.mask.is_tensor
    assert not before.given.is_causal
    assert after == Ran(before.kernel, None)


@pytest.mark.slow  # compiles a block mask
def test_flex_on_a_cpu_trains_nothing():
    before = predict(call("flex_attention", Mask(), 2))
    assert "backward" in before.error
    after = step(model("flex_attention", 2).train(), inputs("none"))
    assert after.error is not None
    assert "backward on CPU" in after.error


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "backward on CPU"),
        ({"requires_grad": False, "enable_gqa": False}, "enable_gqa=True"),
        ({"requires_grad": False, "query": (HEADS, LENGTH, SIZE)}, "must be 4D"),
    ],
    ids=["training", "grouped heads without the flag", "3 dimensions"],
)
def test_what_flex_itself_refuses_on_a_cpu(options: dict[str, Any], message: str):
    from torch.nn.attention.flex_attention import flex_attention

    asked = call("flex", Mask(), 2, enable_gqa=True, compiled=True)
    asked = replace(asked, **options)
    if len(asked.query) == 3:
        asked = replace(asked, key=asked.key[1:], value=asked.value[1:])
    assert predict(asked).error
    query, key, value = tensors(asked)
    with pytest.raises((NotImplementedError, ValueError), match=message):
        flex_attention(query, key, value, enable_gqa=asked.enable_gqa)


@pytest.mark.parametrize("version", [2, 3, 4])
def test_flash_attention_on_a_cpu_is_refused(version: int):
    name = f"flash_attention_{version}"
    assert "package" in predict(call(name, Mask(), 2)).error
    with pytest.raises(ImportError):
        model(name, 2)


@pytest.mark.slow  # compiles a kernel
@pytest.mark.parametrize("mask", ["none", "padding"])
def test_flex_without_gradients_is_fused(mask: str):
    import torch

    torch._dynamo.reset()  # a call that failed in training leaves the function to run uncompiled
    before = predict(call("flex_attention", MASKS[mask], 2, requires_grad=False))
    assert (before.kernel, before.error) == ("flex", "")
    network, given = model("flex_attention", 2).eval(), inputs(mask)
    with torch.no_grad():
        network(**given)
        assert watched(lambda: network(**given)) == Ran("flex", None)
