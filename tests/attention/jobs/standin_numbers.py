"""Every kind of call of flash_attn's public functions on CPU, beside the same in float64.

`observed()`: {case: {"out": error, "dq": ..., "dk": ..., "dv": ..., "lse": ...}}, errors relative to the largest value.
"""

import flash_attn
import flash_attn_2_cuda
import torch
from flash_attn.flash_attn_interface import _flash_attn_varlen_forward
from standin_reference import attention

NEW = tuple(map(int, flash_attn.__version__.split(".")[:2])) >= (2, 6)
CALLS = {
    "plain": {},
    "causal": {"causal": True},
    "window": {"window": (17, 9)},
    "window open to the right": {"window": (20, -1)},
    "causal window": {"causal": True, "window": (13, 0)},
    "softcap": {"softcap": 2.0},
    "alibi": {"slopes": 1},
    "causal alibi by batch": {"slopes": 2, "causal": True},
    "softcap, alibi, causal": {"softcap": 2.0, "slopes": 1, "causal": True},
}
# queries, keys, heads, heads of keys, head dimension
SHAPES = {
    "square": (100, 100, 4, 4, 64),
    "more keys, gqa": (70, 190, 6, 2, 40),
    "more queries, mqa": (190, 70, 2, 1, 128),
    "one query, gqa": (1, 77, 4, 2, 64),
    "padded head": (33, 33, 2, 2, 36),
}
found: dict[str, dict] = {}


def error(ours: torch.Tensor, exact: torch.Tensor) -> float:
    both = torch.isinf(ours.double()) & torch.isinf(exact)
    scale = exact.masked_fill(torch.isinf(exact), 0).abs().max().clamp(min=1e-30)
    return ((ours.double() - exact).masked_fill(both, 0).abs().max() / scale).item()


def inputs(dtype, *shapes):
    return [torch.randn(shape, dtype=dtype, requires_grad=True) for shape in shapes]


def compared(ours, exact, leaves, lse=None, exact_lse=None) -> dict[str, float]:
    gradient = torch.randn_like(ours)
    measured = torch.autograd.grad(ours, leaves, gradient)
    expected = torch.autograd.grad(exact, leaves, gradient.double())
    names = ["out", "dq", "dk", "dv"]
    errors = {n: error(a, b) for n, a, b in zip(names, [ours, *measured], [exact, *expected], strict=True)}
    return errors if lse is None else {**errors, "lse": error(lse, exact_lse)}


def arguments(call: dict, batch: int, heads: int) -> tuple[dict, dict]:
    """For the public function, and for the reference."""
    slopes = {None: None, 1: torch.rand(heads), 2: torch.rand(batch, heads)}[call.get("slopes")]
    theirs = {**call, "slopes": slopes}
    ours = {
        "causal": call.get("causal", False),
        "window_size": call.get("window", (-1, -1)),
        "alibi_slopes": slopes,
        "return_attn_probs": True,
    }
    return ({**ours, "softcap": call["softcap"]} if "softcap" in call else ours), theirs


def dense() -> None:
    for shape_name, (rows, keys, heads, heads_k, dim) in SHAPES.items():
        for name, call in CALLS.items():
            if "softcap" in call and not NEW:
                continue
            dtype = torch.float16 if shape_name in ("square", "more queries, mqa") else torch.bfloat16
            leaves = inputs(dtype, (2, rows, heads, dim), (2, keys, heads_k, dim), (2, keys, heads_k, dim))
            ours, theirs = arguments(call, 2, heads)
            out, lse, _ = flash_attn.flash_attn_func(*leaves, **ours)
            exact, exact_lse = attention(*leaves, **theirs)
            found[f"{str(dtype)[6:]} {shape_name}: {name}"] = compared(out, exact, leaves, lse, exact_lse)


CU_Q = [0, 5, 5, 60, 100]
CU_K = [0, 9, 20, 50, 50]  # the second sequence has no query, the last no key


def by_sequence(leaves, **call):
    q, k, v = leaves
    parts = []
    for i in range(len(CU_Q) - 1):
        rows, keys = slice(CU_Q[i], CU_Q[i + 1]), slice(CU_K[i], CU_K[i + 1])
        one = {**call}
        if one.get("slopes") is not None and one["slopes"].dim() == 2:
            one["slopes"] = one["slopes"][i]
        parts.append(attention(q[None, rows], k[None, keys], v[None, keys], **one, max_seqlen_k=30))
    return torch.cat([out[0] for out, _ in parts]), torch.cat([lse[0] for _, lse in parts], dim=1)


