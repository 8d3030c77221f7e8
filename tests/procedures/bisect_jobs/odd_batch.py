"""A small language model that fails at one batch: of its content, its length, or of how many came before."""

import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader

parser = argparse.ArgumentParser()
parser.add_argument("--fault", choices=("labels", "length", "count", "change"), required=True)
parser.add_argument("--accumulate", type=int, default=1)
arguments = parser.parse_args()
IGNORED, POSITIONS, ODD = -100, 48, 5

rows = []
generator = torch.Generator().manual_seed(0)
for index in range(12):
    long = arguments.fault in ("length", "change") and index == ODD
    tokens = torch.randint(
        1, 32, (2, 64 if long and arguments.fault == "length" else 40 if long else 24), generator=generator
    )
    labels = torch.full_like(tokens, IGNORED) if arguments.fault == "labels" and index == ODD else tokens
    rows.append({"input_ids": tokens, "labels": labels})


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(32, 8)
        self.positions = nn.Embedding(POSITIONS, 8)
        self.head = nn.Linear(8, 32)
        self.seen: set[int] = set()
        self.calls = 0

    def forward(self, input_ids: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        if arguments.fault == "count" and self.calls > 7:
            raise RuntimeError("the buffer of statistics is full after seven calls of the model")
        self.seen.add(input_ids.shape[1])
        if arguments.fault == "change" and len(self.seen) > 1:
            raise RuntimeError("the compiled graph was made for another sequence length")
        return self.head(self.embed(input_ids) + self.positions(torch.arange(input_ids.shape[1])))


torch.manual_seed(0)
model = Model()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for number, batch in enumerate(DataLoader(rows, batch_size=None), 1):
    logits = model(batch["input_ids"])
    loss = nn.functional.cross_entropy(logits.flatten(0, 1), batch["labels"].flatten())
    (loss / arguments.accumulate).backward()
    if number % arguments.accumulate == 0:
        optimizer.step()
        optimizer.zero_grad()
    print(loss.item(), flush=True)
