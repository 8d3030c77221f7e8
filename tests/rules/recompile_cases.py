"""Recompiles: texts of guards as torch 2.13 writes them, unless a case says otherwise."""

from healthy_record import FORWARD, event, recompile
from rule_case import negative, positive

HINT = "(HINT: torch.compile considers integer attributes of the nn.Module static. ... allow_unspec_int_on_nn_module)"
NEWTON = "zeropower_via_newtonschulz5 (muon.py:12)"


def compiled(recompiles, compiled=0, limit=None, models=("Llama",)):
    """Of 12 blocks this many run compiled in the end; `limit` is the last reason before the recompile limit."""
    limits = [{"function": recompiles[0]["function"], "limit": "recompile_limit", "reason": limit}] if limit else []
    blocks = {"total": 12, "compiled": compiled}
    compile = {"recompiles": recompiles, "limits": limits, "blocks": blocks, "fraction": 0.97 * compiled / 12}
    return {"actual": {"compile": compile, "training": {"models": list(models)}}}


def cache(layer):
    return f"0/{layer}: kwargs['cache'].layers[{layer}].is_initialized == False # if not self.is_initialized:"


def sizes(count, source="input_ids", function=FORWARD):
    texts = [
        f"0/{i}: tensor '{source}' size mismatch at index 1. expected {64 + i}, actual {65 + i}" for i in range(count)
    ]
    return [recompile(text, function=function, step=i + 1) for i, text in enumerate(texts)]


def layer_indices(count, name="self.self_attn.layer_idx"):
    return [recompile(f"0/{i}: {name} == {i} # x = x + self.layer_idx {HINT}", step=1) for i in range(count)]


def counters(count):
    return [recompile(f"0/{i}: self.calls_seen == {i} # self.n += 1 {HINT}", step=i + 1) for i in range(count)]


STATIC = event("compile", "torch.compile", "LlamaForCausalLM", target="module", dynamic=False)
ROOM = event("compile", "dynamo.config", None, recompile_limit=32)
ISOLATED = event("compile", "Module.compile", "Block", target="module", isolated=True)
LAUNCHED = {"environment": {"variables": {"ACCELERATE_DYNAMO_USE_DYNAMIC": "False"}}}

WIDTHS = [recompile("0/0: tensor 'x' size mismatch at index 2. expected 48, actual 40", step=1, count=5)]

PENDING = "<class 'torch.distributed._functional_collectives.AsyncCollectiveTensor'>"
FOUND_PENDING = f"' but found {PENDING}"

