"""A frozen reader tuned by vectors that rescale its layers; the output layer is trained, blocks are checkpointed."""

import functools
import json
from pathlib import Path

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint


class Rescaled(nn.Linear):
    """A linear layer with a learned scale for each of its outputs."""

    def __init__(self, inputs, outputs):
        super().__init__(inputs, outputs)
        self.ia3_scale = nn.Parameter(torch.ones(outputs))

    def forward(self, x):
        return super().forward(x) * self.ia3_scale


class Gated(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.gate, self.value, self.out = Rescaled(width, width), Rescaled(width, width), nn.Linear(width, width)

    def forward(self, x):
        y = self.norm(x)
        return x + self.out(self.gate(y).sigmoid() * self.value(y))


class Reader(nn.Module):
    def __init__(self, width, depth, keep):
        super().__init__()
        self.words = nn.Embedding(50, width)
        self.blocks = nn.ModuleList(Gated(width) for _ in range(depth))
        self.answer, self.keep = nn.Linear(width, 2), keep

    def forward(self, ids):
        x = self.words(ids)
        for block in self.blocks:
            x = self.keep(block, x)
        return self.answer(x.mean(1))


def tuned(model):
    for name, parameter in model.named_parameters():
        parameter.requires_grad_("ia3_" in name or name.startswith("answer"))
    return [parameter for parameter in model.parameters() if parameter.requires_grad]


def main():
    options = json.loads(Path(__file__).with_name("options.json").read_text())
    torch.manual_seed(options["seed"])
    keep = functools.partial(checkpoint, use_reentrant=False)
    model = Reader(options["width"], options["depth"], keep)
    optimizer = torch.optim.AdamW(tuned(model), lr=options["lr"])
    for step in range(options["steps"]):
        ids = torch.randint(0, 50, (16, 10))
        loss = nn.functional.cross_entropy(model(ids), (ids.float().mean(1) > 25).long())
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        print(step, f"{loss.item():.4f}", flush=True)


if __name__ == "__main__":
    main()
