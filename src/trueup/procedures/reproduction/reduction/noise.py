"""A script without what tells people how it goes, and without what it leaves behind."""

from __future__ import annotations

import re

import libcst as cst

from trueup.procedures.reproduction.reduction.source import edited, parsed, statements, with_arguments

NOISE = re.compile(
    r"^(?:print|logger\.\w+|logging\.\w+|log|warnings\.\w+|wandb\.\w+|tqdm\.write|writer\.\w+|mlflow\.\w+"
    r"|os\.makedirs|torch\.save|[\w.]+\.save_(?:pretrained|model|state|config)|[\w.]+\.mkdir|[\w.]*\.?set_description)\("
)
"""Statements of which a fault seldom needs one."""
KEYWORDS = frozenset(
    (
        *("callbacks", "compute_metrics", "disable_tqdm", "eval_dataset", "eval_steps", "eval_strategy"),
        *("evaluation_strategy", "logging_dir", "logging_steps", "logging_strategy", "report_to", "run_name"),
        *("save_steps", "save_strategy", "save_total_limit"),
    )
)
"""Arguments of trainers that are about the same."""


def without_noise(text: str) -> str:
    """The text without them; in a forward they may be what breaks a graph, and stay."""
    tree = parsed(text)
    if tree is None:
        return text
    every = with_arguments(tree, statements(tree))
    gone: list[cst.CSTNode] = []
    for each in every:
        if isinstance(each.node, cst.Arg) and each.node.keyword is not None and each.node.keyword.value in KEYWORDS:
            gone.append(each.node)
        in_forward = any(isinstance(around, cst.ClassDef) for around in each.inside)
        plain = isinstance(each.node, cst.SimpleStatementLine) and not in_forward
        if plain and NOISE.match(tree.code_for_node(each.node).strip()):
            gone.append(each.node)
    return edited(tree, gone).code