CASES = [
    positive(
        "compile/recompile-kv-cache-in-training",
        "each block until the limit",
        compiled([recompile(cache(layer), step=1) for layer in range(8)], limit=cache(7)),
    ),
    positive(
        "compile/recompile-kv-cache-in-training",
        "transformers 4, with the layer index beside it",
        compiled(
            [recompile(f"0/{i}: len(L['past_key_values'].key_cache) == {i}") for i in range(3)] + layer_indices(5),
            limit="0/7: self.self_attn.layer_idx == 7",
        ),
        also=("warning compile/recompile-per-layer-attribute",),
    ),
    negative(
        "compile/recompile-kv-cache-in-training",
        "use_cache off: one graph for all blocks",
        compiled([], compiled=12),
    ),
    negative(
        "compile/recompile-kv-cache-in-training",
        "one recompile for the second state of a cache",
        compiled([recompile(cache(0), step=1)], compiled=12),
    ),
    positive(
        "compile/recompile-per-layer-attribute",
        "layer_idx up to the limit",
        compiled(layer_indices(8), limit="0/7: self.self_attn.layer_idx == 7"),
    ),
    positive(
        "compile/recompile-per-layer-attribute",
        "an object of each block by identity, torch 2.5 spelling",
        compiled(
            [recompile(f"0/{i}: ___check_obj_id(self._modules['attn'].processor, 1405{i})", step=1) for i in range(6)],
            compiled=12,
        ),
    ),
    positive(
        "compile/recompile-per-layer-attribute",
        "the limit was raised for it, and every block runs compiled",
        compiled(layer_indices(11), compiled=12),
        severity="note",
    ),
    positive(
        "compile/recompile-per-layer-attribute",
        "the limit was raised, but not far enough",
        compiled(layer_indices(10), limit="0/9: self.self_attn.layer_idx == 9"),
    ),
    negative(
        "compile/recompile-per-layer-attribute",
        "two kinds of block (sliding and full attention)",
        compiled([recompile("0/0: self.attention_type == 'sliding' # if self.attention_type", step=1)], compiled=12),
    ),
    positive(
        "compile/recompile-growing-python-state",
        "a list of losses",
        compiled(
            [recompile(f"0/{i}: len(self.history) == {i} # y * len(self.history)", step=i + 1) for i in range(8)],
            limit="0/7: len(self.history) == 7",
        ),
    ),
    positive("compile/recompile-growing-python-state", "a counter on the module", compiled(counters(8))),
    positive(
        "compile/recompile-growing-python-state",
        "an attribute with a plain name, one value a step",
        compiled([recompile(f"0/{i}: self.n == {i} # y * self.n {HINT}", step=i + 1) for i in range(8)]),
    ),
    negative(
        "compile/recompile-growing-python-state",
        "a decorator's wrapper, called with more and fewer arguments",
        compiled(
            [recompile(f"1/{i}: len(args) == {i % 3} # func_name = args[0]", step=i + 1) for i in range(4)], compiled=12
        ),
    ),
    negative(
        "compile/recompile-growing-python-state",
        "state that takes two values",
        compiled([recompile("0/0: not self.history # if self.history:", step=1)], compiled=12),
    ),
    positive(
        "compile/recompile-shared-code-object",
        "policy, value and reference model",
        compiled(
            [
                recompile("0/0: tensor 'x' requires_grad mismatch. expected requires_grad=1", step=1, count=3),
                recompile("0/3: GLOBAL_STATE changed: grad_mode", step=1, count=5),
            ],
            limit="0/7: GLOBAL_STATE changed: grad_mode",
            models=["Llama", "Llama", "Llama"],
        ),
        confidence="likely",
        also=("warning compile/recompile-grad-or-train-mode-toggle",),
    ),
    negative(
        "compile/recompile-shared-code-object",
        "one model: another class",
        compiled(
            [recompile("0/3: GLOBAL_STATE changed: grad_mode", step=1, count=8)],
            limit="GLOBAL_STATE changed: grad_mode",
        ),
        instead=("warning compile/recompile-grad-or-train-mode-toggle",),
    ),
    positive(
        "compile/recompile-shared-code-object",
        "models of three widths, below the limit",
        compiled(WIDTHS, compiled=12, models=["Tower", "Tower", "Tower"]),
        severity="note",
        confidence="possible",
    ),
    negative(
        "compile/recompile-shared-code-object",
        "the limit raised for them, and not reached",
        compiled(WIDTHS, compiled=12, models=["Tower", "Tower", "Tower"]) | {"order+": [ROOM]},
    ),
    negative(
        "compile/recompile-grad-or-train-mode-toggle",
        "the limit raised for its variants, and not reached",
        compiled([recompile("0/3: GLOBAL_STATE changed: grad_mode", step=1, count=5)], compiled=12)
        | {"order+": [ROOM]},
    ),
    negative(
        "compile/recompile-grad-or-train-mode-toggle",
        "each block with graphs of its own",
        compiled([recompile("0/3: GLOBAL_STATE changed: grad_mode", step=1, count=5)], compiled=12)
        | {"order+": [ISOLATED]},
    ),
    positive("compile/recompile-dynamic-shape", "six lengths", compiled(sizes(5), compiled=12)),
    positive(
        "compile/recompile-dynamic-shape",
        "parts of several widths, compiled in the first step",
        compiled(WIDTHS, compiled=12),
        severity="note",
    ),
    positive(
        "compile/recompile-dynamic-shape",
        "three lengths under dynamic=False",
        compiled(sizes(2), compiled=12) | {"order+": [STATIC]},
    ),
    negative(
        "compile/recompile-dynamic-shape",
        "two varying dimensions and a batch of one",
        compiled(
            [
                recompile("0/0: tensor 'input_ids' size mismatch at index 1. expected 64, actual 96", step=2),
                recompile("0/1: tensor 'input_ids' size mismatch at index 0. expected 4, actual 3", step=9),
                recompile("0/2: tensor 'input_ids' size mismatch at index 0. expected 4, actual 1", step=30),
            ],
            compiled=12,
        ),
    ),
    positive(
        "compile/accelerate-launch-forces-static-shapes",
        "six lengths",
        compiled(sizes(5), compiled=12) | LAUNCHED | {"order+": [STATIC]},
        also=("warning compile/recompile-dynamic-shape",),
    ),
    negative(
        "compile/accelerate-launch-forces-static-shapes",
        "inputs of one size",
        LAUNCHED | {"order+": [STATIC]},
    ),
    negative(
        "compile/accelerate-launch-forces-static-shapes",
        "the script compiled by itself, with automatic shapes",
        compiled(sizes(2), compiled=12)
        | LAUNCHED
        | {"order+": [event("compile", "torch.compile", "Llama", target="module", dynamic=None)]},
    ),
    positive(
        "compile/recompile-integer-argument",
        "max_seqlen of each batch",
        compiled(
            [recompile(f"0/{i}: max_seqlen == {100 + i} # flash(q, k, v, max_seqlen)", step=i + 1) for i in range(4)],
            compiled=12,
        ),
    ),
    positive(
        "compile/recompile-integer-argument",
        "in keyword arguments",
        compiled([recompile(f"0/{i}: kw['max_length_q'] == {i + 90}", step=i + 1) for i in range(4)], compiled=12),
    ),
    negative(
        "compile/recompile-integer-argument",
        "an integer on the module is a per-block attribute",
        compiled(layer_indices(8)),
        instead=("warning compile/recompile-per-layer-attribute",),
    ),
    positive(
        "compile/recompile-grad-or-train-mode-toggle",
        "four states, no limit",
        compiled(
            [recompile("0/0: GLOBAL_STATE changed: grad_mode", count=2), recompile("0/2: self.training == True")], 12
        ),
        severity="note",
    ),
    negative(
        "compile/recompile-grad-or-train-mode-toggle",
        "one variant for training and one for evaluation",
        compiled([recompile("0/0: GLOBAL_STATE changed: grad_mode", step=20)], compiled=12),
    ),
    positive(
        "compile/recompile-optimizer-hyperparameter",
        "learning rate by value, torch 2.9",
        compiled(
            [
                recompile(
                    f"2/{i}: L['self'].param_groups[0]['lr'] == 0.0{i}", function="step (torch/optim/adam.py:213)"
                )
                for i in range(5)
            ],
            compiled=12,
        )
        | {"environment": {"packages": {"torch": "2.9.1"}}},
    ),
    negative(
        "compile/recompile-optimizer-hyperparameter",
        "torch 2.13 compiles a second time only",
        compiled([recompile("2/0: self.param_groups[0]['lr'] == 0.1", count=5, function="step (adam.py:213)")], 12),
    ),
    positive(
        "compile/recompile-optimizer-parameter-shapes",
        "Muon with more shapes than the limit",
        compiled(sizes(8, "g", NEWTON), 12, limit="0/7: tensor 'g' size mismatch at index 0. expected 9, actual 10"),
    ),
    negative(
        "compile/recompile-optimizer-parameter-shapes",
        "three shapes",
        compiled(sizes(3, "g", NEWTON), 12),
    ),
    negative(
        "compile/recompile-optimizer-parameter-shapes",
        "sizes of inputs are another class",
        compiled(sizes(8), 12),
        instead=("warning compile/recompile-dynamic-shape",),
    ),
    positive(
        "compile/recompile-limit-reached",
        "a reason that no rule knows",
        compiled([recompile("0/0: Ne(s0, 7)", count=8)], compiled=2, limit="0/7: Ne(s0, 7)"),
    ),
    negative(
        "compile/recompile-limit-reached",
        "explained by a rule that knows the reason",
        compiled(counters(8), limit="0/7: self.calls_seen == 7"),
        instead=("warning compile/recompile-growing-python-state",),
    ),
    positive(
        "compile/recompile-async-collective-tensor",
        "awaited first, pending later, in three functions",
        {
            "actual": {
                "compile": {
                    "recompiles": [recompile(f"0/0: expected type of 'x' to be a tensor type, {FOUND_PENDING}", 3)]
                }
            }
        },
    ),
    positive(
        "compile/recompile-async-collective-tensor",
        "pending first",
        {
            "actual": {
                "compile": {"recompiles": [recompile(f"0/0: ___check_type_id(x, 940), type={PENDING} # nn.py:1")]}
            }
        },
        severity="note",
    ),
    negative(
        "compile/recompile-async-collective-tensor",
        "another subclass",
        {"actual": {"compile": {"recompiles": [recompile("0/0: ___check_type_id(x, 940), type=<class 'DTensor'>")]}}},
    ),
]
