"""Each mask that hides nothing, or just causality, for a model of one's own and one of transformers.

Prints a JSON line for each: the operators of attention with how many masks they were given, and the outputs.
"""

import json
import sys
from pathlib import Path

import torch
from torch.nn.functional import scaled_dot_product_attention
from torch.profiler import ProfilerActivity, profile

sys.path.insert(0, str(Path(__file__).parents[1]))
LENGTH, LOW = 24, torch.finfo(torch.float32).min
causal = torch.ones(LENGTH, LENGTH, dtype=torch.bool).tril()
window = causal & causal.triu(-5)


def added(allowed, low=LOW):
    return torch.zeros(allowed.shape).masked_fill(~allowed, low)


MASKS = {
    "ones": torch.ones(LENGTH, LENGTH, dtype=torch.bool),
    "ones of a row": torch.ones(2, 1, 1, LENGTH, dtype=torch.bool),
    "zeros": torch.zeros(LENGTH, LENGTH),
    "zeros expanded": torch.zeros(1, 1, LENGTH, LENGTH).expand(2, 4, -1, -1),
    "ones without heads": torch.ones(1, LENGTH, LENGTH, dtype=torch.bool),
    "causal": causal,
    "causal added": added(causal),
    "causal infinite": added(causal, float("-inf")),
    "causal -1e9": added(causal, -1e9),
    "causal expanded": added(causal)[None, None].expand(2, 4, -1, -1),
    "causal without heads": causal[None],
    "window": window,
    "distance": added(causal) - torch.arange(LENGTH).float(),
}


def seen(call):
    with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as recorded:
        result = call()
    operators = {}
    for event in recorded.events():
        if event.name.startswith("aten::_scaled_dot_product"):
            operators[event.name.removeprefix("aten::_scaled_dot_product_")] = bool(event.input_shapes[-2:][0])
    return operators, result


if sys.argv[1] == "own":
    q, k, v = torch.randn(3, 2, 4, LENGTH, 8, generator=torch.Generator().manual_seed(0)).unbind(0)
    for name, mask in MASKS.items():
        events, out = seen(lambda mask=mask: scaled_dot_product_attention(q, k, v, attn_mask=mask))
        print(json.dumps([name, events, out.flatten().tolist()]))
else:
    from packed_models import llama

    model = llama(use_cache=False)
    if sys.argv[1] == "compiled":
        for layer in model.model.layers:
            layer.compile(backend="aot_eager", fullgraph=True)
    elif sys.argv[1] == "whole":
        model = torch.compile(model, backend="aot_eager", fullgraph=True)
    ids = torch.randint(3, 100, (2, LENGTH), generator=torch.Generator().manual_seed(0))
    for name in ("causal", "causal added", "window"):
        mask = MASKS[name][None, None].expand(2, 1, -1, -1)
        events, out = seen(lambda mask=mask: model(ids, attention_mask=mask).logits.detach())
        print(json.dumps([name, events, out.flatten().tolist()]))
