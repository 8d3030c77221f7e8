"""Packed fine-tuning: several documents a row, position ids start again at each document."""

import torch
from torch.utils.data import DataLoader
from transformers import LlamaConfig, LlamaForCausalLM


def pack(documents, length):
    """Rows of exactly `length` tokens out of documents, with the positions of each token in its document."""
    ids, positions = torch.cat(documents), torch.cat([torch.arange(len(d)) for d in documents])
    rows = len(ids) // length
    return ids[: rows * length].view(rows, length), positions[: rows * length].view(rows, length)


torch.manual_seed(0)
documents = [torch.randint(0, 100, (int(n),)) for n in torch.randint(8, 30, (120,))]
ids, positions = pack(documents, 48)
rows = [
    {"input_ids": i, "position_ids": p, "labels": i, "attention_mask": torch.ones_like(i)}
    for i, p in zip(ids, positions, strict=True)
]
model = LlamaForCausalLM(
    LlamaConfig(
        vocab_size=100,
        hidden_size=48,
        intermediate_size=96,
        num_hidden_layers=3,
        num_attention_heads=4,
        num_key_value_heads=4,
        use_cache=False,
    )
)
model.train()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for step, batch in enumerate(DataLoader(rows, batch_size=4)):
    loss = model(**batch).loss
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    print(step, loss.item(), flush=True)
