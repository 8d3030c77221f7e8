"""Three ranks train replicas; rank 0 hands the vocabulary it has built to rank 1, which writes the evaluation files."""

import argparse

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


class Tagger(nn.Module):
    def __init__(self, words, tags):
        super().__init__()
        self.embed = nn.Embedding(words, 24)
        self.rnn = nn.GRU(24, 32, batch_first=True)
        self.tag = nn.Linear(32, tags)

    def forward(self, ids):
        return self.tag(self.rnn(self.embed(ids))[0])


def share_vocabulary(rank, size):
    table = torch.arange(size) if rank == 0 else torch.empty(size, dtype=torch.int64)
    if rank == 0:
        dist.send(table, dst=1)
    elif rank == 1:
        dist.recv(table, src=0)
    dist.barrier()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--words", type=int, default=90)
    parser.add_argument("--steps", type=int, default=12)
    options = parser.parse_args()
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    share_vocabulary(rank, options.words)
    torch.manual_seed(2)
    model = DistributedDataParallel(Tagger(options.words, 5))
    optimizer = torch.optim.AdamW(model.parameters(), lr=4e-3)
    torch.manual_seed(100 + rank)
    for step in range(options.steps):
        ids = torch.randint(0, options.words, (8, 20))
        loss = nn.functional.cross_entropy(model(ids).flatten(0, 1), (ids % 5).flatten())
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        if rank == 0 and step % 4 == 0:
            print(f"step {step} loss {loss.item():.4f}", flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
