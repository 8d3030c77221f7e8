"""Memory-saving load: build on meta, materialise, load the checkpoint."""

import torch
from transformers import LlamaConfig, LlamaForCausalLM

torch.manual_seed(0)
config = LlamaConfig(
    vocab_size=128,
    hidden_size=64,
    intermediate_size=128,
    num_hidden_layers=3,
    num_attention_heads=4,
    num_key_value_heads=4,
    use_cache=False,
    tie_word_embeddings=True,
)
pretrained = LlamaForCausalLM(config)
state = {k: v for k, v in pretrained.state_dict().items() if k != "lm_head.weight"}
torch.save(state, "pretrained.pt")
inverse = pretrained.model.rotary_emb.inv_freq

with torch.device("meta"):
    model = LlamaForCausalLM(config)
model.to_empty(device="cpu")
torch.nn.init.normal_(model.lm_head.weight, std=0.02)
model.load_state_dict(torch.load("pretrained.pt"), strict=False)
model.model.rotary_emb.inv_freq = inverse
model.train()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for step in range(10):
    ids = torch.randint(0, 128, (4, 32))
    loss = model(input_ids=ids, labels=ids).loss
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    print(step, loss.item(), flush=True)