def packed() -> None:
    cu_q, cu_k = (torch.tensor(cu, dtype=torch.int32) for cu in (CU_Q, CU_K))
    for name, call in CALLS.items():
        if "softcap" in call and not NEW:
            continue
        leaves = inputs(torch.bfloat16, (100, 4, 64), (50, 2, 64), (50, 2, 64))
        ours, theirs = arguments(call, 4, 4)
        out, lse, _ = flash_attn.flash_attn_varlen_func(*leaves, cu_q, cu_k, 55, 30, **ours)
        exact, exact_lse = by_sequence(leaves, **theirs)
        if not NEW:  # (batch, heads, longest), not (heads, all)
            lse = torch.cat([lse[i, :, : CU_Q[i + 1] - CU_Q[i]] for i in range(4)], dim=1)
        found[f"varlen: {name}"] = compared(out, exact, leaves, lse, exact_lse)


def packed_inputs() -> None:
    qkv = torch.randn(2, 50, 3, 4, 64, dtype=torch.bfloat16, requires_grad=True)
    q, k, v = qkv.unbind(2)
    gradient = torch.randn(2, 50, 4, 64, dtype=torch.bfloat16)
    (ours,) = torch.autograd.grad(flash_attn.flash_attn_qkvpacked_func(qkv, causal=True), qkv, gradient)
    (exact,) = torch.autograd.grad(attention(q, k, v, causal=True)[0], qkv, gradient.double())
    found["qkv in one tensor"] = {"dqkv": error(ours, exact.double())}


def dropout() -> None:
    leaves = inputs(torch.bfloat16, (2, 100, 4, 64), (2, 120, 2, 64), (2, 120, 2, 64))
    call = {"dropout_p": 0.3, "causal": True, "return_attn_probs": True}
    torch.manual_seed(3)
    out, _, probabilities = flash_attn.flash_attn_func(*leaves, **call)
    keep = ~torch.signbit(probabilities)[:, :, :100, :120]
    exact, _ = attention(*leaves, causal=True, keep=keep, p=0.3)
    weights, _ = attention(leaves[0], leaves[1], torch.eye(120)[None, :, None].expand(2, 120, 2, 120), causal=True)
    written = probabilities[:, :, :100, :120].abs().transpose(1, 2)
    again = flash_attn.flash_attn_func(*leaves, **call)[0]
    torch.manual_seed(3)
    repeated = flash_attn.flash_attn_func(*leaves, **call)[0]
    found["dropout"] = {**compared(out, exact, leaves), "probabilities": error(written, weights)}
    seen = torch.ones(100, 120, dtype=torch.bool).tril(20).expand_as(keep)
    found["dropout rate"] = {"kept": keep[seen].double().mean().item()}
    found["dropout repeats"] = {"same": torch.equal(out, repeated), "again": torch.equal(out, again)}

    cu = torch.tensor([0, 30, 100], dtype=torch.int32)
    leaves = inputs(torch.bfloat16, (100, 2, 64), (100, 2, 64), (100, 2, 64))
    out, _, probabilities = flash_attn.flash_attn_varlen_func(*leaves, cu, cu, 70, 70, **call)
    parts = []
    for i, (first, end) in enumerate(((0, 30), (30, 100))):
        keep = ~torch.signbit(probabilities)[i : i + 1, :, : end - first, : end - first]
        parts.append(attention(*(x[None, first:end] for x in leaves), causal=True, keep=keep, p=0.3)[0][0])
    found["varlen dropout"] = compared(out, torch.cat(parts), leaves)


def keys_of_a_cache() -> None:
    """Used keys, left padding and pages of varlen calls, and the functions over a cache."""
    q, k, v = (x.detach() for x in inputs(torch.bfloat16, (8, 4, 64), (40, 2, 64), (40, 2, 64)))
    cu_q, cu_k = torch.tensor([0, 3, 8], dtype=torch.int32), torch.tensor([0, 20, 40], dtype=torch.int32)
    if NEW:
        used, pad = torch.tensor([15, 18], dtype=torch.int32), torch.tensor([2, 0], dtype=torch.int32)
        out = _flash_attn_varlen_forward(
            *(q, k, v, cu_q, cu_k, 5, 20, 0.0, 64**-0.5, True), seqused_k=used, leftpad_k=pad
        )[0]
        exact = [attention(q[None, a:b], k[None, c:d], v[None, c:d], causal=True)[0][0] for a, b, c, d in
                 ((0, 3, 2, 15), (3, 8, 20, 38))]  # fmt: skip
        found["seqused_k, leftpad_k"] = {"out": error(out, torch.cat(exact))}

    pages_k, pages_v = (torch.randn(5, 256, 2, 64, dtype=torch.bfloat16) for _ in range(2))
    table = torch.tensor([[3, 1], [0, 4]], dtype=torch.int32)
    cu_k = torch.tensor([0, 300, 300 + 512], dtype=torch.int32)
    out = flash_attn.flash_attn_varlen_func(q, pages_k, pages_v, cu_q, cu_k, 5, 512, causal=True, block_table=table)
    whole = [
        tuple(x[t].flatten(0, 1)[None, :n] for x in (pages_k, pages_v)) for t, n in zip(table, (300, 512), strict=True)
    ]
    exact = [
        attention(q[None, a:b], *kv, causal=True)[0][0] for (a, b), kv in zip(((0, 3), (3, 8)), whole, strict=True)
    ]
    found["block_table"] = {"out": error(out, torch.cat(exact))}
    for rotary in (None, True, False):
        found[f"kvcache, rotary interleaved: {rotary}"] = cache(rotary)


