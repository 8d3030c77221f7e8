"""SARIF 2.1.0: the properties that the standard requires, and places that a code host can open."""

import json

import msgspec
import pytest

from trueup.reports.sarif import render
from trueup.schema.finding import Evidence
from trueup.schema.record import Exit, Record


def run_of(record):
    log = json.loads(render(record))
    assert log["version"] == "2.1.0"
    (run,) = log["runs"]
    return run


def with_evidence(record, *places):
    evidence = tuple(Evidence(what="seen", at=place) for place in places)
    return msgspec.structs.replace(record, findings=(msgspec.structs.replace(record.findings[0], evidence=evidence),))


def test_a_result_points_at_its_rule_and_line(demo_record):
    run = run_of(demo_record)
    (rule,) = run["tool"]["driver"]["rules"]
    (result,) = run["results"]
    assert result["ruleId"] == rule["id"] == "compile/kv-cache-recompiles-each-block"
    assert run["tool"]["driver"]["rules"][result["ruleIndex"]] is rule
    assert result["level"] == "warning"
    assert result["locations"][0]["physicalLocation"] == {
        "artifactLocation": {"uri": "examples/finetune.py"},
        "region": {"startLine": 61},
    }
    assert result["relatedLocations"][0]["physicalLocation"]["region"] == {"startLine": 70}
    assert "0 of 12 compiled blocks" in result["message"]["text"]


def test_a_rule_has_help_with_what_to_do(demo_record):
    (rule,) = run_of(demo_record)["tool"]["driver"]["rules"]
    assert "model.config.use_cache = False" in rule["help"]["text"]
    assert "```\nmodel.config.use_cache = False\n```" in rule["help"]["markdown"]
    assert rule["helpUri"].startswith("https://")
    assert rule["fullDescription"]["text"].startswith("The model keeps its default use_cache=True")


def test_two_findings_of_one_rule_share_it(demo_record):
    twice = msgspec.structs.replace(demo_record, findings=demo_record.findings * 2)
    run = run_of(twice)
    assert len(run["tool"]["driver"]["rules"]) == 1
    assert [result["ruleIndex"] for result in run["results"]] == [0, 0]


@pytest.mark.parametrize(
    ("at", "uri", "line"),
    [
        ("train.py:3", "train.py", 3),
        ("my folder/train.py:12", "my%20folder/train.py", 12),
        ("/src/train.py:7", "file:///src/train.py", 7),
        ("~/src/train.py:7", "~/src/train.py", 7),
        ("train.py:7 in forward", "train.py", 7),
    ],
)
def test_places_become_uris(demo_record, at, uri, line):
    (result,) = run_of(with_evidence(demo_record, at))["results"]
    place = result["locations"][0]["physicalLocation"]
    assert (place["artifactLocation"]["uri"], place["region"]["startLine"]) == (uri, line)


@pytest.mark.parametrize("at", [None, "", "<frozen>", "train.py", "train.py:0", "train.py:x"])
def test_a_place_without_a_line_is_left_out(demo_record, at):
    (result,) = run_of(with_evidence(demo_record, at))["results"]
    assert result["locations"] == []


def test_markup_of_the_job_is_escaped_in_markdown(hostile_record):
    (rule,) = run_of(hostile_record)["tool"]["driver"]["rules"]
    assert "<script>" not in rule["help"]["markdown"].split("```")[0]
    assert "helpUri" not in rule


def test_the_invocation_tells_how_the_command_ended(demo_record):
    record = msgspec.structs.replace(demo_record, exit=Exit(code=1))
    (invocation,) = run_of(record)["invocations"]
    assert invocation["exitCode"] == 1
    assert invocation["executionSuccessful"] is True
    assert invocation["toolExecutionNotifications"][0]["message"]["text"].startswith("gradient norms")


def test_no_findings_is_an_empty_list():
    run = run_of(Record())
    assert run["results"] == []
    assert run["tool"]["driver"]["rules"] == []
