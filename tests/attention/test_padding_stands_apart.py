"""When packed rows may do without their mask of padding."""

import pytest
import torch

from trueup.instrument import inside

inside.make_importable()
from trueup_instrument.appliers.remedies.leak_free_packing import padding_stands_apart  # noqa: E402


@pytest.mark.parametrize(
    ("positions", "mask", "apart"),
    [
        ([0, 1, 2, 0, 1, 0, 0], [1, 1, 1, 1, 1, 0, 0], True),
        ([0, 1, 2, 0, 1, 2, 3], [1, 1, 1, 1, 1, 0, 0], True),  # padding goes on with the last document, behind it
        ([1, 1, 0, 1, 2, 0, 1], [0, 0, 1, 1, 1, 1, 1], True),
        ([0, 1, 2, 3, 4, 0, 1], [0, 0, 1, 1, 1, 1, 1], False),  # padding begins the first document
        ([0, 1, 2, 0, 1, 2, 3], [1, 1, 1, 1, 0, 1, 1], False),  # and here it stands within one
        ([0, 1, 2, 3, 4, 0, 0], [1, 1, 1, 1, 1, 0, 0], False),  # one document: the mask is no hindrance
    ],
)
def test_padding_stands_apart(positions, mask, apart):
    assert padding_stands_apart(torch.tensor([mask]), torch.tensor([positions])) is apart