def rotated(x, positions, cosines, sines, interleaved):
    """Rotary embedding of the first 32 of the dimensions, rounded as the kernels do."""
    turned, rest = x[..., :32].double(), x[..., 32:]
    cos, sin = (table[positions][:, None].double() for table in (cosines, sines))
    a, b = (turned[..., 0::2], turned[..., 1::2]) if interleaved else turned.chunk(2, -1)
    pair = a * cos - b * sin, a * sin + b * cos
    turned = torch.stack(pair, -1).flatten(-2) if interleaved else torch.cat(pair, -1)
    return torch.cat([turned.to(x.dtype), rest], -1)


def cache(interleaved: bool | None) -> dict[str, float]:
    k_cache, v_cache = (torch.randn(3, 64, 2, 64, dtype=torch.bfloat16) for _ in range(2))
    q, k, v = (torch.randn(2, 4, heads, 64, dtype=torch.bfloat16) for heads in (4, 2, 2))
    lengths, rows = torch.tensor([10, 50], dtype=torch.int32), torch.tensor([2, 0], dtype=torch.int32)
    angles = torch.randn(64, 16)
    tables = angles.cos().bfloat16(), angles.sin().bfloat16()
    before = k_cache.clone(), v_cache.clone()
    rotary = (
        {}
        if interleaved is None
        else {"rotary_cos": tables[0], "rotary_sin": tables[1], "rotary_interleaved": interleaved}
    )
    out = flash_attn.flash_attn_with_kvcache(
        q, k_cache, v_cache, k, v, cache_seqlens=lengths, cache_batch_idx=rows, causal=True, **rotary
    )
    exact = []
    for b, (length, row) in enumerate(zip(lengths.tolist(), rows.tolist(), strict=True)):
        where = torch.arange(length, length + 4)
        new_q, new_k = (x[b] if interleaved is None else rotated(x[b], where, *tables, interleaved) for x in (q, k))
        before[0][row, length : length + 4], before[1][row, length : length + 4] = new_k, v[b]
        seen = slice(0, length + 4)
        exact.append(
            attention(new_q[None], before[0][row : row + 1, seen], before[1][row : row + 1, seen], causal=True)[0]
        )
    return {
        "out": error(out, torch.cat(exact)),
        "k cache": error(k_cache, before[0].double()),
        "v cache": error(v_cache, before[1].double()),
    }


def beside_the_tensors() -> None:
    """What max_seqlen leaves out, and lengths that lead out of a tensor."""
    q, k, v = (torch.randn(300, 2, 64, dtype=torch.bfloat16) for _ in range(3))
    cu, out = torch.tensor([0, 300], dtype=torch.int32), torch.full_like(q, 7.0)
    optional = [None] * (4 if NEW else 3)
    more = [0.0] if NEW else []
    arguments = [100, 300, 0.0, 0.125, False, False, -1, -1, *more, False, None]
    flash_attn_2_cuda.varlen_fwd(q, k, v, out, cu, cu, *optional, *arguments)
    written = (out != 7.0).all(-1).all(-1)
    found["rows that max_seqlen_q leaves out"] = {"first": int(written.sum()), "last": int(written.nonzero().max()) + 1}
    try:
        flash_attn.flash_attn_varlen_func(q, k, v, cu * 2, cu, 600, 300)
        words = ""
    except RuntimeError as error:
        words = str(error).splitlines()[0]
    found["cu_seqlens out of q"] = {"words": words}


def observed() -> dict[str, dict]:
    torch.manual_seed(0)
    torch.set_num_threads(1)
    for part in (dense, packed, packed_inputs, dropout, keys_of_a_cache, beside_the_tensors):
        part()
    return found
