"""Any attention kernel as one operator: no graph break, the same results, and clear words for what cannot be one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import opaque
import pytest
import torch
from torch.utils.checkpoint import CheckpointPolicy, checkpoint, create_selective_checkpoint_contexts

from trueup.attention import bridge

KERNEL = bridge(opaque.forward, name="tests::kernel", backward=opaque.backward, fake=opaque.fake, outputs=2)
FUNCTION = bridge(opaque.with_its_gradient, name="tests::function", arguments={"scale": "float?"})


def by_kernel(q: Any, k: Any, v: Any) -> Any:
    return KERNEL(q * 1, k, v)[0] * 2


def by_function(q: Any, k: Any, v: Any) -> Any:
    return FUNCTION(q * 1, k, v, scale=opaque.SCALE) * 2


def unbridged(q: Any, k: Any, v: Any) -> Any:
    return opaque.with_its_gradient(q * 1, k, v, scale=opaque.SCALE) * 2


def results(call: Callable[..., Any], **options: Any) -> list[torch.Tensor]:
    given = opaque.inputs(**options)
    out = call(*given)
    out.float().square().sum().backward()
    return [out.detach(), *(each.grad for each in given)]


def close(found: list[torch.Tensor], expected: list[torch.Tensor]) -> bool:
    """Within what bfloat16 rounds the largest value to."""
    pairs = [(a.float(), b.float()) for a, b in zip(found, expected, strict=True)]
    return all((a - b).abs().max() <= 2e-2 * b.abs().max() for a, b in pairs)


def same(found: list[torch.Tensor], expected: list[torch.Tensor]) -> bool:
    return all(torch.equal(a, b) for a, b in zip(found, expected, strict=True))


@pytest.fixture(autouse=True)
def fresh() -> None:
    torch._dynamo.reset()


def test_without_the_bridge_the_graph_breaks() -> None:
    with pytest.raises(torch._dynamo.exc.Unsupported, match="disable"):
        torch.compile(unbridged, backend="eager", fullgraph=True)(*opaque.inputs())


@pytest.mark.parametrize("call", [by_kernel, by_function])
@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_one_graph_with_the_results_of_the_eager_call(call: Callable[..., Any], backend: str) -> None:
    compiled = torch.compile(call, backend=backend, fullgraph=True)
    assert same(results(compiled), results(call))
    assert close(results(call), results(unbridged))


def test_autocast_is_what_it_was_for_a_function_of_plain_operators() -> None:
    def mixed(q: Any, k: Any, v: Any) -> Any:
        with torch.autocast("cpu", torch.bfloat16):
            return by_kernel(q, k, v)

    compiled = torch.compile(mixed, backend="aot_eager", fullgraph=True)
    found = results(compiled, dtype=torch.float32)
    assert found[0].dtype == torch.float32
    assert same(found, results(mixed, dtype=torch.float32))


@pytest.mark.parametrize("arguments", [(KERNEL, True), (FUNCTION, True, opaque.SCALE)])
def test_the_operators_are_sound(arguments: tuple[Any, ...]) -> None:
    bridged, *rest = arguments
    found = torch.library.opcheck(bridged._trueup_bridge, (*opaque.inputs(), *rest, None))
    assert set(found.values()) == {"SUCCESS"}


def saving() -> Any:
    def policy(context: Any, operator: Any, *args: Any, **kwargs: Any) -> CheckpointPolicy:
        kept = operator is KERNEL._trueup_bridge
        return CheckpointPolicy.MUST_SAVE if kept else CheckpointPolicy.PREFER_RECOMPUTE

    return create_selective_checkpoint_contexts(policy)


@pytest.mark.parametrize("compiled", [False, True])
def test_a_policy_of_selective_checkpointing_names_the_operator(
    compiled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the policy saves runs once, all else twice."""
    calls: list[int] = []
    original = opaque.scores
    monkeypatch.setattr(opaque, "scores", lambda *args: calls.append(1) or original(*args))

    def kept(q: Any, k: Any, v: Any) -> Any:
        return checkpoint(by_kernel, q, k, v, use_reentrant=False, context_fn=saving)

    def computed_again(q: Any, k: Any, v: Any) -> Any:
        return checkpoint(by_kernel, q, k, v, use_reentrant=False)

    for call, runs in ((kept, 2), (computed_again, 3)):  # one of them is the backward's
        calls.clear()
        ran = torch.compile(call, backend="aot_eager", fullgraph=True) if compiled else call
        found = results(ran)
        assert len(calls) == runs
        assert same(found, results(by_kernel))


