"""What is asked of a batch before flash attention of transformers is called in a graph, and when nothing is."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from transformers import modeling_flash_attention_utils  # noqa: F401  as a job has it that runs flash attention

from trueup.instrument import inside

inside.make_importable()
from trueup_instrument.bridging.rows import BOUNDARIES, Rows  # noqa: E402


class Block(torch.nn.Module):
    def __init__(self, implementation: str = "flash_attention_2") -> None:
        super().__init__()
        self.config = SimpleNamespace(_attn_implementation=implementation)

    def forward(self, hidden_states: Any, attention_mask: Any = None, position_ids: Any = None, **options: Any) -> Any:
        return hidden_states


class Model(Block):
    def forward(
        self, input_ids: Any = None, attention_mask: Any = None, position_ids: Any = None, **options: Any
    ) -> Any:  # type: ignore[override]
        return input_ids


ONE, TWO = torch.zeros(1, 6, 4), torch.zeros(2, 6, 4)
RESTARTED = torch.tensor([[0, 1, 0, 1, 2, 3]])
COUNTED = torch.arange(6)[None]


def passed(module: Any, *args: Any, **kwargs: Any) -> dict[str, Any]:
    return Rows().prepared(module, args, kwargs)[0]


def starts(given: dict[str, Any]) -> list[int]:
    assert given[BOUNDARIES[0]].dtype == torch.int32
    assert torch.equal(given[BOUNDARIES[0]], given[BOUNDARIES[1]])
    assert [type(given[name]) for name in BOUNDARIES[2:]] == [int, int]
    found: list[int] = given[BOUNDARIES[0]].tolist()
    return found


@pytest.mark.parametrize(("ids", "expected"), [(RESTARTED, [0, 2, 6]), (COUNTED, [0, 6]), (COUNTED + 7, [0, 6])])
def test_a_single_row_gets_the_boundaries_of_its_documents(ids: torch.Tensor, expected: list[int]) -> None:
    given = passed(Block(), ONE, position_ids=ids)
    assert starts(given) == expected
    assert given["max_length_q"] == given["max_length_k"] == 128


def test_a_model_that_counts_positions_itself_gets_one_document() -> None:
    assert starts(passed(Model(), input_ids=torch.zeros(1, 6, dtype=torch.long))) == [0, 6]


@pytest.mark.parametrize(
    ("rows", "options"),
    [
        (TWO, {"position_ids": COUNTED}),  # positions that the model made for all rows at once
        (TWO, {"position_ids": RESTARTED.expand(2, -1)}),
        (ONE, {"position_ids": RESTARTED, "attention_mask": torch.tensor([[1, 1, 1, 1, 1, 0]])}),
        (ONE, {"position_ids": RESTARTED, "past_key_values": object()}),
        (ONE, {}),
    ],
)
def test_other_rows_get_none(rows: torch.Tensor, options: dict[str, Any]) -> None:
    assert passed(Block(), rows, **options) == options


def test_boundaries_that_are_given_stay() -> None:
    given = dict(zip(BOUNDARIES, (torch.tensor([0, 3, 6]), torch.tensor([0, 3, 6]), 3, 3), strict=True))
    assert passed(Block(), ONE, position_ids=RESTARTED, **given) == {"position_ids": RESTARTED, **given}


def test_a_mask_of_ones_is_left_out_and_another_stays() -> None:
    ones, other = torch.ones(2, 6), torch.tensor([[1, 1, 1, 1, 1, 0]]).expand(2, -1)
    assert passed(Model(), input_ids=TWO[..., 0], attention_mask=ones)["attention_mask"] is None
    assert passed(Model(), input_ids=TWO[..., 0], attention_mask=other)["attention_mask"] is other
    four = torch.ones(2, 1, 6, 6)
    assert passed(Model(), input_ids=TWO[..., 0], attention_mask=four)["attention_mask"] is four


def test_models_without_flash_attention_are_left_alone() -> None:
    given = {"position_ids": RESTARTED, "attention_mask": torch.ones(1, 6)}
    assert passed(Block("sdpa"), ONE, **given) == given


def test_every_block_of_a_model_is_given_the_same_boundaries_once(monkeypatch: pytest.MonkeyPatch) -> None:
    from trueup_instrument.bridging import rows

    asked: list[Any] = []
    original = rows.boundaries
    monkeypatch.setattr(rows, "boundaries", lambda ids: asked.append(ids) or original(ids))
    seen, ids = Rows(), RESTARTED.clone()
    first = [seen.prepared(Block(), (ONE,), {"position_ids": ids})[0][BOUNDARIES[0]] for _ in range(3)]
    assert len(asked) == 1
    assert all(each is first[0] for each in first)
    ids[0, 3] = 0  # the same tensor, changed
    seen.prepared(Block(), (ONE,), {"position_ids": ids})
    assert len(asked) == 2
