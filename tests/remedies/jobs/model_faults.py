"""One process: faults of a model and its modes, each beside the same training as it should be.

Prints, for each fault, what both compute. With the argument `healthy` only what is as it should be is run.
"""

from __future__ import annotations

import json
import sys
from types import SimpleNamespace
from typing import Any

import torch
import torch.nn.functional as F
from accelerate.utils.dataclasses import get_module_class_from_name
from torch import nn

CLASSES, WIDTH = 12, 16


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 24), nn.Linear(24, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.down(F.gelu(self.up(self.norm(x.float()))))


class Net(nn.Module):
    def __init__(self, tied: bool = False) -> None:
        super().__init__()
        self.embed = nn.Embedding(CLASSES, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(2))
        self.dropout = nn.Dropout(0.3)
        self.head = nn.Linear(WIDTH, CLASSES, bias=False)
        if tied:
            self.head.weight = self.embed.weight

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.embed(ids)
        for block in self.blocks:
            x = block(x)
        return self.head(self.dropout(x))


class OfLibrary(Net):
    """Its embeddings are tied by what loads it, as its configuration says."""

    def __init__(self) -> None:
        super().__init__()
        self.config = SimpleNamespace(tie_word_embeddings=True)

    def get_input_embeddings(self) -> nn.Module:
        return self.embed

    def get_output_embeddings(self) -> nn.Module:
        return self.head


def trained(model: Any, steps: int = 4, autocast: bool = False) -> list[float]:
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    generator = torch.Generator().manual_seed(1)
    losses = []
    for _ in range(steps):
        ids = torch.randint(0, CLASSES, (10,), generator=generator)
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=autocast):
            loss = F.cross_entropy(model(ids).float(), ids.roll(-1, 0))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return losses


def ids() -> torch.Tensor:
    return torch.randint(0, CLASSES, (10,), generator=torch.Generator().manual_seed(2))


def weights_apart_on_materialisation(right: bool) -> list[float]:
    state = {name: each for name, each in Net(tied=True).state_dict().items() if name != "head.weight"}
    with torch.device("meta"):
        model = Net(tied=True)
    model = model.to_empty(device="cpu")
    if right:
        model.head.weight = model.embed.weight
    model.load_state_dict(state, strict=False)
    return trained(model)


def weights_apart_on_assignment(right: bool) -> list[float]:
    state = {name: each for name, each in Net(tied=True).state_dict().items() if name != "head.weight"}
    model = Net(tied=True)
    model.load_state_dict(state, strict=False, assign=True)
    if right:
        model.head.weight = model.embed.weight
    return trained(model)


def weights_never_tied(right: bool) -> list[float]:
    state = {name: each for name, each in Net(tied=True).state_dict().items() if name != "head.weight"}
    model = OfLibrary()
    if right:
        model.head.weight = model.embed.weight
    model.load_state_dict(state, strict=False)
    return trained(model)


def evaluated_outside_of_autocast(right: bool) -> list[float]:
    model = Net().bfloat16()
    for module in model.modules():
        if isinstance(module, nn.LayerNorm):
            module.float()
    losses = trained(model, autocast=True)
    model.eval()
    with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16, enabled=right) if right else torch.no_grad():
        return [*losses, model(ids()).float().sum().item()]


def autocast_switched_off(right: bool) -> list[float]:
    """A region that the program wants in full precision stays so."""
    model = Net()
    losses = trained(model, autocast=True)
    model.head.half()
    model.head.float()
    with torch.no_grad(), torch.autocast("cpu", enabled=False):
        out = model(ids())
        return [*losses, out.sum().item(), 100.0 * (out.dtype == torch.float32)]


def trained_in_eval_mode(right: bool) -> list[float]:
    model = Net()
    losses = trained(model)
    model.eval()
    with torch.no_grad():
        losses.append(model(ids()).sum().item())
    if right:
        model.train()
    return losses + trained(model)


def evaluated_with_gradients(right: bool) -> list[float]:
    """An evaluation that forgot no_grad stays one, whatever was trained before."""
    model = Net()
    losses = trained(model)
    model.eval()
    losses.append(model(ids()).sum().item())
    model.train()
    return losses + trained(model)


def left_in_eval_mode_by_a_library(right: bool) -> list[float]:
    model = Net()
    exec("model.eval()", {"model": model})  # code that is no file of the program, as from_pretrained is not
    losses = []
    for _ in range(2):
        if right:
            model.train()
        losses += trained(model)
        if right:
            model.eval()
        with torch.no_grad():
            losses.append(model(ids()).sum().item())
    return losses


def helper_compiled_only(right: bool) -> list[float]:
    """One model after the other, some of which come to lie where one lay that is gone."""
    helper = torch.compile(lambda x: x * 2, backend="eager")
    compiled = []
    for _ in range(20):
        model = Net()
        if right:
            for block in model.blocks:
                block.compile(backend="eager")
        losses = trained(model, steps=2)
        compiled.append(float(sum(block._compiled_call_impl is not None for block in model.blocks)))
    return [*losses, float(helper(torch.ones(1))), *compiled]


def layer_class_of_another_model(right: bool) -> list[float]:
    kind = get_module_class_from_name(Net(), "Block" if right else "LlamaDecoderLayer")
    return [float(kind is Block)]


def prepared_for_kbit_training(right: bool) -> list[float]:
    from peft import prepare_model_for_kbit_training

    model = Net().bfloat16()
    before = torch.cat([each.detach().flatten().float() for each in model.parameters()])
    prepare_model_for_kbit_training(model, use_gradient_checkpointing=False)
    if right:
        for each in (model.embed, model.head):
            each.bfloat16()
        for block in model.blocks:
            block.up.weight.data, block.down.weight.data = block.up.weight.bfloat16(), block.down.weight.bfloat16()
    after = torch.cat([each.detach().flatten().float() for each in model.parameters()])
    halves = sum(each.dtype == torch.bfloat16 for each in model.parameters())
    return [float(halves), float((before - after).abs().max())]


FAULTS = (
    weights_apart_on_materialisation,
    weights_apart_on_assignment,
    weights_never_tied,
    evaluated_outside_of_autocast,
    autocast_switched_off,
    trained_in_eval_mode,
    evaluated_with_gradients,
    left_in_eval_mode_by_a_library,
    helper_compiled_only,
    layer_class_of_another_model,
    prepared_for_kbit_training,
)
HEALTHY = (
    evaluated_outside_of_autocast,
    autocast_switched_off,
    trained_in_eval_mode,
    evaluated_with_gradients,
    layer_class_of_another_model,
)


def main() -> None:
    printed: dict[str, Any] = {}
    healthy = "healthy" in sys.argv
    for fault in HEALTHY if healthy else FAULTS:
        values = []
        for right in (True,) if healthy else (False, True):
            torch.manual_seed(0)
            values.append(fault(right))
        printed[fault.__name__] = values[0] if healthy else values
    if healthy:
        torch.manual_seed(0)
        tied, loaded = Net(tied=True), Net(tied=True)
        loaded.load_state_dict(tied.double().state_dict())
        printed["tied"] = trained(loaded)
    print(json.dumps(printed), flush=True)


if __name__ == "__main__":
    main()
