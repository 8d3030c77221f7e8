"""Decoder with left padding (as for generation) and an attention function registered with transformers."""

import torch
import torch.nn.functional as F
from transformers import AttentionInterface, LlamaConfig, LlamaForCausalLM


def plain_causal(module, query, key, value, attention_mask, scaling=None, dropout=0.0, **kwargs):
    groups = query.shape[1] // key.shape[1]
    key, value = key.repeat_interleave(groups, 1), value.repeat_interleave(groups, 1)
    out = F.scaled_dot_product_attention(query, key, value, is_causal=True, scale=scaling)
    return out.transpose(1, 2).contiguous(), None


AttentionInterface.register("plain_causal", plain_causal)
torch.manual_seed(0)
model = LlamaForCausalLM(
    LlamaConfig(
        vocab_size=100,
        hidden_size=48,
        intermediate_size=96,
        num_hidden_layers=3,
        num_attention_heads=4,
        num_key_value_heads=2,
        use_cache=False,
        attn_implementation="plain_causal",
    )
)
model.train()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for step in range(12):
    lengths = torch.randint(8, 32, (4,))
    columns = int(lengths.max())
    attention_mask = (torch.arange(columns)[None] >= columns - lengths[:, None]).long()
    ids = torch.randint(1, 100, (4, columns)) * attention_mask
    labels = ids.masked_fill(attention_mask == 0, -100)
    loss = model(input_ids=ids, attention_mask=attention_mask, labels=labels).loss
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    print(step, loss.item(), flush=True)
