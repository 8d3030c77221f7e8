"""Short forms end at a sentence or at a word, and an ellipsis says that more follows."""

import pytest

from trueup.reports.excerpt import at_a_word, first_line, first_sentence


@pytest.mark.parametrize(
    ("text", "short"),
    [
        ("RuntimeError: boom", "RuntimeError: boom"),
        ("torch.x.ChildFailedError:", "torch.x.ChildFailedError"),
        ("ValueError: lr must be > 0.5. Got 0.1.", "ValueError: lr must be > 0.5"),
        ("OSError: no file a.b.c in v1.0 of the hub", "OSError: no file a.b.c in v1.0 of the hub"),
        ("KeyError: 'x'\nmore", "KeyError: 'x'"),
        ("E: " + "word " * 40, "E: " + "word " * 22 + "word…"),
        ("E: " + "x" * 200, "E: " + "x" * 116 + "…"),
        ("", ""),
    ],
)
def test_first_sentence(text, short):
    assert first_sentence(text) == short
    assert len(short) <= 120


@pytest.mark.parametrize(
    ("text", "short"),
    [("a\n", "a"), ("a.\nb", "a…"), ("one two three", "one two three"), ("one two three four", "one two three…")],
)
def test_first_line(text, short):
    assert first_line(text, 14) == short


def test_at_a_word_keeps_to_the_length():
    assert all(len(at_a_word("some words, and more of them", longest)) <= longest for longest in range(3, 40))
