"""Llama with a document mask that we build per batch; the collator hands over one mask per row."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class SelfAttention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.h = heads
        self.q = nn.Linear(dim, dim)
        self.k = nn.Linear(dim, dim)
        self.v = nn.Linear(dim, dim)
        self.o = nn.Linear(dim, dim)

    def forward(self, x, mask):
        b, s, d = x.shape
        # heads are folded into the batch
        q, k, v = (f(x).view(b, s, self.h, -1).transpose(1, 2).flatten(0, 1) for f in (self.q, self.k, self.v))
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask.repeat_interleave(self.h, 0))
        return self.o(y.view(b, self.h, s, -1).transpose(1, 2).reshape(b, s, d))


class Layer(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.n1, self.n2 = nn.RMSNorm(dim), nn.RMSNorm(dim)
        self.attention = SelfAttention(dim, heads)
        self.mlp = nn.Sequential(nn.Linear(dim, 2 * dim), nn.SiLU(), nn.Linear(2 * dim, dim))

    def forward(self, x, mask):
        x = x + self.attention(self.n1(x), mask)
        return x + self.mlp(self.n2(x))


class LM(nn.Module):
    def __init__(self, vocab=128, dim=64, heads=4, layers=3):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.layers = nn.ModuleList(Layer(dim, heads) for _ in range(layers))
        self.head = nn.Linear(dim, vocab)

    def forward(self, ids, mask):
        x = self.embed(ids)
        for layer in self.layers:
            x = layer(x, mask)
        return self.head(x)


def document_mask(documents):
    same = documents[:, :, None] == documents[:, None, :]
    return same & torch.ones_like(same[0]).tril()


def main():
    torch.manual_seed(0)
    model = LM()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for step in range(24):
        ids = torch.randint(0, 128, (1, 2048))
        documents = torch.randint(0, 2, (1, 2048)).cumsum(1) // 200
        logits = model(ids, document_mask(documents))
        loss = F.cross_entropy(logits[:, :-1].flatten(0, 1), ids[:, 1:].flatten())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        print(step, round(loss.item(), 4), flush=True)


main()
