"""Keys set in YAML, JSON and TOML: the rest of the text stays to the letter."""

from __future__ import annotations

import difflib

import pytest

from trueup.edits import json_text, toml_text, yaml_text

YAML = """\
# written by hand
compute_environment: LOCAL_MACHINE   # where
fsdp_config:
    fsdp_version: 1  # old
    fsdp_offload_params: false

# and so on
mixed_precision: 'no'
flow: {a: 1, b: [1, 2]}
"""
JSON = """\
{
\t"train_batch_size": "auto",
\t"zero_optimization": {
\t\t"stage": 3,
\t\t"offload": {"device": "cpu"}
\t},
\t"fp16": {}
}
"""
TOML = """\
# of torchtitan
[compile]
enable=false   # not yet

[training]
steps = 10
"""


def changed_lines(before: str, after: str | None) -> list[str]:
    assert after is not None
    lines = difflib.ndiff(before.splitlines(), after.splitlines())
    return [line for line in lines if line.startswith(("+ ", "- "))]


@pytest.mark.parametrize(
    ("path", "value", "lines"),
    [
        (("fsdp_config", "fsdp_version"), 2, ["-     fsdp_version: 1  # old", "+     fsdp_version: 2  # old"]),
        (("fsdp_config", "fsdp_use_orig_params"), True, ["+     fsdp_use_orig_params: true"]),
        (("dynamo_config", "dynamo_use_dynamic"), True, ["+ dynamo_config:", "+   dynamo_use_dynamic: true"]),
        (("mixed_precision",), "bf16", ["- mixed_precision: 'no'", "+ mixed_precision: bf16"]),
        (("mixed_precision",), "on", ["- mixed_precision: 'no'", "+ mixed_precision: 'on'"]),
        (("flow", "c"), 3, ["- flow: {a: 1, b: [1, 2]}", "+ flow: {a: 1, b: [1, 2], c: 3}"]),
    ],
)
def test_yaml(path: tuple[str, ...], value: str | int | bool, lines: list[str]) -> None:
    assert changed_lines(YAML, yaml_text.with_key(YAML, path, value)) == lines


@pytest.mark.parametrize(
    "text", ["- a\n", "a: &x {b: 1}\nc: *x\n---\nd: 1\n", "a: [", "", "base: &b {k: 1}\na:\n  <<: *b\n  c: 2\n"]
)
def test_yaml_that_is_not_clear_is_left_alone(text: str) -> None:
    new = yaml_text.with_key(text, ("a", "k"), 2)
    assert new is None or "<<" in text


@pytest.mark.parametrize(
    ("path", "value", "lines"),
    [
        (("zero_optimization", "stage"), 2, ['- \t\t"stage": 3,', '+ \t\t"stage": 2,']),
        (("fp16", "enabled"), False, ['- \t"fp16": {}', '+ \t"fp16": {"enabled": false}']),
        (("bf16", "enabled"), True, ['- \t"fp16": {}', '+ \t"fp16": {},', '+ \t"bf16": {"enabled": true}']),
    ],
)
def test_json(path: tuple[str, ...], value: str | int | bool, lines: list[str]) -> None:
    assert changed_lines(JSON, json_text.with_key(JSON, path, value)) == lines


@pytest.mark.parametrize("text", ["[1]", "{", '{"zero_optimization": 3}', "", "// a comment\n{}"])
def test_json_that_is_not_clear_is_left_alone(text: str) -> None:
    assert json_text.with_key(text, ("zero_optimization", "stage"), 2) is None


def test_toml() -> None:
    new = toml_text.with_key(TOML, ("compile", "enable"), True)
    assert changed_lines(TOML, new) == ["- enable=false   # not yet", "+ enable=true   # not yet"]
    new = toml_text.with_key(TOML, ("activation_checkpoint", "preserve_rng_state"), True)
    assert changed_lines(TOML, new) == ["+ ", "+ [activation_checkpoint]", "+ preserve_rng_state = true"]
    assert toml_text.with_key("a = ", ("a",), 1) is None
