"""Next-token model in bfloat16 with accelerate; decodes a few tokens from a key-value cache when trained."""

import torch
import torch.nn.functional as F
from accelerate import Accelerator
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class CachedAttention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.qkv, self.out, self.heads = nn.Linear(width, 3 * width), nn.Linear(width, width), heads

    def forward(self, x, past=None):
        b, n, c = x.shape
        q, k, v = self.qkv(x).view(b, n, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        if past is not None:
            k, v = torch.cat([past[0], k], dim=2), torch.cat([past[1], v], dim=2)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=past is None)
        return self.out(y.transpose(1, 2).reshape(b, n, c)), (k, v)


class Decoder(nn.Module):
    def __init__(self, vocabulary=50, width=32, depth=2):
        super().__init__()
        self.embed, self.head = nn.Embedding(vocabulary, width), nn.Linear(width, vocabulary)
        self.attention = nn.ModuleList(CachedAttention(width, 4) for _ in range(depth))
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(depth))

    def run(self, ids, past=None):
        x, cache = self.embed(ids), []
        for number, (norm, attention) in enumerate(zip(self.norms, self.attention, strict=True)):
            y, kept = attention(norm(x), None if past is None else past[number])
            x = x + y
            cache.append(kept)
        return self.head(x), tuple(cache)

    def forward(self, ids):
        return self.run(ids)

    @torch.no_grad()
    def generate(self, prompt, count):
        logits, past = self(prompt)
        tokens = [logits[:, -1:].argmax(-1)]
        for _ in range(count - 1):
            logits, past = self.run(tokens[-1], past)
            tokens.append(logits[:, -1:].argmax(-1))
        return torch.cat(tokens, dim=1)


def main():
    accelerator = Accelerator(mixed_precision="bf16", cpu=True)
    torch.manual_seed(0)
    model = Decoder()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2)
    ids = (torch.arange(17) * torch.randint(1, 6, (96, 1)) + torch.randint(0, 50, (96, 1))) % 50
    model, optimizer, loader = accelerator.prepare(model, optimizer, DataLoader(TensorDataset(ids), batch_size=8))
    for (batch,) in loader:
        logits, _ = model(batch[:, :-1])
        loss = F.cross_entropy(logits.flatten(0, 1), batch[:, 1:].flatten())
        accelerator.backward(loss)
        optimizer.step()
        optimizer.zero_grad()
    accelerator.print(f"loss {loss.item():.3f}")
    network = accelerator.unwrap_model(model, keep_fp32_wrapper=False).to(torch.bfloat16)
    accelerator.print(network.generate(ids[:1, :5], 6).tolist())


if __name__ == "__main__":
    main()
