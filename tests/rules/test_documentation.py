"""`docs/rules/` says what the rules say."""

from pathlib import Path

from trueup.rules import all_rules
from trueup.rules.documentation import pages, write

DOCS = Path(__file__).parents[2] / "docs" / "rules"


def test_the_pages_are_up_to_date():
    assert {str(path.relative_to(DOCS)): path.read_text(encoding="utf-8") for path in DOCS.rglob("*.md")} == pages(), (
        "run: python -m trueup.rules.documentation"
    )


def test_each_rule_is_in_the_index_and_has_a_page():
    made = pages()
    for rule in all_rules():
        assert f"({rule.id}.md)" in made["README.md"]
        assert rule.cause in made[f"{rule.id}.md"]


def test_only_pages_that_it_made_are_deleted(tmp_path):
    write(tmp_path)
    mine, gone = tmp_path / "guide.md", tmp_path / "compile" / "renamed.md"
    mine.write_text("# By hand")
    gone.write_text((tmp_path / "README.md").read_text())
    assert write(tmp_path) == [gone]
    assert mine.exists()
    assert not gone.exists()
