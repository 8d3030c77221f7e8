"""`trueup rules`: the knowledge as a list, as a page, and searched."""

import json

from trueup.cli import main
from trueup.rules import all_rules

RULE = "compile/recompile-kv-cache-in-training"


def test_the_list_names_every_rule(capsys):
    assert main(["rules"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[1] for line in lines] == [rule.id for rule in all_rules()]


def test_a_page_tells_cause_cure_and_confusion(capsys):
    assert main(["rules", RULE]) == 0
    text = capsys.readouterr().out
    for part in (RULE, "Why it stays unnoticed", "Cause", "What to do", "Not to be confused with", "use_cache = False"):
        assert part in text


def test_search_looks_into_the_texts(capsys):
    assert main(["rules", "--search", "USE_CACHE"]) == 0
    found = capsys.readouterr().out
    assert RULE in found
    assert 0 < len(found.splitlines()) < len(all_rules())


def test_a_search_without_a_hit_says_so(capsys):
    assert main(["rules", "--search", "no such text"]) == 0
    output = capsys.readouterr()
    assert output.out == ""
    assert "no rule contains 'no such text'" in output.err


def test_sarif_describes_every_rule_and_has_no_results(capsys):
    assert main(["rules", "--format", "sarif"]) == 0
    (run,) = json.loads(capsys.readouterr().out)["runs"]
    described = {each["id"]: each for each in run["tool"]["driver"]["rules"]}
    assert list(described) == [rule.id for rule in all_rules()]
    assert "use_cache = False" in described[RULE]["help"]["text"]
    assert run["results"] == []


def test_html_is_one_page(capsys):
    assert main(["rules", RULE, "--format", "html"]) == 0
    page = capsys.readouterr().out
    assert f"<title>trueup: {RULE}</title>" in page
    assert "Not to be confused with" in page
    assert "<script" not in page
    assert main(["rules", "--format", "html"]) == 0
    assert capsys.readouterr().out.count("<article") == len(all_rules())


def test_json_beside_the_text(tmp_path, capsys):
    assert main(["rules", RULE, "--json", str(tmp_path / "new" / "rule.json")]) == 0
    assert capsys.readouterr().out.startswith(RULE)
    assert json.loads((tmp_path / "new" / "rule.json").read_text())[0]["id"] == RULE


def test_json(capsys):
    assert main(["rules", RULE, "--format", "json"]) == 0
    (rule,) = json.loads(capsys.readouterr().out)
    assert rule["id"] == RULE
    assert rule["remedies"][0]["how"]
