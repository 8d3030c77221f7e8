"""How a script shows a fault that raises nothing: by what torch tells everybody, tested at its end."""

from __future__ import annotations

from collections.abc import Callable

from trueup.procedures.reproduction.parts.part import Part
from trueup.procedures.reproduction.recipe import Recipe, Sign
from trueup.schema.bisection import Signature

OF_KIND: dict[str, Sign] = {"not finite": "finite", "loss": "loss", "slow": "time"}
EAGER: tuple[Sign, ...] = ("eager blocks", "eager model")
OF_RULE: dict[str, tuple[Sign, ...]] = {
    "checkpointing/compiled-region-falls-back-to-eager": ("eager blocks",),
    "compile/fsdp2-hooks-inside-compiled-module": ("eager model",),
    "checkpointing/fsdp-redundant-all-gather": ("gathers",),
    "compile/compiled-autograd-with-fsdp": ("reduced",),
    "sharding/gradients-not-reduced": ("reduced",),
    "adapter/reentrant-checkpoint-input-without-grad": ("gradients",),
    "adapter/adapters-not-trained": ("gradients",),
    "trainer/parameters-without-gradient": ("gradients",),
}
COMPARED: dict[Sign | None, Callable[[float | None], tuple[str, ...]]] = {
    "loss": lambda threshold: (
        "change = max(abs(a - b) / abs(b) for a, b in zip(found, control, strict=True))",
        f'assert change <= {threshold or 1e-3:g}, f"losses differ by {{change:.2e}}"',
    ),
    "time": lambda threshold: (
        "ratio = min(found) / min(control)",
        f'assert ratio <= {threshold or 1.5:g}, f"{{ratio:.2f}} times as slow"',
    ),
}
"""Signs that need the same training without the layers → their test, of what `train` returned."""


def signs_of(signature: Signature) -> tuple[Sign | None, ...]:
    """What a script may test, the likeliest first; None for nothing: a fault raises, or torch tells nobody of it."""
    if signature.kind in OF_KIND:
        return (OF_KIND[signature.kind],)
    if signature.kind == "coverage":
        return (*EAGER, None) if signature.layer == "compile" else (None,)
    if signature.kind != "finding" or signature.rule is None:
        return (None,)
    if signature.rule in OF_RULE:
        return (*OF_RULE[signature.rule], None)
    if signature.rule.startswith("compile/"):
        return ("graphs", None) if "recompile" in signature.rule else (*EAGER, None)
    return (None,)


def is_shown(recipe: Recipe) -> bool:
    """Whether a script can test its sign: what ran eager, a plain model tells."""
    return recipe.model is None or recipe.sign not in EAGER


def before(recipe: Recipe) -> tuple[str, ...]:
    """Names that the rest fills."""
    if around_backward(recipe) is not None:
        return ("profile = torch.profiler.profile()",)
    return ("eager = set()",) if recipe.sign in EAGER else ()


def after_backward(recipe: Recipe) -> Part:
    """What is looked at in each step, at its backward pass."""
    if recipe.sign == "finite":
        return Part(lines=('assert torch.isfinite(loss), f"the loss of step {step} is {loss.item()}"',))
    if recipe.sign == "gradients":
        every = "model.named_parameters() if p.requires_grad and p.grad is None"
        return Part(lines=(f"without = [name for name, p in {every}]",))
    if recipe.sign == "reduced" and _is_fsdp2(recipe):  # a reduced gradient is a shard
        return Part(
            imports=("from torch.distributed.tensor import DTensor",),
            lines=("reduced = [p for p in model.parameters() if isinstance(p.grad, DTensor)]",),
        )
    if recipe.sign == "reduced":
        return Part(lines=('reduced = [event.key for event in profile.key_averages() if "reduce" in event.key]',))
    return Part()


def around_backward(recipe: Recipe) -> str | None:
    """The context in which the backward pass runs, where the sign is in its profile: of the first step, as trueup
    has its own look at later ones."""
    told = recipe.sign == "gathers" or (recipe.sign == "reduced" and not _is_fsdp2(recipe))
    return "profile if step == 0 else nullcontext()" if told else None


def _is_fsdp2(recipe: Recipe) -> bool:
    return "fully_shard" in recipe.ways()


def at_end(recipe: Recipe) -> tuple[str, ...]:
    """The test of the whole run."""
    if recipe.sign in EAGER:
        return ('assert not eager or "compile" in off, f"ran eager: {eager}"',)
    if recipe.sign == "gradients":
        return ('assert not without, f"no gradient: {without}"',)
    if recipe.sign == "gathers":
        counted = 'sum(each.count for each in profile.key_averages() if "allgather" in each.key)'
        return (f"assert {counted} <= len(blocks) + 1",)
    if recipe.sign == "reduced":
        return ('assert reduced or "sharding" in off, "no gradient was reduced over the ranks"',)
    if recipe.sign == "graphs":
        return (
            'graphs = torch._dynamo.utils.counters["stats"]["unique_graphs"]',
            'assert graphs <= 1, f"{graphs} graphs"',
        )
    if recipe.sign in COMPARED:
        every = ", ".join(f'"{layer}"' for layer in recipe.off)
        return ("found = train()", f"off = [{every}]", "control = train()", *COMPARED[recipe.sign](recipe.threshold))
    return ()
