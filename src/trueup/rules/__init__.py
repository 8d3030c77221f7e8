"""Rules judge what collectors recorded; they collect nothing themselves."""

from trueup.rules.definition import Rule, Sighting
from trueup.rules.judgement import judge, judge_environment
from trueup.rules.registry import UnknownRuleError, all_rules, rule

__all__ = ["Rule", "Sighting", "UnknownRuleError", "all_rules", "judge", "judge_environment", "rule"]
