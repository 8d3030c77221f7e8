"""An order of layers in a variant: its name, its file, what is refused."""

from __future__ import annotations

import pytest

from trueup.schema.variant import (
    CHANGEABLE,
    ORDERED,
    Variant,
    VariantError,
    named,
    orders,
    variant_from_toml,
    variant_to_toml,
)


def test_it_is_named_and_kept_in_a_file() -> None:
    variant = Variant(layers={"attention": "math"}, order=("sharding", "checkpointing", "compile"))
    assert orders(variant) == ["sharding before checkpointing", "checkpointing before compile"]
    assert named(variant).name == "attention=math, sharding before checkpointing, checkpointing before compile"
    assert variant_from_toml(variant_to_toml(variant)) == variant


@pytest.mark.parametrize(
    ("order", "message"),
    [
        ('["sharding"]', "two layers or more"),
        ('["compile", "compile"]', "each once"),
        ('["compile", "launcher"]', "no layer 'launcher' to order; choose from adapter, precision"),
    ],
)
def test_what_is_no_order_is_refused(order: str, message: str) -> None:
    with pytest.raises(VariantError, match=message):
        variant_from_toml(f"order = {order}")


def test_what_can_change_places_are_layers_that_have_an_order() -> None:
    assert {layer for pair in CHANGEABLE for layer in pair} == set(ORDERED)
