"""Models that append to a list: told of each, which of its lists its code only appends to."""

import functools
import json
import math
import sys
import types

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

sys.path.insert(0, sys.argv[1])
from trueup_instrument.appliers.appended import appended_lists
from trueup_instrument.appliers.reached import plain

helpers = types.ModuleType("helpers")
exec("def scale(model):\n    return 1 / (1 + len(model.history))", vars(helpers))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear, self.history = nn.Linear(4, 4), []

    def forward(self, x):
        return self.step(x)

    def step(self, x):
        y = self.linear(x)
        self.history.append(y.detach().norm())
        return y


class Tracker:
    def __init__(self, model=None):
        self.value = 0 if model is None else len(model.history)

    def scale(self, model):
        return 1 / (1 + len(model.history))

    def watch(self, model, inputs, outputs):
        return outputs / (1 + len(model.history))

    def __call__(self, model, inputs, outputs):
        return outputs / (1 + len(model.history))


class Plain:
    """Looks at numbers alone."""

    def scale(self, value):
        return value * 2

    def __call__(self, model, inputs, outputs):
        return outputs * 2


def doubled(x):
    return torch.relu(x) * 2 / math.sqrt(x.shape[-1])


class Deep(Model):
    """Much that a model does, with nothing that reads the list."""

    def __init__(self):
        super().__init__()
        self.tracker, self.layers = Plain(), nn.ModuleList(nn.Linear(4, 4) for _ in range(2))
        self.function, self.factor, self.names = functools.partial(torch.add, alpha=2), 2.0, ["a"]

    @property
    def half(self):
        return self.factor / 2

    @torch.no_grad()
    def norm(self, x):
        return x.norm()

    def inner(self, x):
        return nn.functional.gelu(self.linear(x))

    def forward(self, x, mask=None):
        for layer in self.layers:
            x = checkpoint(layer, doubled(x), use_reentrant=False)
        if self.training and mask is None:
            self.history.append(self.norm(x))
        kept = [each * self.half for each in (x, x)]
        return super().forward(
            self.function(checkpoint(self.inner, x, use_reentrant=False), self.tracker.scale(kept[0]))
        )


class Measured(Model):
    def forward(self, x):
        return super().forward(x) / (1 + len(self.history))


class Above(Measured):
    def forward(self, x):
        y = super().forward(x)
        self.history.append(y.detach().norm())
        return y


class Tracked(Model):
    tracker = Tracker()

    def forward(self, x):
        return self.step(x) * self.tracker.scale(self)


class Holding(nn.Module):
    """Its part appends; it hands the part on."""

    def __init__(self, scale=None):
        super().__init__()
        self.part, self.scale, self.scales = Model(), scale, [scale]

    def forward(self, x):
        return self.part(x) * self.scale(self.part)


class Looping(Holding):
    def forward(self, x):
        return self.part(x) * self.scales[0](self.part)


class Imported(Model):
    def forward(self, x):
        return self.step(x) * helpers.scale(self)


class ImportedForPart(Holding):
    def forward(self, x):
        return self.part(x) * helpers.scale(self.part)


class ImportedWithin(Holding):
    def forward(self, x):
        import helpers

        return self.part(x) * helpers.scale(self.part)


class Constructing(Holding):
    def forward(self, x):
        return self.part(x) * Tracker(self.part).value


class Cached(Model):
    @functools.cached_property
    def size(self):
        return len(self.history)

    def forward(self, x):
        return self.step(x) * self.size


def hooked(hook):
    model = Model()
    model.register_forward_hook(hook)
    return model


MODELS = {
    "plain": Model,
    "deep": Deep,
    "a part": lambda: Holding(lambda part: part.linear.weight.mean()),
    "hook that reads nothing": lambda: hooked(Plain()),
    "base": Above,
    "tracker": Tracked,
    "bound method": lambda: Holding(Tracker().scale),
    "partial": lambda: Holding(functools.partial(Tracker.scale, None)),
    "function in a list": lambda: Looping(Tracker().scale),
    "hook that is an object": lambda: hooked(Tracker()),
    "hook that is a method": lambda: hooked(Tracker().watch),
    "module": Imported,
    "module for a part": ImportedForPart,
    "import": ImportedWithin,
    "constructor": Constructing,
    "cached": Cached,
}
told = {}
for name, make in MODELS.items():
    model = make()
    told[name] = sorted({key for _, key in appended_lists(model)})
arguments = {
    "tensors": ((torch.ones(2),), {"mask": None, "more": [1, {"a": torch.ones(1)}]}),
    "object": ((Tracker(),), {}),
}
print(json.dumps([told, {name: plain(each) for name, each in arguments.items()}]))
