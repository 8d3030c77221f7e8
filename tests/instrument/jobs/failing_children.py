"""Trains in a child process, which fails: started as the argument says."""

import multiprocessing
import sys

import torch
import torch.multiprocessing


def train(index: int) -> None:
    weight = torch.ones(2, requires_grad=True)
    optimizer = torch.optim.SGD([weight], lr=0.1)
    weight.sum().backward()
    optimizer.step()
    raise RuntimeError("no more data") from KeyError("shard")


if __name__ == "__main__":
    way, method = sys.argv[1:]
    if way == "torch":
        torch.multiprocessing.start_processes(train, nprocs=1, start_method=method)
    else:
        child = multiprocessing.get_context(method).Process(target=train, args=(0,))
        child.start()
        child.join()
        sys.exit(child.exitcode)
