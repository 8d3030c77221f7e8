"""A small Llama that trains for 120 steps and prints, as its last line, the time, loss and graphs of each step."""

import json
import sys
import time

import torch
from transformers import LlamaConfig, LlamaForCausalLM

torch.manual_seed(0)
torch.set_num_threads(1)
config = LlamaConfig(
    vocab_size=1024,
    hidden_size=256,
    intermediate_size=512,
    num_hidden_layers=6,
    num_attention_heads=4,
    num_key_value_heads=4,
    use_cache=False,
)
model = LlamaForCausalLM(config)
if sys.argv[1] == "compiled":
    for block in model.model.layers:
        block.compile()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
wall, cpu, losses = [], [], []
for _ in range(120):
    began, worked = time.perf_counter(), time.process_time()
    ids = torch.randint(0, 1024, (4, 64))
    loss = model(input_ids=ids, labels=ids).loss
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    wall.append(time.perf_counter() - began)
    cpu.append(time.process_time() - worked)
    losses.append(loss.item())
graphs = torch._dynamo.utils.counters["stats"]["unique_graphs"]
print(json.dumps({"wall": wall, "cpu": cpu, "losses": losses, "graphs": graphs}))
