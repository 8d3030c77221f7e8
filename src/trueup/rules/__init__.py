"""Rules judge what collectors recorded; they collect nothing themselves."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from trueup.rules.definition import LogText, Rule, Sighting
from trueup.rules.judgement import judge, judge_environment
from trueup.rules.registry import UnknownRuleError, all_rules, rule

if TYPE_CHECKING:
    from trueup.rules.log_judgement import judge_log
    from trueup.rules.log_unexplained import explain

_OF_LOGS = {"judge_log": "trueup.rules.log_judgement", "explain": "trueup.rules.log_unexplained"}
"""Loaded on demand (PEP 562): `doctor` judges no log, and they compile many expressions."""

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


def __getattr__(name: str) -> Any:
    if name in _OF_LOGS:
        return getattr(import_module(_OF_LOGS[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
