"""Keywords of calls in the layouts in which people write calls."""

from __future__ import annotations

import libcst as cst
import pytest

from trueup.edits.calls import with_keyword, without_keyword


def call(code: str) -> cst.Call:
    return cst.ensure_type(cst.parse_expression(code), cst.Call)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("f()", "f(k=1)"),
        ("f(a)", "f(a, k=1)"),
        ("f(a, k=0)", "f(a, k=1)"),
        ("f(k = 0, b=2)", "f(k = 1, b=2)"),
        ("f(\n    a,\n    b,\n)", "f(\n    a,\n    b,\n    k=1,\n)"),
        ("f(\n    a,\n    b\n)", "f(\n    a,\n    b,\n    k=1\n)"),
        ("f(\n    a,\n)", "f(\n    a,\n    k=1,\n)"),
        ("f(\n    a,  # one\n    b,  # two\n)", "f(\n    a,  # one\n    b,  # two\n    k=1,\n)"),
        ("f(a,\n  b)", "f(a,\n  b,\n  k=1)"),
        ("f(*a)", "f(*a, k=1)"),
    ],
)
def test_a_keyword_is_set(before: str, after: str) -> None:
    assert cst.Module([]).code_for_node(with_keyword(call(before), "k", "1")) == after


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("f(k=1)", "f()"),
        ("f(a, k=1)", "f(a)"),
        ("f(k=1, a=2)", "f(a=2)"),
        ("f(\n    a,\n    k=1,\n)", "f(\n    a,\n)"),
        ("f(\n    a,\n    k=1\n)", "f(\n    a\n)"),
        ("f(a)", "f(a)"),
    ],
)
def test_a_keyword_is_taken_away(before: str, after: str) -> None:
    assert cst.Module([]).code_for_node(without_keyword(call(before), "k")) == after
