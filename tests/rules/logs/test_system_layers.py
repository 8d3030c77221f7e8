"""Logs of the environment, launcher, memory and sharding: each rule is named for its own texts and for nothing else."""

import environment_logs
import launcher_logs
import memory_logs
import pytest
import sharding_logs

from trueup.logs import read
from trueup.rules import all_rules, judge_log

MODULES = (environment_logs, launcher_logs, memory_logs, sharding_logs)
CASES = [case for module in MODULES for case in module.CASES]
LAYERS = ("environment", "launcher", "memory", "sharding")
JUDGING = [rule.id for rule in all_rules() if (rule.log or rule.from_log) and rule.layer in LAYERS]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_judgement(case, tmp_path):
    log = tmp_path / "job.log"
    log.write_text(case.text)
    findings = judge_log(read(log))
    said = [f"{finding.rule} ({finding.confidence})" for finding in findings]
    if case.first is None:
        assert not [finding for finding in findings if finding.confidence != "possible"], said
        return
    assert findings, "nothing was found"
    assert findings[0].rule == case.first, said
    assert findings[0].evidence, "a finding without evidence is an opinion"
    if case.confidence:
        assert findings[0].confidence == case.confidence


@pytest.mark.parametrize("rule", JUDGING)
def test_each_rule_has_a_positive_and_a_negative_case(rule):
    assert any(case.rule == rule == case.first for case in CASES)
    assert any(case.rule == rule != case.first for case in CASES)
