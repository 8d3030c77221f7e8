"""A model of one's own, and packed batches; `packed_models` adds models of transformers."""

import torch
from torch import nn
from torch.nn.functional import scaled_dot_product_attention

VOCABULARY = 100


def packed_batch(rows=3, lengths=(9, 14, 7, 10), seed=1):
    """Token ids and positions of `rows` rows with documents of these lengths."""
    torch.manual_seed(seed)
    ids = torch.randint(3, VOCABULARY, (rows, sum(lengths)))
    positions = torch.cat([torch.arange(length) for length in lengths]).expand(rows, -1).clone()
    return {"input_ids": ids, "position_ids": positions}


def block_mask(positions):
    """Causal within documents: (rows, 1, positions, positions), True where a token may look."""
    numbers = (positions == 0).long().cumsum(1)
    same = numbers[:, None, :, None] == numbers[:, None, None, :]
    length = positions.shape[1]
    return same & torch.ones(length, length, dtype=torch.bool).tril()


class Block(nn.Module):
    def __init__(self, width, dropout):
        super().__init__()
        self.norm, self.projection, self.out = nn.LayerNorm(width), nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.drop = nn.Dropout(dropout)
        self.calls = 0
        self.seen = []

    def forward(self, x, mask):
        if not torch.compiler.is_compiling():
            self.calls += 1
            self.seen.append(x.shape)
        rows, length, width = x.shape
        q, k, v = (
            each.view(rows, length, 4, width // 4).transpose(1, 2)
            for each in self.projection(self.norm(x)).chunk(3, -1)
        )
        a = scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=mask is None)
        return x + self.drop(self.out(a.transpose(1, 2).reshape(rows, length, width)))


class Own(nn.Module):
    """A model of one's own that builds no mask, unless it is given one or told at which token documents end."""

    def __init__(self, dropout=0.0, eos=None, batch_norm=False, returns="logits"):
        super().__init__()
        torch.manual_seed(0)
        width = 32
        self.eos, self.returns = eos, returns
        self.embed = nn.Embedding(VOCABULARY, width)
        self.blocks = nn.ModuleList([Block(width, dropout) for _ in range(2)])
        self.statistics = nn.BatchNorm1d(width) if batch_norm else None
        self.head = nn.Linear(width, VOCABULARY)

    def forward(self, tokens, mask=None, position_ids=None):
        if self.eos is not None:
            ends = (tokens == self.eos).long()
            mask = block_mask_of_numbers(ends.cumsum(1) - ends)
        x = self.embed(tokens)
        for block in self.blocks:
            x = block(x, mask)
        if self.statistics is not None:
            x = self.statistics(x.transpose(1, 2)).transpose(1, 2)
        logits = self.head(x)
        return logits.float().logsumexp(-1).mean() if self.returns == "loss" else logits


def block_mask_of_numbers(numbers):
    same = numbers[:, None, :, None] == numbers[:, None, None, :]
    length = numbers.shape[1]
    return same & torch.ones(length, length, dtype=torch.bool).tril()
