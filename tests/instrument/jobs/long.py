"""A job of many tiny steps that measures how much memory the observers hold."""

import gc
import resource
import tracemalloc

import torch


def train(steps, measured_at, package):
    """Bytes that code of `package` holds, and resident pages of the process, after each of the steps `measured_at`."""
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    given = torch.ones(2, 4)
    tracemalloc.start()
    held, resident = [], []
    for number in range(1, steps + 1):
        model(given).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
        if number in measured_at:
            gc.collect()
            ours = tracemalloc.take_snapshot().filter_traces([tracemalloc.Filter(True, f"*/{package}/*")])
            held.append(sum(statistic.size for statistic in ours.statistics("filename")))
            with open("/proc/self/statm") as pages:
                resident.append(int(pages.read().split()[1]) * resource.getpagesize())
    return {"held": held, "resident": resident}
