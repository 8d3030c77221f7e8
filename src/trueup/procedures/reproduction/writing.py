"""The text of a script from its recipe."""

from __future__ import annotations

import msgspec

from trueup.procedures.reproduction import signs
from trueup.procedures.reproduction.candidate import NAME, Candidate
from trueup.procedures.reproduction.imports import in_sections
from trueup.procedures.reproduction.parts import adapter, checkpointing, compiling, model, precision, sharding, training
from trueup.procedures.reproduction.parts.part import Part, Writer
from trueup.procedures.reproduction.recipe import Recipe
from trueup.procedures.reproduction.titles import documented

WRITERS: dict[str, Writer] = {
    "Module.compile": compiling.in_place,
    "torch.compile": compiling.wrapped,
    "fully_shard": sharding.fully_shard,
    "FSDP": sharding.fsdp,
    "DDP": sharding.ddp,
    "gradient_checkpointing_enable": checkpointing.hugging_face,
    "checkpoint_wrapper": checkpointing.wrapper,
    "adapter": adapter.lora,
    "cast": precision.cast,
}
"""Way of a step → its statements. A way that is not here is in the model or in the loop."""
SWITCH = "off = sys.argv[2:]  # --without LAYER ..."
ALONE = "store=dist.HashStore(), rank=0, world_size=1"
"""A process group of one rank needs no launcher."""
GROUP = ("torchrun", "--nproc-per-node")


def candidate(recipe: Recipe, title: str, raises: bool = True) -> Candidate:
    """The script, and its command. `title` says what the fault is, `raises` whether it shows by itself."""
    launch = (*GROUP, str(recipe.ranks), NAME) if recipe.ranks > 1 else ("python", NAME)
    tests = recipe.sign is not None
    found = Candidate(script="", launch=launch, tests=tests, shows=raises or tests)
    text = script(recipe, documented(title, found, recipe.off))
    return msgspec.structs.replace(found, script=text)


def is_distributed(recipe: Recipe) -> bool:
    """Whether it needs a process group."""
    return recipe.ranks > 1 or bool(recipe.ways() & {"fully_shard", "FSDP", "DDP"})


def script(recipe: Recipe, docstring: str) -> str:
    """Formatted as ruff does it."""
    definitions = model.definitions(recipe)
    construction = model.construction(recipe)
    layers = _layers(recipe)
    steps = training.training(recipe)
    imports = ["import sys", "import torch"]
    body = ["torch.manual_seed(0)"] if recipe.sign in (*signs.COMPARED, "finite") else []
    body += construction.lines
    body += model.blocks(recipe) if layers.blocks or steps.blocks else ()
    body += [*layers.lines, *steps.lines]
    lines = [SWITCH, *signs.before(recipe)]
    if definitions.lines:
        lines += ["", "", *definitions.lines, "", ""]
    if is_distributed(recipe):
        imports.append("import torch.distributed as dist")
        lines.append(f"dist.init_process_group({'' if recipe.ranks > 1 else ALONE})")
        lines += ["torch.cuda.set_device(dist.get_rank())"] if recipe.device == "cuda" else []
    if recipe.sign in signs.COMPARED:
        space = [] if lines[-1] == "" else ["", ""]
        lines += [*space, "def train():", *(f"    {line}" for line in body), "    return seen", "", ""]
    else:
        lines += body
    lines += signs.at_end(recipe)
    lines += ["dist.destroy_process_group()"] if is_distributed(recipe) else []
    for part in (definitions, construction, layers, steps):
        imports += part.imports
    return "\n".join([docstring, "", *in_sections(imports), "", *lines, ""])


def _layers(recipe: Recipe) -> Part:
    """All layers that are applied to the model, each behind its switch."""
    imports: list[str] = []
    lines: list[str] = []
    uses_blocks = False
    last = None
    for step in recipe.steps:
        if step.way not in WRITERS:
            continue
        part = WRITERS[step.way](step, recipe)
        if not part.lines:
            continue
        if step.layer != last:
            lines.append(f'if "{step.layer}" not in off:')
        last = step.layer
        lines += [f"    {line}" for line in part.lines]
        imports += part.imports
        uses_blocks = uses_blocks or part.blocks
    return Part(imports=tuple(imports), lines=tuple(lines), blocks=uses_blocks)
