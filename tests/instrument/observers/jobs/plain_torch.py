"""Sets up a training job with torch alone, each layer once. `# at:` marks the lines that the events must name."""

import tempfile
from functools import partial

import torch
from torch import nn
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import (
    apply_activation_checkpointing,
    checkpoint_wrapper,
)
from torch.utils.checkpoint import create_selective_checkpoint_contexts


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.Linear(8, 8)
        self.down = nn.Linear(8, 8)

    def forward(self, x):
        return x + self.down(self.up(x))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(Block() for _ in range(6))
        self.head = nn.Linear(8, 2)

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return self.head(x)


class Stack(nn.Sequential):
    """Of our own, with the forward of torch."""


class Mixture(nn.Module):
    """A block whose experts are no blocks."""

    def __init__(self):
        super().__init__()
        self.experts = nn.ModuleList(Block() for _ in range(4))


torch.manual_seed(0)

# -- compile

whole = Model()
compiled = torch.compile(whole, backend="eager", dynamic=True)  # at: whole model
assert isinstance(compiled, torch._dynamo.OptimizedModule)
assert type(torch.compile(nn.Linear(2, 2), backend="eager")).__name__ == "OptimizedModule"
torch.compile(Mixture(), backend="eager")

per_block = Model()
for block in per_block.blocks:
    block.compile(backend="eager")  # at: per block
nn.TransformerEncoderLayer(8, 2).compile(backend="eager")
Stack(nn.Linear(8, 8)).compile(backend="eager")


@torch.compile(backend="eager", fullgraph=True)  # at: decorator with arguments
def scaled(x):
    return x * 2


@torch.compile
def plain(x):
    return x * 3


assert scaled(torch.ones(2)).tolist() == [2.0, 2.0]
assert callable(plain)

model = Model()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, foreach=False)  # at: optimizer
optimizer.step = torch.compile(optimizer.step, backend="eager")
forward = torch.compile(model.forward, backend="eager")
assert forward(torch.ones(1, 8)).shape == (1, 2)
for _ in range(60):
    torch.compile(Block(), backend="eager")

# -- checkpointing

wrapped = checkpoint_wrapper(Block())  # at: checkpoint wrapper
policy = partial(create_selective_checkpoint_contexts, [torch.ops.aten.mm.default])
checkpoint_wrapper(per_block.blocks[0], context_fn=policy)  # at: selective checkpoint
apply_activation_checkpointing(model, check_fn=lambda part: isinstance(part, Block))
again = torch.compile(model, backend="eager")

# -- moves

moved = Model()
moved.to("cpu")  # changes nothing
moved.to(torch.bfloat16)  # at: to
moved.half()
nn.ReLU().to(torch.bfloat16)  # has no parameters
moved.load_state_dict({**Model().state_dict(), "extra": torch.zeros(1)}, strict=False)
partial = {name: value for name, value in Model().state_dict().items() if not name.startswith("head")}
moved.load_state_dict(partial, strict=False)  # at: load state dict

# -- a file of a compiled module, of which nothing fits

with tempfile.NamedTemporaryFile() as file:
    torch.save({"model": again.state_dict()}, file.name)
    saved = torch.load(file.name, weights_only=True)["model"]
merged = moved.state_dict()
merged.update({name: value for name, value in saved.items() if name in merged})
moved.load_state_dict(merged)
moved.load_state_dict({**merged, "head.weight": torch.zeros(2, 8), "head.bias": torch.zeros(2)})
moved.load_state_dict(Model().state_dict())

# -- the rest

torch.optim.SGD([nn.Parameter(torch.ones(3))], lr=torch.tensor(0.1))
torch.amp.GradScaler("cpu", enabled=False)
torch.compiler.set_stance("eager_on_recompile")
torch.compiler.set_stance("default")
from torch._dynamo import compiled_autograd  # noqa: E402

for _ in range(2):
    with compiled_autograd._enable(torch.compile(backend="eager")):  # at: compiled autograd
        nn.Linear(2, 2)(torch.ones(1, 2)).sum().backward()
loss = model(torch.ones(2, 8)).sum()
loss.backward()
print("loss", loss.item())
