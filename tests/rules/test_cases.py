"""Each rule fires on its own record and on nothing that only looks like it."""

import attention_cases
import compile_cases
import crash_cases
import distributed_cases
import launcher_cases
import memory_cases
import precision_cases
import pytest
import recompile_cases
import release_cases
import trainer_cases
from healthy_record import record

from trueup.rules import all_rules, judge

MODULES = (
    recompile_cases,
    compile_cases,
    crash_cases,
    attention_cases,
    distributed_cases,
    trainer_cases,
    precision_cases,
    launcher_cases,
    memory_cases,
    release_cases,
)
CASES = [case for module in MODULES for case in module.CASES]
POSITIVE = {case.rule for case in CASES if any(each.endswith(" " + case.rule) for each in case.fires)}
NEGATIVE = {case.rule for case in CASES if not any(each.endswith(" " + case.rule) for each in case.fires)}


def test_no_rule_fires_on_a_healthy_job():
    assert judge(record({})) == ()


@pytest.mark.parametrize("case", CASES, ids=str)
def test_judgement(case):
    findings = judge(record(case.change))
    assert tuple(f"{finding.severity} {finding.rule}" for finding in findings) == case.fires
    if findings and findings[0].rule == case.rule:
        assert findings[0].confidence == case.confidence
        assert findings[0].evidence, "a finding without evidence is an opinion"


@pytest.mark.parametrize("rule", [rule.id for rule in all_rules() if rule.from_record])
def test_each_rule_has_a_positive_and_a_negative_case(rule):
    assert rule in POSITIVE
    assert rule in NEGATIVE
