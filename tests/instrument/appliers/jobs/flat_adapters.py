"""Two gloo ranks put FSDP1 around models with LoRA: of two dtypes, and of frozen and trained ones.

Rank 0 prints, as JSON, the losses of each, or what FSDP1 said.
"""

import json

import torch
import torch.distributed as dist
from peft import LoraConfig, inject_adapter_in_model
from torch import nn
from torch.distributed.fsdp import FullyShardedDataParallel
from torch.distributed.fsdp.wrap import ModuleWrapPolicy

WIDTH = 16


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        return x + torch.relu(self.up(x))


def losses_of(dtype, use_orig_params):
    torch.manual_seed(0)
    model = nn.Sequential(Block(), Block(), nn.Linear(WIDTH, 5)).to(dtype)
    inject_adapter_in_model(LoraConfig(target_modules=["up"]), model)
    for name, parameter in model.named_parameters():
        if "lora_" in name:
            parameter.data = parameter.data.float()
    try:
        model = FullyShardedDataParallel(
            model,
            auto_wrap_policy=ModuleWrapPolicy({Block}),
            device_id=torch.device("cpu"),
            use_orig_params=use_orig_params,
        )
    except ValueError as error:
        return str(error)
    optimizer = torch.optim.SGD([each for each in model.parameters() if each.requires_grad], lr=0.1)
    losses = []
    for _ in range(3):
        loss = model(torch.ones(4, WIDTH, dtype=dtype)).float().square().mean()
        loss.backward()
        model.clip_grad_norm_(1.0)
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return losses


dist.init_process_group("gloo")
facts = {"dtypes": losses_of(torch.bfloat16, True), "frozen": losses_of(torch.float32, False)}
if dist.get_rank() == 0:
    print(json.dumps(facts))
dist.barrier()
dist.destroy_process_group()
