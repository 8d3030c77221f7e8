"""Numbers as people read them, at the edges where rounding would lie."""

import pytest

from trueup.reports.evidence import numbers_in_words
from trueup.reports.quantities import count, percent, seconds, size


@pytest.mark.parametrize(
    ("share", "text"),
    [(0, "0 %"), (1, "100 %"), (0.004, "< 1 %"), (0.9999, "> 99 %"), (0.5, "50 %"), (0.01, "1 %"), (0.99, "99 %")],
)
def test_percent_keeps_all_and_nothing_for_themselves(share, text):
    assert percent(share) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.00123, "0.00123 s"),
        (59.94, "59.9 s"),
        (59.99, "1 min 0 s"),
        (119.7, "2 min 0 s"),
        (3599.8, "1 h 0 min"),
        (90_061, "25 h 1 min"),
    ],
)
def test_seconds(value, text):
    assert seconds(value) == text


@pytest.mark.parametrize(
    ("number", "text"),
    [(0, "0 B"), (999, "999 B"), (1_260_000_000, "1.26 GB"), (999_999_999, "1 GB"), (5 * 10**12, "5 TB")],
)
def test_size(number, text):
    assert size(number) == text


def test_count():
    assert [count(number, "process", "processes") for number in (0, 1, 1234)] == [
        "0 processes",
        "1 process",
        "1,234 processes",
    ]


@pytest.mark.parametrize(
    ("numbers", "text"),
    [([3], "3"), ([1, 0], "0, 1"), ([0, 1, 2, 5], "0 to 2, 5"), (range(0, 40, 2), "0, 2, 4, 6, 8, 10, 12, 14, …")],
)
def test_numbers_of_ranks(numbers, text):
    assert numbers_in_words(numbers) == text
