"""A class is either a rule or said to have none, with the reason."""

import pytest

from trueup.rules import all_rules
from trueup.rules.documentation import pages
from trueup.rules.not_covered import NOT_COVERED
from trueup.rules.registry import UnknownRuleError, rule


def test_no_class_is_both():
    names = {name for rule in all_rules() for name in (rule.id, *rule.aliases)}
    assert names.isdisjoint(NOT_COVERED)


def test_what_is_pointed_to_is_there():
    names = {rule.id for rule in all_rules()}
    for why in NOT_COVERED.values():
        assert {part for part in why.split("`")[1::2] if "/" in part and " " not in part} <= names


def test_the_index_lists_them():
    index = pages()["README.md"]
    assert all(name in index for name in NOT_COVERED)


@pytest.mark.parametrize("name", NOT_COVERED)
def test_who_asks_for_one_is_told_why(name):
    with pytest.raises(UnknownRuleError, match="no rule detects") as error:
        rule(name)
    assert NOT_COVERED[name] in str(error.value)
