"""Plain MLP regression; model.compile() on an nn.Sequential."""

import torch
import torch.nn as nn

torch.manual_seed(1)
model = nn.Sequential(nn.Linear(16, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 1))
model.compile(backend="aot_eager")
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
x = torch.randn(256, 16)
y = x[:, :4].sum(1, keepdim=True).sin()
for epoch in range(4):
    for i in range(0, 256, 64):
        loss = nn.functional.mse_loss(model(x[i : i + 64]), y[i : i + 64])
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    print("epoch", epoch, loss.item(), flush=True)
