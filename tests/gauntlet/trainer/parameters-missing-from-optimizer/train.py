"""Small LM with two parameter groups: weight decay for matrices only."""

import torch
from transformers import LlamaConfig, LlamaForCausalLM

torch.manual_seed(0)
model = LlamaForCausalLM(
    LlamaConfig(
        vocab_size=128,
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=4,
        num_attention_heads=4,
        num_key_value_heads=4,
        use_cache=False,
    )
)
decay = [p for n, p in model.named_parameters() if "self_attn" in n or "mlp" in n]
plain = [p for n, p in model.named_parameters() if "layernorm" in n]
optimizer = torch.optim.AdamW([{"params": decay, "weight_decay": 0.1}, {"params": plain, "weight_decay": 0.0}], lr=1e-3)
model.train()
for step in range(12):
    ids = torch.randint(0, 128, (4, 32))
    loss = model(input_ids=ids, labels=ids).loss
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad()
    if step % 3 == 0:
        print(step, loss.item(), flush=True)
