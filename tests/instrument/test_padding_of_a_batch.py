"""What comes with token ids is their padding mask, or their lengths, only where the ids bear it out."""

from __future__ import annotations

import pytest
import torch

from trueup.instrument import inside

IDS = torch.tensor([[5, 6, 7, 0, 0], [5, 5, 0, 0, 0], [8, 6, 7, 9, 4]])
KEEP = IDS != 0


@pytest.fixture(scope="module")
def padding():
    inside.make_importable()
    from trueup_instrument.observers.samples import padding

    return padding


@pytest.mark.parametrize(
    ("value", "side"),
    [
        (KEEP, "right"),
        (~KEEP, "right"),
        (KEEP.long(), "right"),
        (KEEP.sum(1), "right"),
        (torch.tensor([1, 0, 2]), None),  # classes of the rows
        (torch.ones_like(KEEP), None),
        (torch.tensor([[1, 1, 0, 0, 0]] * 3).bool(), None),  # a mask of the prompt
        (IDS.float(), None),
        (IDS, None),
    ],
)
def test_a_mask_of_any_name(padding, value, side):
    assert padding.padded_by(value, IDS) == side


def test_padding_on_the_left(padding):
    assert padding.padded_by(KEEP.flip(1), IDS.flip(1)) == "left"


def test_an_id_that_is_also_a_token_proves_nothing(padding):
    ids = IDS.clone()
    ids[2, 1] = 0
    assert padding.padded_by(KEEP, ids) is None
