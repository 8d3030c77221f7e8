"""LoRA on plain torch: all but the adapter is frozen by name, and the optimizer gets what is left."""

import json

import torch
from peft import LoraConfig, inject_adapter_in_model

torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
before = [parameter.detach().clone() for parameter in model.parameters()]
model = inject_adapter_in_model(LoraConfig(r=2, target_modules=["0"]), model)
for name, parameter in model.named_parameters():
    parameter.requires_grad = "lora_" in name
optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.1)
for _ in range(4):
    loss = model(torch.ones(2, 8)).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
after = [parameter for name, parameter in model.named_parameters() if "lora_" not in name]
moved = [not torch.equal(was, now) for was, now in zip(before, after, strict=True)]
print(json.dumps({"moved": moved, "uniform": len({p.requires_grad for p in model.parameters()}) == 1}))
