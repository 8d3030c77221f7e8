"""A page wraps at white space, folds what is too long, counts wide characters as terminals do, and breaks no line."""

import subprocess
import sys

import pytest

from trueup.reports.page import Page, columns_of, wrapped


@pytest.mark.parametrize(
    ("text", "columns", "lines"),
    [
        ("", 10, []),
        ("one two three", 7, ["one two", "three"]),
        ("one two three", 80, ["one two three"]),
        ("two  blanks", 80, ["two  blanks"]),
        ("a /long/path/of/names b", 8, ["a", "/long/pa", "th/of/na", "mes b"]),
        ("12345678", 8, ["12345678"]),
        ("ab cd", 1, ["a", "b", "c", "d"]),
        ("訓練 模型", 4, ["訓練", "模型"]),
        ("訓練模型", 5, ["訓練", "模型"]),
        ("訓練", 1, ["訓", "練"]),
    ],
)
def test_text_is_wrapped_at_white_space_and_folded_where_there_is_none(text, columns, lines):
    assert list(wrapped(text, columns)) == lines


@pytest.mark.parametrize(("text", "columns"), [("abc", 3), ("訓練", 4), ("e\N{COMBINING ACUTE ACCENT}", 1), ("é", 1)])
def test_a_text_takes_the_columns_that_a_terminal_gives_it(text, columns):
    assert columns_of(text) == columns


def test_a_label_stands_in_the_margin_of_the_first_line_only():
    page = Page(16, colour=False)
    page.paragraph("one two three four", label="  cause", indent=9)
    assert page.text() == "  cause  one two\n         three\n         four\n"


def test_a_line_is_never_broken_and_has_no_blanks_at_its_end():
    page = Page(10, colour=False)
    page.line("pip install ", ("--upgrade", "bold"), "  something==1.0  ")
    assert page.text() == "pip install --upgrade  something==1.0\n"


def test_styles_are_printed_with_colour_only():
    page = Page(80, colour=True)
    page.line(("error", "error"), " ", ("compile/slug", "bold"), "")
    assert page.text() == "\x1b[1;31merror\x1b[0m \x1b[1mcompile/slug\x1b[0m\n"


@pytest.mark.parametrize("module", ["diagnosis", "explanation", "terminal", "wheels"])
def test_reports_without_tables_need_no_console_library(module):
    code = f"import sys, trueup.reports.{module}; sys.exit('rich' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
