"""Token-budget batches: batch size and length both vary; static shapes for the whole model."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class GRUCellLM(nn.Module):
    def __init__(self, vocab, dim):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.mix = nn.ModuleList(nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, dim), nn.GELU()) for _ in range(8))
        self.head = nn.Linear(dim, vocab)

    def forward(self, ids):
        x = self.embed(ids)
        for layer in self.mix:
            x = x + layer(x.cumsum(1) / torch.arange(1, x.shape[1] + 1, device=x.device)[:, None])
        return self.head(x)


def budget_batches(tokens, steps):
    generator = torch.Generator().manual_seed(1)
    for _ in range(steps):
        length = int(torch.randint(8, 64, (1,), generator=generator))
        yield torch.randint(0, 90, (max(2, tokens // length), length), generator=generator)


def main():
    torch.manual_seed(0)
    torch._dynamo.config.assume_static_by_default = True
    torch._dynamo.config.automatic_dynamic_shapes = False
    torch._dynamo.config.recompile_limit = 64
    model = GRUCellLM(90, 64)
    compiled = torch.compile(model, backend="aot_eager")
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for step, ids in enumerate(budget_batches(512, 30)):
        logits = compiled(ids[:, :-1])
        loss = F.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        print(step, tuple(ids.shape), round(loss.item(), 3), flush=True)


if __name__ == "__main__":
    main()
