"""Numbers in messages where the record names only the first parameters."""

import pytest
from healthy_record import record

from trueup.rules.registry import rule as rule_of

NAMES = [f"layers.{number}.q_proj.weight" for number in range(40)]
ADAPTERS = [f"layers.{number}.q_proj.lora_B.default.weight" for number in range(40)]
FOREIGN = "(not a parameter of the model)"


@pytest.mark.parametrize(
    ("rule", "training", "words"),
    [
        (
            "trainer/parameters-missing-from-optimizer",
            {"in_no_optimizer": NAMES, "in_no_optimizer_count": 53, "without_gradient": [FOREIGN]},
            ("53 of 60", "and 50 more"),
        ),
        (
            "trainer/parameters-missing-from-optimizer",
            {"in_no_optimizer": NAMES, "in_no_optimizer_count": 53, "without_gradient": NAMES[:10]},
            ("43 of 60", "and 40 more"),
        ),
        (
            "trainer/parameters-without-gradient",
            {"without_gradient": [FOREIGN, *NAMES[1:]], "without_gradient_count": 53},
            ("52 of 60", "and 49 more"),
        ),
        (
            "adapter/adapters-not-trained",
            {"in_no_optimizer": ADAPTERS, "in_no_optimizer_count": 53},
            ("at least 40 are in no optimizer",),
        ),
        ("adapter/adapters-not-trained", {"in_no_optimizer": ADAPTERS}, ("parameters 40 are in no optimizer",)),
    ],
)
def test_all_are_counted_where_not_all_are_named(rule, training, words):
    seen = record({"actual": {"training": {"trainable": 60, **training}}})
    found = rule_of(rule).from_record(seen)
    assert [word for word in words if word not in found.message] == []
    assert FOREIGN not in found.message
