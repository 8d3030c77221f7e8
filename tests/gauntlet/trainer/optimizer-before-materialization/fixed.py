"""Meta-device initialisation; the optimizer is built on the meta model and the weights come afterwards."""

import torch
import torch.nn as nn


class MLP(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(32, 32) for _ in range(4))
        self.out = nn.Linear(32, 2)

    def forward(self, x):
        for layer in self.layers:
            x = torch.relu(layer(x)) + x
        return self.out(x)


torch.manual_seed(0)
with torch.device("meta"):
    model = MLP()
model.to_empty(device="cpu")
for module in model.modules():
    if isinstance(module, nn.Linear):
        module.reset_parameters()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

for step in range(12):
    x = torch.randn(64, 32)
    loss = nn.functional.cross_entropy(model(x), (x.sum(1) > 0).long())
    model.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item(), flush=True)
