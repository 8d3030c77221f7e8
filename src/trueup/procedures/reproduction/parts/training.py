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
    lines.append(f"for {'step' if recipe.sign == 'finite' else '_'} in range({recipe.iterations}):")
    body = [ids]
    if recipe.sign == "time":
        imports.append("import time")
        body.append("start = time.perf_counter()")
    body += _autocast(recipe, loss)
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


def _autocast(recipe: Recipe, loss: str) -> list[str]:
    step = next((step for step in recipe.steps if step.way == "autocast"), None)
    if step is None:
        return _attention(recipe, [loss])
    given = f'"{recipe.device}", torch.{step.options.get("dtype", "bfloat16")}, enabled="precision" not in off'
    return [f"with torch.autocast({given}):", *(f"    {line}" for line in _attention(recipe, [loss]))]


def _attention(recipe: Recipe, lines: list[str]) -> list[str]:
    """A plain model's attention is off where its kernel is the plain one."""
    if recipe.model is not None or recipe.step_of("attention") is None:
        return lines
    every = '[SDPBackend.MATH] if "attention" in off else list(SDPBackend.__members__.values())[1:]'
    return [f"with sdpa_kernel({every}):", *(f"    {line}" for line in lines)]


def _backward(recipe: Recipe, imports: list[str]) -> list[str]:
    step = next((step for step in recipe.steps if step.way == "compiled autograd"), None)
    contexts = [context] if (context := signs.around_backward(recipe)) is not None else []
    if step is not None:
        imports += ["from contextlib import nullcontext", "from torch._dynamo import compiled_autograd"]
        compiled = 'compiled_autograd._enable(torch.compile(backend="eager"))'
        contexts.append(f'nullcontext() if "compile" in off else {compiled}')
    if len(contexts) > 1:
        return ["with (", *(f"    {each}," for each in contexts), "):", "    loss.backward()"]
    if contexts:
        return [f"with {contexts[0]}:", "    loss.backward()"]
    return ["loss.backward()"]
