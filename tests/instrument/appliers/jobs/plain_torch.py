"""Every layer that torch alone has, in one process: what the program can see of itself is printed as JSON."""

import json
import sys

import torch
from torch import nn
from torch.distributed._composable import checkpoint as composable_checkpoint
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import (
    CheckpointWrapper,
    apply_activation_checkpointing,
)
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.checkpoint import checkpoint, checkpoint_sequential

WIDTH = 32
APPLIERS = "trueup_instrument.appliers."


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)
        self.up = nn.Linear(WIDTH, WIDTH)
        self.down = nn.Linear(WIDTH, WIDTH)
        self.register_buffer("scale", torch.ones(1, dtype=torch.bfloat16))

    def forward(self, x):
        q, k, v = self.qkv(x).view(*x.shape[:2], 3, 4, -1).permute(2, 0, 3, 1, 4)
        x = x + functional.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(x.shape)
        return x + checkpoint(self.feed, x, use_reentrant=False)

    def feed(self, x):
        return self.down(torch.relu(self.up(x.to(torch.bfloat16).to(x.dtype)))) * self.scale.to(x.dtype)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(Block() for _ in range(3))
        self.head = nn.Linear(WIDTH, 2)

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return self.head(x)


class Head(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x):
        return torch.relu(self.linear(x))


def steps(model, optimizer, scaler, calls):
    losses = []
    for _ in range(calls):
        generator = torch.Generator().manual_seed(0)
        batch = torch.randn(2, 8, WIDTH, generator=generator)
        with torch.autocast("cpu", dtype=torch.bfloat16), sdpa_kernel(SDPBackend.FLASH_ATTENTION):
            loss = model(batch).square().mean()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
        losses.append(loss.item())
    return losses


torch.manual_seed(0)
model = Model()
apply_activation_checkpointing(model, check_fn=lambda part: isinstance(part, Block))
for block in model.blocks:
    block.compile(backend="aot_eager", fullgraph=True)
torch.compiler.set_stance("default")
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scaler = torch.amp.GradScaler("cpu", init_scale=4.0)
losses = steps(model, optimizer, scaler, 6)

# What is asked for beside the training: it must be switched as well, and must not fail.
half = nn.Linear(4, 4, dtype=torch.bfloat16)
cast = Model().to(torch.bfloat16)
fed = cast(torch.randn(1, 4, WIDTH).to(torch.bfloat16))
fed.float().sum().backward()
torch.set_float32_matmul_precision("high")
whole = torch.compile(Head(), backend="eager", dynamic=False)
with torch.compiler.set_stance("force_eager"):
    whole(torch.ones(1, 4))
runs = []
composed = composable_checkpoint(nn.Sequential(nn.Linear(4, 4), nn.Tanh()))
composed[0].register_forward_hook(lambda *_: runs.append(1))
composed(torch.ones(1, 4)).sum().backward()
sequence = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
sequence[0].register_forward_hook(lambda *_: runs.append(1))
checkpoint_sequential(sequence, 2, torch.ones(1, 4, requires_grad=True), use_reentrant=True).sum().backward()

print(
    json.dumps(
        {
            "losses": losses,
            "wrapped": [type(block).__name__ for block in model.blocks],
            "is wrapper": all(isinstance(block, CheckpointWrapper) for block in model.blocks),
            "compiled call kept": all(block._compiled_call_impl is not None for block in model.blocks),
            "_orig_mod": type(whole._orig_mod).__name__,
            "parameters": str(next(cast.parameters()).dtype),
            "layer made in half": str(half.weight.dtype),
            "fed": str(fed.dtype),
            "matmul precision": torch.get_float32_matmul_precision(),
            "scale": scaler.get_scale(),
            "forwards": len(runs),
            "appliers": sorted(name.rpartition(".")[2] for name in sys.modules if name.startswith(APPLIERS)),
        }
    )
)
