"""LoRA by PEFT."""

from __future__ import annotations

from trueup.procedures.reproduction.parts.part import Part, keywords
from trueup.procedures.reproduction.recipe import Recipe, Step

PLAIN = ("up", "down")
"""Modules of the plain model that get adapters."""


def lora(step: Step, recipe: Recipe) -> Part:
    """Adapters of a small rank; with `others`, norms and the head train beside them."""
    targets = step.options.get("target_modules") if recipe.model else None
    config = f"LoraConfig({keywords(r=2, target_modules=targets or (None if recipe.model else PLAIN))})"
    if step.options.get("via") == "inject_adapter_in_model":
        imports, line = "LoraConfig, inject_adapter_in_model", f"inject_adapter_in_model({config}, model)"
    else:
        imports, line = "LoraConfig, get_peft_model", f"get_peft_model(model, {config})"
    lines = [f"model = {line}"]
    if step.options.get("others"):
        lines += ["for name, parameter in model.named_parameters():", '    if "norm" in name or "head" in name:']
        lines += ["        parameter.requires_grad_(True)"]
    return Part(imports=(f"from peft import {imports}",), lines=tuple(lines))
