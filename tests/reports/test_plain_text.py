"""Text of the user's process is shown in one line that can do nothing."""

import pytest

from trueup.reports.plain import plain


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        ("\x1b[1;31mred\x1b[0m", "red"),
        ("\x1b]0;title\x07text", "text"),
        ("\x1b]8;;https://example.org\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x9b2Jgone", "gone"),
        ("two\r\nlines\tand\x0btab", "two lines and tab"),
        ("nul\x00bell\x07", "nul\N{REPLACEMENT CHARACTER}bell\N{REPLACEMENT CHARACTER}"),
        ("half an escape \x1b", "half an escape \N{REPLACEMENT CHARACTER}"),
        ("right\u202eleft", "right\N{REPLACEMENT CHARACTER}left"),
        ("surrogate \udc80", "surrogate \N{REPLACEMENT CHARACTER}"),
        ("Zürich 模型 🔥", "Zürich 模型 🔥"),
        (3.5, "3.5"),
    ],
)
def test_plain(raw, shown):
    assert plain(raw) == shown
    plain(raw).encode("utf-8")


def test_a_long_text_is_cut_and_says_by_how_much():
    assert plain("x" * 30, longest=10) == "x" * 10 + "… (20 more characters)"
