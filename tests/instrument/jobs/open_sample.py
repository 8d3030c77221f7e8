"""Jobs that do something else after a training step: a sample may be open meanwhile."""

import gc
import weakref

import models
import torch


def step(model, optimizer):
    models.loss_of(model, torch.randint(0, 16, (2, 7))).backward()
    optimizer.step()
    optimizer.zero_grad()


def let_go():
    """Whether model, parameter and optimizer are gone after training of so many steps, the last one unfinished."""

    def train(steps):
        model = models.Model()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(steps):
            step(model, optimizer)
        models.loss_of(model, torch.randint(0, 16, (2, 7))).backward()
        return [weakref.ref(thing) for thing in (model, model.head.weight, optimizer)]

    told = []
    for steps in (1, 2, 3, 5):
        references = train(steps)
        gc.collect()
        told.append([reference() is None for reference in references])
    return told


def _after_a_long_evaluation(train):
    """Whether a profiler is at work after (few, many, no more) evaluations following a step that opens a sample."""
    model = models.Model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    at_work = []
    step(model, optimizer)
    for calls in (1, 1000):
        with torch.no_grad():
            for _ in range(calls):
                model(torch.zeros(1, 2, dtype=torch.long))
        at_work.append(torch._C._autograd._profiler_enabled())
    train(model, optimizer)
    for _ in range(2):
        step(model, optimizer)
    return at_work


def long_evaluation():
    return _after_a_long_evaluation(step)


def long_evaluation_and_no_module():
    """What trains after it calls no module: nothing shows that the evaluation is over, before the backward pass."""

    def train(model, optimizer):
        torch.mm(model.head.weight, model.head.weight.T).sum().backward()
        optimizer.step()
        optimizer.zero_grad()

    return _after_a_long_evaluation(train)
