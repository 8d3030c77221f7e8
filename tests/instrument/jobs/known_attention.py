"""Jobs that know how often attention runs in the forward pass of one training step, whatever else runs it."""

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.checkpoint import checkpoint

STEPS = 4
BLOCKS = 2


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.project = nn.Linear(8, 8)

    def forward(self, x, mask=None):
        x = self.project(x).unflatten(-1, (2, 4)).transpose(1, 2)
        return F.scaled_dot_product_attention(x, x, x, attn_mask=mask).transpose(1, 2).flatten(2)


class Model(nn.Module):
    def __init__(self, reentrant=None):
        super().__init__()
        self.blocks = nn.ModuleList(Block() for _ in range(BLOCKS))
        self.reentrant = reentrant

    def forward(self, x, mask=None):
        for block in self.blocks:
            again = self.reentrant is not None and self.training
            x = checkpoint(block, x, mask, use_reentrant=self.reentrant) if again else block(x, mask)
        return x


def train(model, evaluations=0, teacher=None):
    """Each step evaluates under a mask, with which another kernel runs."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    mask = torch.zeros(3, 3, requires_grad=True)
    for _ in range(STEPS):
        x = torch.ones(2, 3, 8, requires_grad=True)
        if teacher is not None:
            with torch.inference_mode():
                teacher(x, mask)
        model(x).sum().backward()
        model.eval()
        with torch.no_grad():
            for _ in range(evaluations):
                model(x, mask)
        model.train()
        optimizer.step()
        optimizer.zero_grad()
    return {"sdpa-flash-cpu": BLOCKS}


def trained_alone():
    return train(Model())


def evaluated_in_the_step():
    return train(Model(), evaluations=3)


def beside_a_teacher():
    return train(Model(), teacher=Model())


def checkpointed():
    return train(Model(reentrant=False), evaluations=1)


def checkpointed_the_old_way():
    return train(Model(reentrant=True), evaluations=1)


def compiled():
    model = Model()
    model.compile(backend="aot_eager")
    return train(model, evaluations=1)


def restricted_all_the_time():
    """The context is entered before the first step, and left after the last one."""
    with sdpa_kernel(SDPBackend.MATH):
        train(Model())
    return {"sdpa-math": BLOCKS}


def switched_off():
    torch.backends.cuda.enable_flash_sdp(False)
    train(Model())
    return {"sdpa-math": BLOCKS}
