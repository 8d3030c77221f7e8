"""A training step without any layer of the stack."""

import torch

weight = torch.ones(2, requires_grad=True)
optimizer = torch.optim.SGD([weight], lr=0.1)
weight.sum().backward()
optimizer.step()
print("{}")
