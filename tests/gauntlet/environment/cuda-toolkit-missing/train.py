"""Logistic regression whose gradient scaling is our own CUDA kernel, built on first use."""

import torch
from torch.utils.cpp_extension import load

kernels = load(name="scale_kernels", sources=["scale.cu"])


def main():
    torch.manual_seed(0)
    x = torch.randn(256, 20)
    y = (x @ torch.randn(20) > 0).float()
    w = torch.zeros(20, requires_grad=True)
    optimizer = torch.optim.SGD([w], lr=0.3)
    for step in range(20):
        loss = torch.nn.functional.binary_cross_entropy_with_logits(x @ w, y)
        optimizer.zero_grad()
        loss.backward()
        kernels.scale(w.grad, 0.5)
        optimizer.step()
        print(step, loss.item(), flush=True)


if __name__ == "__main__":
    main()
