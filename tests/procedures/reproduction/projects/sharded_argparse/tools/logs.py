"""Messages of the first rank."""

import torch.distributed as dist


def on_first_rank(text):
    if dist.get_rank() == 0:
        print(text, flush=True)
