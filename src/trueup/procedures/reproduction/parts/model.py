"""The model: the smallest of its class in transformers, or a few plain blocks."""

from __future__ import annotations

import re

from trueup.procedures.reproduction.parts.checkpointing import is_reentrant
from trueup.procedures.reproduction.parts.part import Part
from trueup.procedures.reproduction.recipe import Recipe

BREAKS = {
    "item": ("if x.abs().amax().item() > 1e4:", "    x = x / 2"),
    "print": ("print(x.shape)",),
}
"""What in a forward ends a graph, by the break that was seen."""
HEADS = re.compile(r"(?:For[A-Z]\w+|LMHeadModel|DoubleHeadsModel|Model)$")
"""What follows the name of the architecture in the name of a class of transformers."""
SIZES = {
    "vocab_size": "64",
    "hidden_size": "32",
    "intermediate_size": "64",
    "num_attention_heads": "2",
    "num_key_value_heads": "2",
    "use_cache": "False",
}
"""Of a small model, by the names that the configurations of transformers share."""


def definitions(recipe: Recipe) -> Part:
    """The classes of a plain model."""
    if recipe.model is not None:
        return Part()
    lines = [
        "class Block(nn.Module):",
        "    def __init__(self):",
        "        super().__init__()",
        "        self.norm, self.up, self.down = nn.LayerNorm(32), nn.Linear(32, 64), nn.Linear(64, 32)",
        *(["        self.qkv = nn.Linear(32, 96)"] if recipe.attention else []),
        "",
        "    def forward(self, x):",
        *_forward(recipe),
    ]
    imports = ["from torch import nn", "from torch.nn import functional as F"]
    if _has_forward(recipe):
        lines += ["", "", *_model(recipe)]
        checkpoints = any("checkpoint(block" in line for line in lines)
        imports += ["from torch.utils.checkpoint import checkpoint"] if checkpoints else []
    return Part(imports=tuple(imports), lines=tuple(lines))


def _has_forward(recipe: Recipe) -> bool:
    """Whether the plain model has a forward of its own, in which the fault lies or is told."""
    step = recipe.step_of("checkpointing")
    return recipe.sign == "eager model" or (step is not None and step.way != "checkpoint_wrapper")


def _model(recipe: Recipe) -> list[str]:
    return [
        "class Model(nn.Module):",
        "    def __init__(self):",
        "        super().__init__()",
        "        self.embed, self.head = nn.Embedding(64, 32), nn.Linear(32, 64)",
        f"        self.blocks = nn.ModuleList(Block() for _ in range({recipe.blocks}))",
        "",
        "    def forward(self, ids):",
        *_marks(recipe, "Model"),
        "        x = self.embed(ids)",
        "        for block in self.blocks:",
        *_call(recipe),
        "        return self.head(x)",
    ]


def _forward(recipe: Recipe) -> list[str]:
    lines = _marks(recipe, "Block")
    if recipe.attention:
        lines += [
            "        q, k, v = self.qkv(self.norm(x)).unflatten(-1, (3, 2, 16)).permute(2, 0, 3, 1, 4)",
            "        x = x + F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2)",
        ]
    lines += [f"        {line}" for name in recipe.breaks for line in BREAKS[name]]
    return [*lines, "        return x + self.down(F.gelu(self.up(self.norm(x))))"]


def _marks(recipe: Recipe, name: str) -> list[str]:
    """Where the script tells what ran eager."""
    if recipe.sign != {"Block": "eager blocks", "Model": "eager model"}[name]:
        return []
    return ["        if not torch.compiler.is_compiling():", f'            eager.add("{name}")']


def _call(recipe: Recipe) -> list[str]:
    step = recipe.step_of("checkpointing")
    if step is None or step.way == "checkpoint_wrapper":
        return ["            x = block(x)"]
    call = f"checkpoint(block, x, use_reentrant={bool(is_reentrant(step))})"
    return [f'            x = block(x) if "checkpointing" in off else {call}']


def construction(recipe: Recipe) -> Part:
    """`model = ...` on its device."""
    move = '.to("cuda")' if recipe.device == "cuda" else ""
    if recipe.model is None and _has_forward(recipe):
        return Part(lines=(f"model = Model(){move}",))
    if recipe.model is None:
        every = ", ".join(["Block()"] * recipe.blocks)
        whole = f"model = nn.Sequential(nn.Embedding(64, 32), blocks, nn.Linear(32, 64)){move}"
        return Part(lines=(f"blocks = nn.Sequential({every})", whole))
    config = f"{HEADS.sub('', recipe.model)}Config"
    lines = [f"config = {config}("]
    lines += [f"    {name}={value}," for name, value in SIZES.items()]
    lines += [f"    num_hidden_layers={recipe.blocks},"]
    if (step := recipe.step_of("attention")) is not None:
        asked = step.options["implementation"]
        lines.append(f'    attn_implementation="eager" if "attention" in off else "{asked}",')
    return Part(
        imports=(f"from transformers import {config}, {recipe.model}",),
        lines=(*lines, ")", f"model = {recipe.model}(config){move}"),
    )


def blocks(recipe: Recipe) -> tuple[str, ...]:
    """The list of the model's blocks, where it has no name yet."""
    if recipe.model is None:
        return ("blocks = model.blocks",) if _has_forward(recipe) else ()
    return ("blocks = next(part for part in model.modules() if isinstance(part, torch.nn.ModuleList))",)


def batch(recipe: Recipe) -> tuple[str, str]:
    """(what makes a batch, the loss of it)."""
    device = ', device="cuda"' if recipe.device == "cuda" else ""
    ids = f"ids = torch.randint(0, 64, (2, 16){device})"
    if recipe.model is None:
        return ids, "loss = F.cross_entropy(model(ids).flatten(0, 1), ids.flatten())"
    if "SequenceClassification" in recipe.model:
        return ids, "loss = model(input_ids=ids, labels=ids[:, 0] % 2).loss"
    return ids, "loss = model(input_ids=ids, labels=ids).loss"
