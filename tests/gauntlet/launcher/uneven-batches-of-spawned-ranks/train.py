"""Tagging with two ranks that the script starts itself. Documents are dealt out by their number; one rank gets more."""

import tempfile
from dataclasses import dataclass

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


@dataclass
class Job:
    documents: int = 100
    words: int = 12
    tags: int = 3
    epochs: int = 2
    batch: int = 4
    lr: float = 1e-2


class Tagger(nn.Module):
    def __init__(self, tags):
        super().__init__()
        self.words, self.rnn = nn.Embedding(60, 24), nn.LSTM(24, 24, batch_first=True)
        self.tags = nn.Linear(24, tags)

    def forward(self, x):
        return self.tags(self.rnn(self.words(x))[0])


def share(rank, job):
    words = torch.randint(0, 60, (job.documents, job.words), generator=torch.Generator().manual_seed(2))
    mine = [number for number in range(job.documents) if (number % 7 < 4) == (rank == 0)]
    return TensorDataset(words[mine], words[mine] % job.tags)


def work(rank, meeting, job):
    dist.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=2)
    torch.manual_seed(0)
    tagger = nn.parallel.DistributedDataParallel(Tagger(job.tags))
    optimizer = torch.optim.Adam(tagger.parameters(), lr=job.lr)
    batches = DataLoader(share(rank, job), batch_size=job.batch)
    for epoch in range(job.epochs):
        for words, tags in batches:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(tagger(words).flatten(0, 1), tags.flatten())
            loss.backward()
            optimizer.step()
            if rank == 0:
                print(f"epoch {epoch} loss {loss.item():.4f}", flush=True)
        if rank == 0:
            torch.save(tagger.module.state_dict(), "tagger.pt")
    dist.destroy_process_group()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        mp.spawn(work, args=(f"{folder}/meeting", Job()), nprocs=2)
