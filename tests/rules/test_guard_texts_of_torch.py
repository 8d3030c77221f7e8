"""The readers of guards and graph breaks against the installed torch, whose texts change between releases."""

import json
import logging
import time

import pytest

torch = pytest.importorskip("torch")

from trueup.rules.breaks import break_kind  # noqa: E402
from trueup.rules.guards import guard  # noqa: E402
from trueup.schema.record import GraphBreak  # noqa: E402

TRACE = logging.getLogger("torch.__trace")


class Trace(logging.Handler):
    """Keeps what Dynamo says of recompiles and breaks."""

    def __init__(self):
        super().__init__()
        self.recompiles, self.breaks = [], []

    def emit(self, entry):
        name = getattr(entry, "metadata", {}).get("artifact", {}).get("name")
        payload = getattr(entry, "payload", None) or ""
        if name == "recompile_reasons":
            self.recompiles.append(newest(payload))
        elif name == "dynamo_graph_break_reason":
            self.breaks.append(payload)


def newest(payload):
    """The guard of the newest cache entry, on one line, as the instrument writes it."""
    try:
        reasons = json.loads(payload)
    except ValueError:
        reasons = [payload]
    return " ".join(reasons[0].partition("\nUser stack trace")[0].split())


@pytest.fixture
def trace():
    torch._dynamo.reset()
    handler, level = Trace(), TRACE.level
    TRACE.addHandler(handler)
    TRACE.setLevel(logging.DEBUG)
    yield handler
    TRACE.removeHandler(handler)
    TRACE.setLevel(level)
    torch._dynamo.reset()


class Block(torch.nn.Module):
    def __init__(self, index=0):
        super().__init__()
        self.inner = torch.nn.Linear(4, 4)
        self.layer_idx, self.history, self.calls = index, [], 0

    def forward(self, x):
        return self.inner(x) * (1 + self.layer_idx)


class Remembering(Block):
    def forward(self, x):
        return self.inner(x) * len(self.history)


class Counting(Block):
    def forward(self, x):
        return self.inner(x) * self.calls


class Cache:
    def __init__(self):
        self.layers = [Cached() for _ in range(4)]


class Cached:
    is_initialized = False


class Caching(Block):
    def forward(self, x, past_key_values):
        layer = past_key_values.layers[self.layer_idx]
        if not layer.is_initialized:
            layer.is_initialized = True
            return self.inner(x)
        return self.inner(x) + 1


def compiled(module, **options):
    module.compile(backend="eager", **options)
    return module


def per_block():
    for index in range(3):
        compiled(Block(index))(torch.ones(2, 4))


def growing_list():
    block = compiled(Remembering())
    for _ in range(3):
        block(torch.ones(2, 4))
        block.history.append(0.1)


def counter():
    block = compiled(Counting())
    for _ in range(3):
        block(torch.ones(2, 4))
        block.calls += 1


def cache():
    block, past = compiled(Caching()), Cache()
    for _ in range(2):
        block(torch.ones(2, 4), past_key_values=past)


def sizes():
    block = compiled(Block(), dynamic=False)
    for rows in (2, 3, 4):
        block(torch.ones(rows, 4))


def integers():
    function = torch.compile(lambda x, max_seqlen: x * max_seqlen, backend="eager", dynamic=False)
    for length in (2, 3, 4):
        function(torch.ones(2), length)


def grad_modes():
    block = compiled(Block())
    block(torch.ones(2, 4))
    with torch.no_grad():
        block(torch.ones(2, 4))


def models_of_different_width():
    for width in (4, 5):
        block = Block()
        block.inner = torch.nn.Linear(4, width, bias=False)
        compiled(block)(torch.ones(2, 4))


def learning_rate():
    parameter = torch.nn.Parameter(torch.ones(3))
    optimizer = torch.optim.SGD([parameter], lr=0.1)

    @torch.compile(backend="eager")
    def step():
        optimizer.step()

    for _ in range(3):
        parameter.grad = torch.ones(3)
        step()
        optimizer.param_groups[0]["lr"] *= 0.9


@pytest.mark.parametrize(
    ("job", "kind"),
    [
        (per_block, "attribute"),
        (growing_list, "state"),
        (counter, "state"),
        (cache, "cache"),
        (sizes, "size"),
        (integers, "integer"),
        (grad_modes, "mode"),
        (models_of_different_width, "parameter size"),
        (learning_rate, "hyperparameter"),
    ],
)
def test_the_reason_of_a_recompile_is_read(trace, job, kind):
    job()
    assert trace.recompiles, "nothing was compiled again"
    assert [guard(reason).kind for reason in trace.recompiles] == [kind] * len(trace.recompiles)


def item(x):
    return x * x.sum().item() + 1


def branch(x):
    return x + 1 if x.sum() > 0 else x - 1


def printing(x):
    y = x + 1
    print(end="")
    return y + 1


def clock(x):
    return x + time.time()


@torch.compiler.disable
def hidden(x):
    return x + 1


def disabled(x):
    return hidden(x + 1) * 2


@pytest.mark.parametrize(
    ("function", "kind"),
    [(item, "scalar"), (branch, "branch"), (printing, "python"), (clock, "python"), (disabled, "deliberate")],
)
def test_the_reason_of_a_break_is_read(trace, function, kind):
    torch.compile(function, backend="eager")(torch.ones(2))
    assert trace.breaks, "the graph did not break"
    assert {break_kind(GraphBreak(reason=reason)) for reason in trace.breaks} == {kind}
