"""All rules, found in the folders beside this file: a module with a `RULE` is a rule, nothing else is needed."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from pathlib import Path

from trueup.rules.definition import Rule
from trueup.rules.not_covered import NOT_COVERED
from trueup.schema.layer import LAYERS


class UnknownRuleError(LookupError):
    """No rule has this id or alias."""


@cache
def all_rules() -> tuple[Rule, ...]:
    """Every rule, layer by layer in the order of `LAYERS`, then by id."""
    return tuple(rule for layer in LAYERS for rule in _rules_of(layer))


@cache
def rules_with(detector: str) -> tuple[Rule, ...]:
    """The rules with a detector of this name (`from_environment`), in the order of `all_rules`.

    Only their modules are imported, told by their text: `doctor` ends in the time that it takes to import all.
    """
    found: list[Rule] = []
    for layer in LAYERS:
        for path in _files_of(layer):
            if f"{detector}=" in path.read_text(encoding="utf-8"):
                found.append(_rule_in(layer, path))
    return tuple(each for each in found if getattr(each, detector) is not None)


def rule(id_or_alias: str) -> Rule:
    """The rule with this id or alias; raises UnknownRuleError that names near ids."""
    named = _by_name().get(id_or_alias)
    if named is None and id_or_alias in NOT_COVERED:
        raise UnknownRuleError(f"no rule detects {id_or_alias}. {NOT_COVERED[id_or_alias]}")
    if named is None:
        wanted = id_or_alias.rpartition("/")[2]
        near = [each.id for each in all_rules() if wanted and wanted in each.id]
        raise UnknownRuleError(f"no rule {id_or_alias!r}" + (f"; did you mean {', '.join(near)}?" if near else ""))
    return named


def _rules_of(layer: str) -> list[Rule]:
    return [_rule_in(layer, path) for path in _files_of(layer)]


def _files_of(layer: str) -> list[Path]:
    folder = Path(__file__).parent / layer
    return sorted(path for path in folder.glob("*.py") if path.stem != "__init__")


def _rule_in(layer: str, path: Path) -> Rule:
    found: Rule = import_module(f"trueup.rules.{layer}.{path.stem}").RULE
    return found


@cache
def _by_name() -> dict[str, Rule]:
    names: dict[str, Rule] = {}
    for each in all_rules():
        for name in (each.id, *each.aliases):
            if name in names:
                raise ValueError(f"two rules are named {name}: {names[name].id} and {each.id}")
            names[name] = each
    return names
