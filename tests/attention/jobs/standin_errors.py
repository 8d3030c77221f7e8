"""Calls that the extension refuses: every tensor in every wrong form, and numbers that do not fit together.

`observed()`: {function: {"single": {what was wrong: message}, "pairs": [[one, other, message], ...]}}; a call that is
served has "" for message. Of a condition without words, torch's request to improve it is left out.
"""

import itertools
import os

import flash_attn
import flash_attn_2_cuda
import torch

VERSION = tuple(map(int, flash_attn.__version__.split(".")[:2]))
SCALE = 0.125


def heads(*shape: int) -> torch.Tensor:
    return torch.zeros(*shape, dtype=torch.bfloat16)


def numbers(*values: int) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.int32)


def scoring(**more) -> dict:
    """The arguments after the tensors that all functions share, in order."""
    return {"softmax_scale": SCALE, **more, "is_causal": False, "window_left": -1, "window_right": -1,
            **({"softcap": 0.0} if VERSION >= (2, 6) else {})}  # fmt: skip


def base_calls() -> dict[str, dict]:
    """For each function the arguments, in order, of a call that is served; optional tensors are given."""
    dense, total = (2, 8, 4, 64), (16, 4, 64)
    leftpad = {"leftpad_k": None} if VERSION >= (2, 6) else {}
    cu = {"cu_seqlens_q": numbers(0, 8, 16), "cu_seqlens_k": numbers(0, 8, 16)}
    fwd = {name: heads(*dense) for name in ("q", "k", "v", "out")}
    varlen = {name: heads(*total) for name in ("q", "k", "v", "out")}
    bwd_names = ("dout", "q", "k", "v", "out", "softmax_lse", "dq", "dk", "dv")
    bwd, varlen_bwd = ({name: heads(*shape) for name in bwd_names} for shape in (dense, total))
    bwd["softmax_lse"], varlen_bwd["softmax_lse"] = torch.zeros(2, 4, 8), torch.zeros(4, 16)
    slopes = {"alibi_slopes": torch.zeros(4)}
    tail = {"return_softmax": False, "generator": None}
    backward_tail = {"deterministic": False, "generator": None, "rng_state": None}
    longest = {"max_seqlen_q": 8, "max_seqlen_k": 8}
    return {
        "fwd": {**fwd, **slopes, "p_dropout": 0.0, **scoring(), **tail},
        "varlen_fwd": {**varlen, **cu, "seqused_k": numbers(8, 8), **leftpad, "block_table": None, **slopes, **longest,
                       "p_dropout": 0.0, **scoring(zero_tensors=False), **tail},
        "bwd": {**bwd, **slopes, "p_dropout": 0.0, **scoring(), **backward_tail},
        "varlen_bwd": {**varlen_bwd, **cu, **slopes, **longest, "p_dropout": 0.0, **scoring(zero_tensors=False),
                       **backward_tail},
        "fwd_kvcache": {"q": heads(2, 2, 4, 64), "kcache": heads(2, 32, 4, 64), "vcache": heads(2, 32, 4, 64),
                        "k": heads(2, 2, 4, 64), "v": heads(2, 2, 4, 64), "seqlens_k": numbers(4, 4),
                        "rotary_cos": heads(32, 16), "rotary_sin": heads(32, 16), "cache_batch_idx": numbers(0, 1),
                        **leftpad, "block_table": None, **slopes, "out": heads(2, 2, 4, 64), **scoring(),
                        "is_rotary_interleaved": True, "num_splits": 0},
    }  # fmt: skip


def paged(function: str, call: dict, page: int = 256) -> dict:
    """The call over a cache of blocks; fwd_kvcache has no batch index then."""
    blocks = {"block_table": numbers(0, 1).reshape(2, 1)}
    if function == "varlen_fwd":
        return {**call, **blocks, "k": heads(2, page, 4, 64), "v": heads(2, page, 4, 64)}
    tables = {"rotary_cos": heads(256, 16), "rotary_sin": heads(256, 16)}
    cache = {"kcache": heads(2, page, 4, 64), "vcache": heads(2, page, 4, 64), "cache_batch_idx": None}
    return {**call, **blocks, **cache, **tables}


def with_left_padding(call: dict) -> dict:
    return {**call, "leftpad_k": numbers(0, 0)} if "leftpad_k" in call else call


WRONG_FORMS = {
    "on another device": lambda x: x.to("meta"),
    "of another dtype": lambda x: x.to(torch.int64 if x.dtype == torch.int32 else torch.float64),
    "fp16": lambda x: x.to(torch.float16),
    "with a stride in the last dimension": lambda x: x.repeat_interleave(2, -1)[..., ::2],
    "longer": lambda x: torch.cat([x, x], 0),
    "longer in the last dimension": lambda x: torch.cat([x, x[..., :8]], -1),
    "of more heads": lambda x: torch.cat([x, x], -2) if x.dim() > 1 else x,
    "of one more dimension": lambda x: x[None],
}
INDEPENDENT = ("on another device", "of another dtype", "with a stride in the last dimension")


