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


def test_json(capsys):
    assert main(["rules", RULE, "--format", "json"]) == 0
    (rule,) = json.loads(capsys.readouterr().out)
    assert rule["id"] == RULE
    assert rule["remedies"][0]["how"]
