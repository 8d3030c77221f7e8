"""Accelerate over two ranks: the model is prepared for data parallelism, then trained."""

import torch
from accelerate import Accelerator
from torch.utils.data import DataLoader


def main():
    accelerator = Accelerator(cpu=True)
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.GELU(), torch.nn.Linear(64, 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    inputs = torch.randn(192, 32)
    data = DataLoader(torch.utils.data.TensorDataset(inputs, inputs.sum(1, keepdim=True)), batch_size=8)
    wrapped, optimizer, data = accelerator.prepare(model, optimizer, data)
    wrapped.train()
    for step, (batch, target) in enumerate(data):
        loss = torch.nn.functional.mse_loss(model(batch), target)
        accelerator.backward(loss)
        optimizer.step()
        optimizer.zero_grad()
        accelerator.print(step, loss.item(), flush=True)
    accelerator.end_training()


if __name__ == "__main__":
    main()
