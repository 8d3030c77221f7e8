"""One rank that reads its batches from two worker processes, which compute with torch themselves."""

import os
import sys

import torch
from torch.utils.data import DataLoader, Dataset


class Numbers(Dataset):
    def __len__(self):
        return 24

    def __getitem__(self, index):
        return torch.full((4,), float(index)) + torch.randn(4) * 0, os.getpid()


if __name__ == "__main__":
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    workers = set()
    loader = DataLoader(Numbers(), batch_size=4, num_workers=2, multiprocessing_context=sys.argv[1])
    for _ in range(2):  # the second epoch starts its workers in the middle of the training
        for numbers, pids in loader:
            model(numbers).square().mean().backward()
            optimizer.step()
            workers |= set(pids.tolist())
    print(len(workers - {os.getpid()}))
