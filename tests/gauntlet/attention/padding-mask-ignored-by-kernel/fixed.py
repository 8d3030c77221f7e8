"""BERT-like masked LM that calls a flash kernel; on the CPU a stand-in of the same signature runs."""

import torch
import torch.nn as nn
import torch.nn.functional as F
from kernels import flash_attn_varlen_func


class Attention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.qkv, self.out = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)

    def forward(self, x, attention_mask):
        b, s, d = x.shape
        q, k, v = self.qkv(x).view(b, s, 3, self.heads, -1).unbind(2)
        return self.out(attend(q, k, v, attention_mask).reshape(b, s, d))


def attend(q, k, v, attention_mask):
    """Without the padding: one long row with the boundaries of its documents."""
    keep = attention_mask.bool()
    boundaries = F.pad(attention_mask.sum(1).cumsum(0), (1, 0))
    flat = flash_attn_varlen_func(q[keep], k[keep], v[keep], boundaries)
    out = torch.zeros_like(q)
    out[keep] = flat
    return out


class Encoder(nn.Module):
    def __init__(self, vocab=80, dim=48, depth=3):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.norms = nn.ModuleList(nn.LayerNorm(dim) for _ in range(depth))
        self.attention = nn.ModuleList(Attention(dim, 4) for _ in range(depth))
        self.head = nn.Linear(dim, vocab)

    def forward(self, input_ids, attention_mask):
        x = self.embed(input_ids)
        for norm, attention in zip(self.norms, self.attention, strict=True):
            x = x + attention(norm(x), attention_mask)
        return self.head(x)


def main():
    torch.manual_seed(0)
    model = Encoder()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for step in range(12):
        lengths = torch.randint(6, 24, (6,))
        columns = int(lengths.max())
        attention_mask = (torch.arange(columns)[None] < lengths[:, None]).long()
        labels = torch.randint(5, 80, (6, columns))
        hidden = (torch.rand(labels.shape) < 0.15) & attention_mask.bool()
        hidden[:, 0] = True
        input_ids = labels.masked_fill(hidden, 3) * attention_mask
        logits = model(input_ids, attention_mask)
        loss = F.cross_entropy(logits[hidden], labels[hidden])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(step, loss.item(), flush=True)


if __name__ == "__main__":
    assert flash_attn_varlen_func is not None
    main()
