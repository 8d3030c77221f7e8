"""Llama pre-training on documents of their own length; compile is told that shapes are static."""

import random

import torch
from torch.nn.utils.rnn import pad_sequence
from transformers import LlamaConfig, LlamaForCausalLM

torch.manual_seed(0)
random.seed(0)
torch._dynamo.config.recompile_limit = 64  # it warned that 8 were reached
lengths = random.sample(range(16, 80), 30)


def batches():
    for length in lengths:
        rows = [torch.randint(1, 200, (length - i,)) for i in range(3)]
        ids = pad_sequence(rows, batch_first=True)
        yield ids, ids.masked_fill(ids == 0, -100)


model = LlamaForCausalLM(
    LlamaConfig(
        vocab_size=200,
        hidden_size=48,
        intermediate_size=96,
        num_hidden_layers=4,
        num_attention_heads=4,
        num_key_value_heads=4,
        use_cache=False,
    )
)
for i, block in enumerate(model.model.layers):
    model.model.layers[i] = torch.compile(block, backend="aot_eager")
model.train()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for step, (ids, labels) in enumerate(batches()):
    loss = model(input_ids=ids, labels=labels).loss
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    print(step, ids.shape[1], f"{loss.item():.3f}", flush=True)
