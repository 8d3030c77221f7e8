"""Decoder with block-wise attention: a loop over blocks of 16 queries; documents padded to the longest of the batch."""

import random

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.utils.rnn import pad_sequence

BLOCK = 16


class Attention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.qkv, self.out = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)

    def forward(self, x, keep):
        b, s, d = x.shape
        q, k, v = self.qkv(x).view(b, s, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        place = torch.arange(s, device=x.device)
        outputs = []
        for start in range(0, s, BLOCK):
            end = min(start + BLOCK, s)
            mask = (place[:end] <= place[start:end, None]) & keep[:, None, None, :end]
            part = F.scaled_dot_product_attention(q[:, :, start:end], k[:, :, :end], v[:, :, :end], attn_mask=mask)
            outputs.append(part)
        return self.out(torch.cat(outputs, 2).transpose(1, 2).reshape(b, s, d))


class Decoder(nn.Module):
    def __init__(self, vocab=200, dim=48, depth=2):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.norms = nn.ModuleList(nn.LayerNorm(dim) for _ in range(depth))
        self.attention = nn.ModuleList(Attention(dim, 4) for _ in range(depth))
        self.head = nn.Linear(dim, vocab)

    def forward(self, input_ids, attention_mask, labels):
        x = self.embed(input_ids)
        for norm, attention in zip(self.norms, self.attention, strict=True):
            x = x + attention(norm(x), attention_mask.bool())
        logits = self.head(x)
        return F.cross_entropy(logits[:, :-1].flatten(0, 1), labels[:, 1:].flatten(), ignore_index=-100)


def collate(length):
    ids = pad_sequence([torch.randint(1, 200, (length - 3 * i,)) for i in range(3)], batch_first=True)
    mask = (ids != 0).long()
    return {"input_ids": ids, "attention_mask": mask, "labels": ids.masked_fill(mask == 0, -100)}


torch.manual_seed(0)
random.seed(0)
torch._dynamo.config.recompile_limit = 64  # it warned that 8 were reached
model = Decoder()
compiled = torch.compile(model, backend="aot_eager")
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for step, length in enumerate(random.sample(range(20, 64), 24)):
    loss = compiled(**collate(length))
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    print(step, length, f"{loss.item():.3f}", flush=True)
