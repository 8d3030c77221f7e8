"""A variant: what one run changes about the command it is given."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import msgspec

SWITCHES: dict[str, tuple[str, ...]] = {
    "compile": ("off", "eager", "aot_eager", "aot_eager_decomp_partition", "inductor"),
    "attention": ("eager", "math", "sdpa", "flash", "mem_efficient", "cudnn"),
    "checkpointing": ("off", "reentrant", "non_reentrant"),
    "sharding": ("off", "replicate", "grad_op"),
    "precision": ("fp32", "fp64"),
    "adapter": ("off",),
    "data": ("only", "without", "length"),
}
"""Layers that can be forced from outside, with the values each takes."""
PARTED: dict[str, tuple[str, ...]] = {
    "precision": ("fp32",),
    "sharding": ("off",),
    "checkpointing": ("off",),
    "adapter": ("off",),
    "data": ("only", "without", "length"),
}
"""Layer → values that take `:PART,PART`, after which they hold for these parts alone: names of modules, batches."""
LISTED = 2
"""Parts that a name of a variant spells out."""

ORDERED = ("adapter", "precision", "checkpointing", "compile", "sharding")
"""Layers that are applied to a model one after another, in an order that can be asked for."""
CHANGEABLE = (
    ("compile", "checkpointing"),
    ("compile", "sharding"),
    ("compile", "adapter"),
    ("checkpointing", "compile"),
    ("sharding", "compile"),
    ("adapter", "compile"),
    ("adapter", "sharding"),
    ("checkpointing", "sharding"),
    ("sharding", "checkpointing"),
    ("checkpointing", "adapter"),
    ("adapter", "checkpointing"),
    ("precision", "adapter"),
    ("adapter", "precision"),
)
"""Orders of two layers that a run can bring about where a job has the other one."""
WHICHEVER = "whichever comes first"
"""How the reason ends for which two layers did not change places, where that would have made no difference."""


UNCHANGED = "as is"


class Variant(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Forced layers and remedies for one run. The empty variant is the command as it is."""

    name: str = UNCHANGED
    """Of a variant without a name of its own, what it changes: `compile=off, disable-kv-cache`."""
    layers: dict[str, str] = {}
    """Layer → forced value, each from `SWITCHES`."""
    remedies: tuple[str, ...] = ()
    """Ids of remedies to apply in process."""
    order: tuple[str, ...] = ()
    """Layers of `ORDERED`, each to be applied before the one after it: it ends up within what that one wraps."""
    environment: dict[str, str] = {}
    """Environment variables set for the command."""
    fingerprint: dict[str, str] = {}
    """Package → version where the variant was proved; a run warns when it differs."""


class VariantError(ValueError):
    """A variant that cannot be used; the message names the setting to change."""


def checked(variant: Variant) -> Variant:
    """Return `variant` if it can be used, else raise VariantError, which names the choices."""
    for name, value in variant.environment.items():
        if not name or "=" in name or "\0" in name + value:
            raise VariantError(f"{name!r} cannot be set as an environment variable")
    for layer, value in variant.layers.items():
        if layer not in SWITCHES:
            raise VariantError(f"no layer {layer!r} to set; choose from {', '.join(SWITCHES)}")
        kind, sign, parts = value.partition(":")
        if kind not in SWITCHES[layer]:
            raise VariantError(f"{layer}={value!r} is not a setting; choose from {', '.join(SWITCHES[layer])}")
        if sign and (kind not in PARTED.get(layer, ()) or not all(parts.split(","))):
            raise VariantError(f"{layer}={value!r} is not a setting: {layer}={kind} takes {_parts_taken(layer, kind)}")
        if layer == "data" and not sign:
            raise VariantError(f"data={kind} needs a number: data={kind}:17")
    unknown = [layer for layer in variant.order if layer not in ORDERED]
    if unknown:
        raise VariantError(f"no layer {unknown[0]!r} to order; choose from {', '.join(ORDERED)}")
    if len(variant.order) == 1 or len(set(variant.order)) < len(variant.order):
        raise VariantError("an order names two layers or more, each once")
    return variant


def _parts_taken(layer: str, kind: str) -> str:
    return f"names, {layer}={kind}:NAME,NAME" if kind in PARTED.get(layer, ()) else "no names of parts"


def with_settings(variant: Variant, settings: list[str]) -> Variant:
    """Add `LAYER=VALUE` settings from a command line to `variant`, and name it by what it changes if it has no name."""
    layers, chosen = dict(variant.layers), dict[str, str]()
    for setting in settings:
        layer, sign, value = setting.partition("=")
        if not sign:
            raise VariantError(f"--set takes LAYER=VALUE, got {setting!r}; for example --set compile=off")
        layer, value = layer.strip(), value.strip()
        if chosen.setdefault(layer, value) != value:
            raise VariantError(f"--set {layer}={chosen[layer]} and --set {layer}={value} exclude each other")
        layers[layer] = value
    return named(checked(msgspec.structs.replace(variant, layers=layers)))


def named(variant: Variant) -> Variant:
    """`variant` with a name: its own, else its forced layers, remedies, order and variables in a line."""
    if variant.name != UNCHANGED:
        return variant
    layers = [f"{layer}={_shortened(value)}" for layer, value in variant.layers.items()]
    changed = ", ".join([*layers, *variant.remedies, *orders(variant), *variant.environment])
    return msgspec.structs.replace(variant, name=changed or UNCHANGED)


def orders(variant: Variant) -> list[str]:
    """Its order in words, two layers at a time: `sharding before compile`."""
    return [f"{first} before {second}" for first, second in pairwise(variant.order)]


def _shortened(value: str) -> str:
    parts = value.split(",")
    return value if len(parts) <= LISTED else f"{','.join(parts[:LISTED])} and {len(parts) - LISTED} more"


def variant_from_toml(text: str) -> Variant:
    """Read a variant from TOML text; raises VariantError with the reason when the text is not one."""
    try:
        return checked(msgspec.toml.decode(text, type=Variant))
    except (msgspec.ValidationError, msgspec.DecodeError) as error:
        raise VariantError(f"not a variant file: {error}") from error


def variant_to_toml(variant: Variant) -> str:
    """Write a variant as TOML text."""
    fields: dict[str, Any] = msgspec.to_builtins(variant)
    return msgspec.toml.encode({name: value for name, value in fields.items() if value}).decode()
