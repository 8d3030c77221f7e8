"""What is compiled inside of `optimizer.step(closure)` is the model's, and not the optimizer's."""

import logging

import pytest
import torch
from torch import nn
from torch._logging import structured

from trueup.instrument import inside

inside.make_importable()
from trueup_instrument.observers.compile_trace import LOGGER, is_of_optimizer  # noqa: E402


class Starts(logging.Handler):
    """The stacks with which Dynamo began to compile, as the observer reads them."""

    def __init__(self):
        super().__init__()
        self.files, self.stacks = {}, []

    def emit(self, record):
        fields = getattr(record, "metadata", None) or {}
        if "str" in fields:
            text, number = fields["str"]
            self.files[number] = text
        elif "dynamo_start" in fields:
            stack = fields["dynamo_start"]["stack"]
            self.stacks.append([(self.files.get(f["filename"], ""), f["line"], f["name"]) for f in stack])


@pytest.fixture
def starts(monkeypatch):
    # Torch names each file once in a process, perhaps to the handler of an earlier test.
    monkeypatch.setattr(structured, "INTERN_TABLE", {})
    logger, handler = logging.getLogger(LOGGER), Starts()
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    torch._dynamo.reset()
    yield handler
    logger.removeHandler(handler)
    logger.setLevel(level)
    torch._dynamo.reset()


def train(model, optimizer, objective):
    def closure():
        optimizer.zero_grad()
        loss = objective(model(torch.randn(2, 4)))
        loss.backward()
        return loss

    optimizer.step(closure)


@pytest.mark.parametrize("kind", [torch.optim.AdamW, torch.optim.LBFGS])
def test_a_compiled_model_in_a_closure_is_not_of_the_optimizer(starts, kind):
    model = nn.Sequential(nn.Linear(4, 4))
    compiled = torch.compile(model, backend="eager")
    train(compiled, kind(model.parameters(), lr=0.1), torch.compile(lambda y: y.square().mean(), backend="eager"))
    assert len(starts.stacks) >= 2
    assert not any(is_of_optimizer(stack) for stack in starts.stacks)


def test_code_that_a_step_compiles_is_of_the_optimizer(starts):
    model = nn.Linear(4, 4)
    model(torch.randn(2, 4)).sum().backward()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    torch.compile(optimizer.step, backend="eager")()
    assert starts.stacks
    assert all(is_of_optimizer(stack) for stack in starts.stacks)