def resized(call: dict, head_dim: int | None = None, batch: int | None = None, heads_k: int | None = None) -> dict:
    """The call with all of its 16-bit tensors of heads changed alike."""
    changed = {}
    for name, x in call.items():
        if isinstance(x, torch.Tensor) and x.dtype == torch.bfloat16 and not name.startswith("rotary"):
            shape = list(x.shape)
            shape[-1] = head_dim or shape[-1]
            shape[0] = batch if batch is not None and x.dim() == 4 else shape[0]
            shape[-2] = heads_k if heads_k and name in ("k", "v", "kcache", "vcache", "dk", "dv") else shape[-2]
            x = heads(*shape)
        changed[name] = x
    if batch == 0 and "cu_seqlens_q" in call:
        changed["cu_seqlens_q"] = numbers(0)
    return changed


def unfitting(function: str, call: dict) -> dict[str, dict]:
    """Calls whose arguments are each well formed."""
    cases = {
        "no sequence": resized(call, batch=0),
        "heads of 264": resized(call, head_dim=264),
        "heads of 12": resized(call, head_dim=12),
        "three heads of keys": resized(call, heads_k=3),
        "slopes for other heads": {**call, "alibi_slopes": torch.zeros(3)},
    }
    if "p_dropout" in call:
        cases["dropout of everything"] = {**call, "p_dropout": 1.0}
        cases["softmax without dropout"] = {**call, "return_softmax": True}
        if "softcap" in call:
            cases["softcap and dropout"] = {**call, "softcap": 1.0, "p_dropout": 0.1}
        if "return_softmax" not in call:
            del cases["softmax without dropout"]
    if "block_table" in call:
        cases["blocks of 100"] = paged(function, call, page=100)
        cases["blocks and left padding"] = with_left_padding(paged(function, call))
    if "dout" in call:
        cases["a gradient of shorter heads"] = {**call, "dout": call["dout"][..., :32].contiguous()}
    if function == "varlen_fwd":
        one_each = {
            "q": heads(2, 4, 64),
            "k": heads(16, 2, 64),
            "v": heads(16, 2, 64),
            "cu_seqlens_q": numbers(0, 1, 2),
        }
        one_each |= {"max_seqlen_q": 1, "alibi_slopes": None, "out": heads(4, 2, 64)}
        cases["one query a sequence, an output as the kernel sees it"] = {**call, **one_each}
    if function == "fwd_kvcache":
        cases |= {
            "blocks and a batch index": {**paged(function, call), "cache_batch_idx": call["cache_batch_idx"]},
            "keys without values": {**call, "v": None},
            "keys without lengths": {**call, "seqlens_k": None},
            "more queries than the cache": {**call, "q": heads(2, 40, 4, 64), "out": None},
            "rotary without keys": {**call, "k": None, "v": None},
            "rotary of more than the head": {**call, "rotary_cos": heads(32, 40)},
            "rotary of 8": {**call, "rotary_cos": heads(32, 4)},
            "rotary of few positions": {**call, "rotary_cos": heads(16, 16)},
            "cosines without sines": {**call, "rotary_sin": None},
            "129 splits": {**call, "num_splits": 129},
        }
    return cases


def message(function: str, call: dict) -> str:
    try:
        getattr(flash_attn_2_cuda, function)(*call.values())
    except Exception as error:
        return str(error).splitlines()[0].partition("  (Could this error message be improved?")[0]
    return ""


def tensors(call: dict) -> dict[str, torch.Tensor]:
    return {name: x for name, x in call.items() if isinstance(x, torch.Tensor)}


def wrong(function: str, call: dict, where: str = "") -> dict[str, str]:
    found = {}
    for name, x in tensors(call).items():
        for form, change in WRONG_FORMS.items():
            if name != "softmax_lse" or form == "on another device":
                found[f"{name} {form}{where}"] = message(function, {**call, name: change(x)})
    return found


def twice_wrong(function: str, call: dict) -> list[tuple[str, str, str]]:
    """Two tensors wrong at once: the message tells which is looked at first."""
    found = []
    for (one, x), (other, y) in itertools.combinations(tensors(call).items(), 2):
        for form, also in itertools.product(INDEPENDENT, INDEPENDENT):
            if "softmax_lse" not in (one, other):
                case = {**call, one: WRONG_FORMS[form](x), other: WRONG_FORMS[also](y)}
                found.append((f"{one} {form}", f"{other} {also}", message(function, case)))
    return found


def on_gpu(capability: str, function: str, call: dict) -> str:
    os.environ["TRUEUP_STANDIN_CAPABILITY"] = capability
    try:
        return message(function, call)
    finally:
        del os.environ["TRUEUP_STANDIN_CAPABILITY"]


def observed() -> dict[str, dict]:
    found = {}
    for function, call in base_calls().items():
        cases = {"nothing": message(function, call), **wrong(function, call)}
        cases |= {name: message(function, case) for name, case in unfitting(function, call).items()}
        if "block_table" in call:
            cases["nothing, over blocks"] = message(function, paged(function, call))
            cases |= wrong(function, paged(function, call), " over blocks")
        if "leftpad_k" in call:
            cases |= wrong(function, with_left_padding(call), " with left padding")
        for capability in ("7.5", "8.0", "9.0", "10.0"):
            cases[f"GPU {capability}"] = on_gpu(capability, function, call)
        if "dout" in call:
            for dim, p in itertools.product((224, 256), (0.0, 0.1)):
                case = {**resized(call, head_dim=dim), "p_dropout": p}
                cases[f"heads of {dim}, dropout {p}, GPU 8.6"] = on_gpu("8.6", function, case)
        found[function] = {"single": cases, "pairs": twice_wrong(function, call)}
    return found
