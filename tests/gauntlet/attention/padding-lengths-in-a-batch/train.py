"""An encoder of protein sequences; the batch is a dictionary with the lengths of its rows."""

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader

LETTERS = 21  # 0 is the padding


class Mixer(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.norm = nn.LayerNorm(dim)
        self.inner = nn.Linear(dim, 3 * dim)
        self.outer = nn.Linear(dim, dim)

    def forward(self, x, valid):
        rows, columns, dim = x.shape
        q, k, v = self.inner(self.norm(x)).view(rows, columns, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(q, k, v)
        return x + self.outer(mixed.transpose(1, 2).reshape(rows, columns, dim))


class Encoder(nn.Module):
    def __init__(self, dim=64, depth=3, families=6):
        super().__init__()
        self.letters = nn.Embedding(LETTERS, dim)
        self.mixers = nn.ModuleList(Mixer(dim, 4) for _ in range(depth))
        self.family = nn.Linear(dim, families)

    def forward(self, batch):
        valid = torch.arange(batch["residues"].shape[1]) < batch["lengths"][:, None]
        x = self.letters(batch["residues"])
        for mixer in self.mixers:
            x = mixer(x, valid)
        x = (x * valid[:, :, None]).sum(1) / batch["lengths"][:, None]
        return self.family(x)


def collate(items):
    sequences, families = zip(*items, strict=True)
    return {
        "lengths": torch.tensor([len(sequence) for sequence in sequences]),
        "residues": nn.utils.rnn.pad_sequence(sequences, batch_first=True),
        "family": torch.tensor(families),
    }


def sequences(number, seed=0):
    generator = torch.Generator().manual_seed(seed)
    for i in range(number):
        length = int(torch.randint(8, 40, (), generator=generator))
        yield torch.randint(1 + 2 * (i % 6), 8 + 2 * (i % 6), (length,), generator=generator), i % 6


torch.manual_seed(0)
encoder = Encoder()
optimizer = torch.optim.AdamW(encoder.parameters(), lr=1e-3)
loader = DataLoader(list(sequences(160)), batch_size=16, shuffle=True, collate_fn=collate)
for epoch in range(2):
    for batch in loader:
        loss = F.cross_entropy(encoder(batch), batch["family"])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(epoch, loss.item(), flush=True)
