"""Random token ids in place of a corpus."""

import torch


def batches(count, size, vocabulary, length=32):
    generator = torch.Generator().manual_seed(0)
    for _ in range(count):
        yield torch.randint(0, vocabulary, (size, length), generator=generator)
