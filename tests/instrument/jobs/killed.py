"""Two ranks, replicated; in the third step the second is killed as by the system when memory is short."""

import os
import signal

import torch

torch.distributed.init_process_group("gloo")
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(1, 6):
    loss = model(torch.ones(2, 4)).sum()
    if step == 3 and os.environ["RANK"] == "1":
        os.kill(os.getpid(), signal.SIGKILL)
    loss.backward()
    optimizer.step()
