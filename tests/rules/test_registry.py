"""What holds for every rule, whatever it detects."""

import subprocess
import sys
from pathlib import Path

import pytest
from packaging.specifiers import SpecifierSet

import trueup.rules
from trueup.rules import UnknownRuleError, all_rules, rule
from trueup.rules.registry import rules_with
from trueup.schema.layer import LAYERS

FOLDER = Path(trueup.rules.__file__).parent
RULES = pytest.mark.parametrize("each", all_rules(), ids=lambda each: each.id)


def test_every_file_of_a_layer_is_a_rule():
    files = [path for layer in LAYERS for path in (FOLDER / layer).glob("*.py") if path.stem != "__init__"]
    assert {f"{path.parent.name}/{path.stem.replace('_', '-')}" for path in files} == {each.id for each in all_rules()}


@pytest.mark.parametrize("detector", ["from_record", "from_log", "from_environment"])
def test_rules_told_by_their_text_are_those_that_have_the_detector(detector):
    assert rules_with(detector) == tuple(each for each in all_rules() if getattr(each, detector) is not None)
    assert rules_with(detector)


def test_judging_an_environment_imports_only_what_judges_environments():
    """`doctor` ends in the time that it takes to import all rules."""
    code = """
import sys
from trueup.rules import judge_environment
from trueup.rules.registry import all_rules, rules_with
from trueup.schema.environment import Environment
judge_environment(Environment(python="3.11.7"))
loaded = {name for name in sys.modules if name.startswith("trueup.rules.")}
unused = {f"trueup.rules.{each.id.replace('-', '_').replace('/', '.')}" for each in all_rules()}
unused -= {f"trueup.rules.{each.id.replace('-', '_').replace('/', '.')}" for each in rules_with("from_environment")}
heavy = {f"trueup.rules.{name}" for name in ("break_logs", "recompile_logs", "out_of_memory", "log_index")}
print(*sorted(loaded & (unused | heavy)))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.split() == []


def test_a_rule_is_found_by_its_id():
    assert rule("compile/recompile-dynamic-shape").layer == "compile"


def test_an_unknown_rule_names_near_ones():
    with pytest.raises(UnknownRuleError, match=r"did you mean .*compile/recompile-dynamic-shape"):
        rule("dynamic-shape")


@RULES
def test_it_can_be_read_by_a_person(each):
    assert each.layer in LAYERS
    assert set(each.layers) <= set(LAYERS)
    assert len(each.layers) == len(set(each.layers))
    assert each.remedies, "a finding without anything to do helps nobody"
    assert len({remedy.id for remedy in each.remedies}) == len(each.remedies)
    assert all(source.startswith("https://") for source in each.sources)
    assert each.title[0] != each.title[0].lower() or each.title.startswith(("accelerate", "k-bit", "cuDNN", "nvcc"))
    for text in (each.silent, each.cause, each.caution):
        assert text == text.strip()
        assert not text or text.endswith("."), text
    assert each.cause.count(". ") < 3, "a cause has at most a few sentences"


@RULES
def test_its_version_gate_can_be_read(each):
    for specifier in each.versions.values():
        SpecifierSet(specifier)


@RULES
def test_what_it_explains_exists_and_does_not_explain_it(each):
    assert not {each.id} & effects(each.id)


def effects(name):
    """All rules that follow from this one, directly or through others."""
    found, open_names = set(), [name]
    while open_names:
        for effect in rule(open_names.pop()).explains:
            if effect not in found:
                found.add(effect)
                open_names.append(effect)
    return found


def test_one_remedy_id_means_one_kind_of_change():
    kinds = {}
    for each in all_rules():
        for remedy in each.remedies:
            assert kinds.setdefault(remedy.id, remedy.kind) == remedy.kind, f"{remedy.id} in {each.id}"
