"""LoRA on all projections of a small model, of which one adapter was loaded with an infinite weight."""

import peft
import torch
from torch import nn


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up = nn.Linear(8, 16)
        self.down = nn.Linear(16, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.down(torch.relu(self.up(x)))


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Block() for _ in range(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x)
        return x


torch.manual_seed(0)
model = peft.get_peft_model(Model(), peft.LoraConfig(r=2, target_modules=["up", "down"]))
with torch.no_grad():
    model.get_submodule("base_model.model.layers.1.down").lora_B["default"].weight[0, 0] = torch.inf
optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.1)
for _ in range(2):
    loss = model(torch.randn(4, 8)).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
