"""Small models of transformers for the leakage probe."""

import torch
from own_model import VOCABULARY
from transformers import LlamaConfig, LlamaForCausalLM


def llama(implementation="sdpa", layers=2, **changes):
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=48,
        intermediate_size=96,
        num_hidden_layers=layers,
        num_attention_heads=4,
        num_key_value_heads=2,
        attn_implementation=implementation,
        **changes,
    )
    return LlamaForCausalLM(config).train()
