"""Runs many small jobs in forked children of one process, so that torch is imported once for all of them.

    python forking.py ORDERS.json FOLDER

Each order names a function of a module beside this file, its keyword arguments, how many ranks it has, and variables
to set. With `start` the child begins to be observed after the fork, by the file that Python runs as `sitecustomize`;
without it the child is observed as a forked child of an observed parent is, or not at all. What the function returns
is written to `FOLDER/<name>-<rank>.json`, how the child ended to `FOLDER/<name>-<rank>.exit`.
"""

import atexit
import importlib
import json
import os
import random
import runpy
import sys
from pathlib import Path

import numpy
import torch
import torch._dynamo
import torch.distributed
import torch.distributed.fsdp
import torch.utils.checkpoint


def work(order, rank, folder):
    """What a child does, but for its end."""
    os.environ.update(order["variables"])
    if order["ranks"] > 1:
        os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(order["ranks"]))
        os.environ["STORE"] = f"{folder / order['name']}.store"
    if order["start"]:
        runpy.run_path(order["start"])
    torch.set_num_threads(1)
    for seed in (torch.manual_seed, random.seed, numpy.random.seed):
        seed(rank)
    module, _, function = order["job"].partition(".")
    result = getattr(importlib.import_module(module), function)(**order["arguments"])
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()
    (folder / f"{order['name']}-{rank}.json").write_text(json.dumps({"pid": os.getpid(), "result": result}))


def leave(work, *arguments):
    """Work and end as an interpreter does, but for taking apart all that torch has built, which takes a second."""
    code = 0
    try:
        work(*arguments)
    except SystemExit as end:
        code = end.code or 0
    except BaseException:
        sys.excepthook(*sys.exc_info())
        code = 1
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def main():
    orders, folder = json.loads(Path(sys.argv[1]).read_text()), Path(sys.argv[2])
    torch._dynamo.lookup_backend("aot_eager")  # imports what the children would import one by one
    for order in orders:
        children = {}
        for rank in range(order["ranks"]):
            sys.stdout.flush()
            pid = os.fork()
            if pid == 0:
                leave(work, order, rank, folder)
            children[pid] = rank
        while children:
            pid, status = os.wait()
            code = os.waitstatus_to_exitcode(status)
            (folder / f"{order['name']}-{children.pop(pid)}.exit").write_text(str(code))


if __name__ == "__main__":
    main()