def test_shapes_are_known_under_fake_tensors() -> None:
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        q, k, v = (torch.empty(2, 8, heads, 8, dtype=torch.bfloat16) for heads in (4, 2, 2))
        out, lse = KERNEL(q, k, v)
    assert (tuple(out.shape), tuple(lse.shape)) == ((2, 8, 4, 8), (2, 4, 8))


def test_a_kernel_without_a_gradient_says_so() -> None:
    plain = bridge(lambda q, k, v: opaque.forward(q, k, v)[0], name="tests::no_gradient")
    with pytest.raises(ValueError, match=r"tests::no_gradient makes no graph of autograd.*give backward="):
        results(torch.compile(lambda q, k, v: plain(q, k, v), backend="aot_eager", fullgraph=True))


def test_a_result_of_another_shape_than_foretold_says_so() -> None:
    short = bridge(lambda q, k, v: q[:, :4] * 1, name="tests::short")
    with pytest.raises(ValueError, match=r"returns \(2, 4, 4, 8\).*\(2, 8, 4, 8\).*give fake="):
        torch.compile(lambda q, k, v: short(q, k, v), backend="aot_eager", fullgraph=True)(*opaque.inputs())


def test_a_wrong_backward_says_what_it_must_return() -> None:
    wrong = bridge(
        opaque.forward, name="tests::wrong", backward=lambda grad, *rest: (grad, grad), fake=opaque.fake, outputs=2
    )
    with pytest.raises(ValueError, match="a gradient of the shape and dtype of each of q, k, v; it returned"):
        results(lambda q, k, v: wrong(q, k, v)[0])


@pytest.mark.parametrize(
    ("function", "options", "words"),
    [
        (torch._C._nn.gelu, {"name": "tests::a"}, "bridge a Python function that calls it"),
        (lambda *states: states[0], {"name": "tests::b"}, "takes \\*states"),
        (lambda q, k, v, scale=None: q, {"name": "tests::c"}, "arguments={'scale': 'float\\?'}"),
        (lambda q, k, v: q, {}, "give name="),
        (lambda q, k, v: q, {"name": "tests::kernel"}, "exists: give another name"),
        (lambda q, k, v: q, {"name": "tests::d", "arguments": {"w": "int"}}, "names w, which .* takes q, k, v"),
        (lambda q, k, v: q, {"name": "tests::e", "arguments": {"q": "Matrix"}}, "'Matrix' for q is no kind"),
        (lambda q, k, v: q, {"name": "tests::f", "outputs": 2}, "give fake="),
        (lambda q, k, v: q, {"name": "tests::g", "differentiable": ["w"]}, "names w; .* q, k, v"),
        (KERNEL, {"name": "tests::h"}, "bridged already"),
    ],
)
def test_what_cannot_be_an_operator_says_what_to_give(
    function: Callable[..., Any], options: dict[str, Any], words: str
) -> None:
    with pytest.raises(ValueError, match=words):
        bridge(function, **options)


@pytest.mark.parametrize("compiled", [False, True])
def test_a_wrong_call_is_refused(compiled: bool) -> None:
    def call(q: Any, k: Any, v: Any) -> Any:
        return KERNEL(q, k, v, casual=False)[0]

    ran = torch.compile(call, backend="eager", fullgraph=True) if compiled else call
    with pytest.raises((TypeError, torch._dynamo.exc.Unsupported), match="takes q, k, v, causal"):
        ran(*opaque.inputs())
