"""A script without what tells people how it goes, and without what it leaves behind."""

from __future__ import annotations

import re

import libcst as cst

from trueup.procedures.reproduction.reduction.source import edited, parsed, statements

NOISE = re.compile(
    r"^(?:print|logger\.\w+|logging\.\w+|log|warnings\.\w+|wandb\.\w+|tqdm\.write|writer\.\w+|mlflow\.\w+"
    r"|os\.makedirs|torch\.save|[\w.]+\.save_(?:pretrained|model|state|config)|[\w.]+\.mkdir|[\w.]*\.?set_description)\("
)
"""Statements of which a fault seldom needs one."""


def without_noise(text: str) -> str:
    """The text without them; in a forward they may be what breaks a graph, and stay."""
    tree = parsed(text)
    if tree is None:
        return text
    gone = []
    for each in statements(tree):
        in_forward = any(isinstance(around, cst.ClassDef) for around in each.inside)
        plain = isinstance(each.node, cst.SimpleStatementLine) and not in_forward
        if plain and NOISE.match(tree.code_for_node(each.node).strip()):
            gone.append(each.node)
    return edited(tree, gone).code
