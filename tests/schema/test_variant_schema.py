"""A variant survives TOML, and a wrong one says which setting to change."""

import pytest

from trueup.schema.variant import SWITCHES, Variant, VariantError, variant_from_toml, variant_to_toml, with_settings

FULL = Variant(
    name="compile off",
    layers={"compile": "off", "attention": "sdpa"},
    remedies=("use-cache-off",),
    environment={"OMP_NUM_THREADS": "1"},
    fingerprint={"torch": "2.13.0"},
)


@pytest.mark.parametrize("variant", [FULL, Variant()])
def test_a_variant_comes_back_equal(variant):
    assert variant_from_toml(variant_to_toml(variant)) == variant


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('layers = {gpu = "off"}', "no layer 'gpu'.*compile"),
        ('layers = {compile = "fast"}', "compile='fast'.*off, eager, aot_eager, aot_eager_decomp_partition, inductor"),
        ("layers = 3", "not a variant file.*layers"),
        ("name = ", "not a variant file"),
    ],
)
def test_a_wrong_variant_names_the_setting(text, said):
    with pytest.raises(VariantError, match=said):
        variant_from_toml(text)


def test_settings_of_a_command_line_win_over_the_file():
    changed = with_settings(FULL, ["compile=eager", "sharding=off"])
    assert changed.layers == {"compile": "eager", "attention": "sdpa", "sharding": "off"}
    assert FULL.layers["compile"] == "off"


@pytest.mark.parametrize(
    ("setting", "said"),
    [("compile", "LAYER=VALUE.*--set compile=off"), ("gpu=off", "no layer 'gpu'"), ("adapter=on", "choose from off")],
)
def test_a_wrong_setting_says_what_to_type(setting, said):
    with pytest.raises(VariantError, match=said):
        with_settings(Variant(), [setting])


def test_a_layer_cannot_be_set_to_two_values():
    assert with_settings(Variant(), ["compile=off", "compile=off"]).layers == {"compile": "off"}
    with pytest.raises(VariantError, match="--set compile=off and --set compile=eager exclude each other"):
        with_settings(Variant(), ["compile=off", "compile=eager"])


def test_every_switch_can_be_set():
    for layer, kinds in SWITCHES.items():
        for kind in kinds:
            value = f"{kind}:1" if layer == "data" else kind
            assert with_settings(Variant(), [f"{layer}={value}"]).layers == {layer: value}


def test_a_layer_can_be_forced_in_named_parts_alone():
    variant = with_settings(Variant(), ["precision=fp32:layers.0,layers.1,head"])
    assert variant.layers == {"precision": "fp32:layers.0,layers.1,head"}
    assert variant.name == "precision=fp32:layers.0,layers.1 and 1 more"


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("precision=fp32:", "precision=fp32:NAME,NAME"),
        ("precision=fp64:head", "precision=fp64 takes no names of parts"),
        ("data=only", "data=only:17"),
    ],
)
def test_parts_that_cannot_be_set_are_refused(setting, said):
    with pytest.raises(VariantError, match=said):
        with_settings(Variant(), [setting])


def test_a_variant_without_a_name_is_named_by_what_it_changes():
    unnamed = Variant(remedies=("disable-kv-cache",), environment={"OMP_NUM_THREADS": "1"})
    named = with_settings(unnamed, ["compile=off", "attention=math"])
    assert named.name == "compile=off, attention=math, disable-kv-cache, OMP_NUM_THREADS"
    assert with_settings(FULL, ["compile=off"]).name == FULL.name
    assert with_settings(Variant(), []).name == "as is"
