"""Each rule of environments fires on its own environment and on nothing that only looks like it."""

import environment_cases
import launch_cases
import pytest
from environment_cases import laptop
from healthy_environment import environment, package

from trueup.rules import all_rules, judge_environment
from trueup.rules.registry import rules_with
from trueup.schema.environment import Environment

CASES = [*environment_cases.CASES, *launch_cases.CASES]
POSITIVE = {case.rule for case in CASES if any(each.endswith(" " + case.rule) for each in case.fires)}
NEGATIVE = {case.rule for case in CASES if not any(each.endswith(" " + case.rule) for each in case.fires)}


@pytest.mark.parametrize("change", [{}, laptop()], ids=["two H100", "laptop"])
def test_no_rule_fires_where_everything_fits(change):
    assert judge_environment(environment(change)) == ()


def test_nothing_follows_from_facts_that_could_not_be_read():
    assert judge_environment(Environment()) == ()


@pytest.mark.parametrize("case", CASES, ids=str)
def test_judgement(case):
    findings = judge_environment(environment(case.change))
    assert tuple(f"{finding.severity} {finding.rule}" for finding in findings) == case.fires
    for finding in findings:
        if finding.rule == case.rule:
            assert finding.confidence == case.confidence
            assert finding.evidence, "a finding without evidence is an opinion"
            assert finding.remedies


@pytest.mark.parametrize("rule", [rule.id for rule in all_rules() if rule.from_environment])
def test_each_rule_has_a_positive_and_a_negative_case(rule):
    assert rule in POSITIVE
    assert rule in NEGATIVE


def test_the_rules_that_are_loaded_for_doctor_are_all_that_judge_environments():
    assert rules_with("from_environment") == tuple(rule for rule in all_rules() if rule.from_environment)


def line(change, rule):
    (finding,) = [finding for finding in judge_environment(environment(change)) if finding.rule == rule]
    return finding.remedies[0].how


def test_the_line_names_pin_interpreter_and_index():
    change = environment_cases.vllm()
    assert line(change, "environment/dependency-resolution-replaces-torch") == (
        "/env/bin/python -m pip install --index-url https://download.pytorch.org/whl/cu128 torch==2.7.1"
    )


def test_the_line_is_that_of_uv_where_uv_installed():
    change = {**environment_cases.vllm(), "executable": "/my env/bin/python"}
    change["packages"]["vllm"]["installer"] = "uv"
    assert line(change, "environment/dependency-resolution-replaces-torch").startswith(
        "uv pip install --python /my\\ env/bin/python --index-url"
    )


def test_pins_that_contradict_each_other_are_told():
    change = environment_cases.vllm("torch==2.7.1")
    change["packages"]["sglang"] = {"name": "sglang", "version": "0.5", "requires": ["torch==2.9.1"]}
    (finding,) = judge_environment(environment(change))
    assert "No torch satisfies all of them: torch==2.7.1, torch==2.9.1" in finding.message


@pytest.mark.parametrize(("torch", "paired"), [("2.8.0+cu128", "2.8"), ("2.13.0+cu130", "2.11")])
def test_torchaudio_is_paired_with_torch_up_to_its_last_series(torch, paired):
    modules = [environment_cases.extension("torchaudio/lib/libtorchaudio.so", "torchaudio", missing_symbols=["x"])]
    change = {"torch": {"version": torch}, "packages": {"torchaudio": package("torchaudio", "2.5.1")}}
    said = line({**change, "extensions": modules}, "environment/extension-torch-version-mismatch")
    assert f"torchaudio=={paired}.*" in said


def test_torchvision_is_paired_with_torch():
    change = {"extensions": [environment_cases.extension("torchvision/_C.so", "torchvision", missing_symbols=["x"])]}
    assert "torchvision==0.23.*" in line(change, "environment/extension-torch-version-mismatch")
