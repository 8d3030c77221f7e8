"""Trains a tiny Llama on arithmetic progressions and samples from it in between, with plain decoding on a CPU."""

import time

import torch
from transformers import CompileConfig, LlamaConfig, LlamaForCausalLM

DECODING = CompileConfig(fullgraph=False, mode=None)


class TimedLlama(LlamaForCausalLM):
    """Counts the seconds spent in its forward pass for the dashboard."""

    busy = 0.0

    def forward(self, *args, **kwargs):
        begin = time.perf_counter()
        output = super().forward(*args, **kwargs)
        with open("busy.txt", "w") as file:
            file.write(f"{time.perf_counter() - begin:.6f}")
        return output


def progressions(count, length=24):
    start, stride = torch.randint(0, 60, (count, 1)), torch.randint(1, 4, (count, 1))
    return (start + stride * torch.arange(length)) % 60


def sample(model):
    model.eval()
    with torch.no_grad():
        tokens = model.generate(
            progressions(1, 6),
            max_new_tokens=4,
            do_sample=False,
            use_cache=True,
            pad_token_id=0,
            eos_token_id=None,
            cache_implementation="static",
            compile_config=DECODING,
        )
    model.train()
    return tokens[0].tolist()


def main():
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=60, hidden_size=48, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4, use_cache=False
    )
    model = TimedLlama(config)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    for step in range(20):
        ids = progressions(8)
        loss = model(input_ids=ids, labels=ids).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 10 == 9:
            print(step, f"{loss.item():.3f}", sample(model), flush=True)


if __name__ == "__main__":
    main()
