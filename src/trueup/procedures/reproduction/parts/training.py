"""The steps: forward, backward, optimizer."""

from __future__ import annotations

from trueup.procedures.reproduction import signs
from trueup.procedures.reproduction.parts import model
from trueup.procedures.reproduction.parts.part import Part
from trueup.procedures.reproduction.recipe import Recipe


def training(recipe: Recipe) -> Part:
    """The optimizer and the loop. What compared signs need goes to the list `seen`."""
    ids, loss = model.batch(recipe)
    check = signs.after_backward(recipe)
    imports = list(check.imports)
    lines = ["optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-3)"]
    lines = lines if recipe.optimizer else []
    if recipe.sign in signs.COMPARED:
        lines.append("seen = []")
    is_read = recipe.sign == "finite" or signs.around_backward(recipe) is not None
    lines.append(f"for {'step' if is_read else '_'} in range({recipe.iterations}):")
    body = [ids]
    if recipe.sign == "time":
        imports.append("import time")
        body.append("start = time.perf_counter()")
    body += _forward(recipe, loss, imports)
    body += _backward(recipe, imports)
    if recipe.sign != "loss":
        body += check.lines
    if recipe.clip:
        body.append("torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)")
    if recipe.optimizer:
        body += ["optimizer.step()", "optimizer.zero_grad()"]
    body += {"loss": ["seen.append(loss.item())"], "time": ["seen.append(time.perf_counter() - start)"]}.get(
        recipe.sign or "", []
    )
    return Part(
        imports=tuple(imports), lines=(*lines, *(f"    {line}" for line in body)), blocks=recipe.sign == "gathers"
    )


def _within(contexts: list[str], line: str) -> list[str]:
    """A line within one `with` of all contexts."""
    if not contexts:
        return [line]
    head = [f"with {contexts[0]}:"] if len(contexts) == 1 else ["with (", *(f"    {each}," for each in contexts), "):"]
    return [*head, f"    {line}"]


def _forward(recipe: Recipe, loss: str, imports: list[str]) -> list[str]:
    contexts = []
    step = next((step for step in recipe.steps if step.way == "autocast"), None)
    if step is not None:
        dtype = step.options.get("dtype", "bfloat16")
        contexts.append(f'torch.autocast("{recipe.device}", torch.{dtype}, enabled="precision" not in off)')
    if recipe.model is None and recipe.step_of("attention") is not None:  # off is the plain kernel
        imports += ["from contextlib import nullcontext", "from torch.nn.attention import SDPBackend, sdpa_kernel"]
        contexts.append('sdpa_kernel([SDPBackend.MATH]) if "attention" in off else nullcontext()')
    return _within(contexts, loss)


def _backward(recipe: Recipe, imports: list[str]) -> list[str]:
    contexts = [context] if (context := signs.around_backward(recipe)) is not None else []
    imports += ["from contextlib import nullcontext"] if contexts else []
    if any(step.way == "compiled autograd" for step in recipe.steps):
        imports += ["from contextlib import nullcontext", "from torch._dynamo import compiled_autograd"]
        compiled = 'compiled_autograd._enable(torch.compile(backend="eager"))'
        contexts.append(f'nullcontext() if "compile" in off else {compiled}')
    return _within(contexts, "loss.backward()")
