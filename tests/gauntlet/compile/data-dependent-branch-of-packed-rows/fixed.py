"""Fine-tunes a small Llama without padding: the documents of a batch lie in one row, each block is compiled."""

import torch
from flash_kernels import NAME, install
from transformers import DataCollatorWithFlattening, LlamaConfig, LlamaForCausalLM


def documents(number):
    for _ in range(number):
        length, start = torch.randint(6, 16, (2,)).tolist()
        yield {"input_ids": [(start + 3 * place) % 64 for place in range(length)]}


def main():
    install()
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=64,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=8,
        num_attention_heads=4,
        num_key_value_heads=4,
        use_cache=False,
        attn_implementation=NAME,
    )
    model = LlamaForCausalLM(config).to(torch.bfloat16)
    for layer in model.model.layers:
        layer.compile(backend="aot_eager", dynamic=True)
    collate = DataCollatorWithFlattening(return_tensors="pt", return_flash_attn_kwargs=True)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for step in range(8):
        loss = model(**collate(list(documents(6)))).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(step, f"{loss.item():.4f}", flush=True)


if __name__ == "__main__":
    main()
