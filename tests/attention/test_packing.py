"""Documents in one row: boundaries, positions and labels, and what does not go into a row."""

from __future__ import annotations

import pytest
import torch

from trueup.attention import packed


def test_the_row_and_its_boundaries() -> None:
    row = packed([[5, 6, 7], torch.tensor([8, 9])])
    assert row["input_ids"].tolist() == [[5, 6, 7, 8, 9]]
    assert row["position_ids"].tolist() == [[0, 1, 2, 0, 1]]
    assert row["cu_seq_lens_q"].tolist() == row["cu_seq_lens_k"].tolist() == [0, 3, 5]
    assert row["cu_seq_lens_q"].dtype == torch.int32
    assert row["cu_seq_lens_q"] is not row["cu_seq_lens_k"]


def test_no_document_predicts_the_first_token_of_the_next() -> None:
    row = packed([[5, 6, 7], {"input_ids": [8, 9, 4], "labels": [-100, -100, 4]}])
    assert row["labels"].tolist() == [[-100, 6, 7, -100, -100, 4]]


def test_lengths_are_plain_integers_that_bound_the_longest_document() -> None:
    row = packed([[1] * 130, [2]])
    assert (type(row["max_length_q"]), row["max_length_q"], row["max_length_k"]) == (int, 256, 256)
    assert packed([[1] * 130, [2]], multiple=1)["max_length_q"] == 130


def test_a_row_of_fixed_length_ends_with_a_document_that_no_loss_sees() -> None:
    row = packed([[5, 6, 7]], tokens=8, pad=3)
    assert row["input_ids"].tolist() == [[5, 6, 7, 3, 3, 3, 3, 3]]
    assert row["labels"].tolist() == [[-100, 6, 7, -100, -100, -100, -100, -100]]
    assert row["cu_seq_lens_q"].tolist() == [0, 3, 8]
    assert packed([[5, 6, 7]], tokens=3)["cu_seq_lens_q"].tolist() == [0, 3]


@pytest.mark.parametrize(
    ("documents", "options", "words"),
    [
        ([], {}, "no documents"),
        ([[1, 2, 3], [4, 5]], {"tokens": 4}, "5 tokens of 2 documents do not go into a row of 4"),
        ([[1], []], {}, "document 1 has 0 tokens"),
        ([{"input_ids": [1, 2], "labels": [1]}], {}, "document 0 has 2 tokens and 1 labels"),
    ],
)
def test_what_cannot_be_packed_says_why(documents: list, options: dict, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        packed(documents, **options)
