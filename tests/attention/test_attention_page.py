"""`docs/attention.md` says what the knowledge says, and its examples run."""

import re
import shlex
from pathlib import Path

import pytest

from trueup.attention.documentation import inserted
from trueup.cli import main

PAGE = Path(__file__).parents[2] / "docs" / "attention.md"
EXAMPLES = re.findall(r"^    trueup (attention explain --shape [\d,]+ .*)$", PAGE.read_text(encoding="utf-8"), re.M)


def test_the_tables_are_up_to_date():
    page = PAGE.read_text(encoding="utf-8")
    assert page == inserted(page), "run: python -m trueup.attention.documentation"


def test_a_page_without_marks_is_not_written():
    with pytest.raises(ValueError, match="has no"):
        inserted("# Attention\n")


@pytest.mark.parametrize("example", EXAMPLES)
def test_the_examples_run(example: str, capsys):
    assert main(shlex.split(example)) in (0, 1)
    assert capsys.readouterr().out.startswith("trueup: ")
