"""Instruction tuning with a large vocabulary: the prompt is long, and only the short answer at its end has labels."""

import torch
from transformers import LlamaConfig, LlamaForCausalLM

VOCABULARY, LENGTH, ANSWER = 65536, 256, 16

torch.manual_seed(0)
model = LlamaForCausalLM(
    LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=4,
        use_cache=False,
        tie_word_embeddings=True,
    )
)
model.train()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

for step in range(5):
    ids = torch.randint(0, VOCABULARY, (4, LENGTH))
    labels = ids.clone()
    labels[:, :-ANSWER] = -100
    loss = model(input_ids=ids, labels=labels).loss
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    print(f"step {step} loss {loss.item():.3f}", flush=True)
