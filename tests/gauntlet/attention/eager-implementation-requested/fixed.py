"""Fine-tune from the configuration that the last experiment saved."""

import json

import torch
from transformers import LlamaConfig, LlamaForCausalLM

SAVED = """
{"vocab_size": 300, "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 3, "num_attention_heads": 4,
 "num_key_value_heads": 4, "max_position_embeddings": 2048, "use_cache": false}
"""

torch.manual_seed(0)
settings = json.loads(SAVED)
model = LlamaForCausalLM(LlamaConfig(**settings))
model.train()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for step in range(24):
    ids = torch.randint(0, 300, (1, 2048))
    out = model(input_ids=ids, labels=ids)
    out.loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    print(step, out.loss.item(), flush=True)
