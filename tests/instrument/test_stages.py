"""What counts as a block where the lists of a model hold stages."""

import pytest
from torch import nn

from trueup.instrument import inside

inside.make_importable()
from trueup_instrument.appliers.compiling import repeated_blocks  # noqa: E402
from trueup_instrument.modules import blocks_of  # noqa: E402


class Unit(nn.Module):
    def __init__(self, bias=True):
        super().__init__()
        self.inner = nn.Linear(4, 4, bias=bias)


def row(number, **options):
    return [Unit(**options) for _ in range(number)]


class Stage(nn.Sequential):
    """A stage by another name."""


class Downsampling(nn.Module):
    def __init__(self):
        super().__init__()
        self.units, self.smaller = nn.ModuleList(row(2)), nn.Linear(4, 4)


MODELS = {
    "stages of units": (nn.Sequential(Stage(*row(2)), Stage(*row(3))), ["0.0", "0.1", "1.0", "1.1", "1.2"]),
    "the first unit of a stage differs": (
        nn.ModuleList(nn.Sequential(Unit(), *row(2, bias=False)) for _ in range(2)),
        ["0.0", "0.1", "0.2", "1.0", "1.1", "1.2"],
    ),
    "a block of two different halves": (
        nn.ModuleList(nn.Sequential(Unit(), Unit(bias=False)) for _ in range(3)),
        ["0", "1", "2"],
    ),
    "a block of simple layers": (
        nn.Sequential(*(nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4)) for _ in range(3))),
        ["0", "1", "2"],
    ),
    "a dict of units": (nn.ModuleDict({"a": Unit(), "b": Unit(), "c": nn.Linear(4, 4)}), ["a", "b"]),
    "lists in a dict": (
        nn.ModuleDict({"in": nn.ModuleList(row(2)), "out": nn.ModuleList(row(2))}),
        ["in.0", "in.1", "out.0", "out.1"],
    ),
    "a list of lists": (nn.ModuleList(nn.ModuleList(row(2)) for _ in range(2)), ["0.0", "0.1", "1.0", "1.1"]),
    "a module that holds more than its units": (nn.ModuleList(Downsampling() for _ in range(2)), ["0", "1"]),
}


@pytest.mark.parametrize("name", MODELS)
def test_of_stages_the_units_are_blocks(name):
    """The observers and the appliers mean the same by a block."""
    model, expected = MODELS[name]
    assert [path for path, _ in blocks_of(model)] == expected
    assert repeated_blocks(model) == [model.get_submodule(path) for path in expected]
