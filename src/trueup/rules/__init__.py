"""Rules judge what collectors recorded; they collect nothing themselves."""

from trueup.rules.definition import LogText, Rule, Sighting
from trueup.rules.judgement import judge, judge_environment
from trueup.rules.log_judgement import judge_log
from trueup.rules.log_unexplained import explain
from trueup.rules.registry import UnknownRuleError, all_rules, rule

__all__ = [
    "LogText",
    "Rule",
    "Sighting",
    "UnknownRuleError",
    "all_rules",
    "explain",
    "judge",
    "judge_environment",
    "judge_log",
    "rule",
]
