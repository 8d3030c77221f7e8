"""What Dynamo makes of flash_attn's public functions on CPU.

`observed()`: {function: {"graphs": n, "breaks": n, "reasons": [...], "fullgraph": "" or the error, "equal": bool}};
"equal": output and gradients of the compiled call are those of the eager one.
"""

import flash_attn
import torch

CU = torch.tensor([0, 20, 64], dtype=torch.int32)
ALSO_CU = CU.clone()


def dense(q, k, v):
    return flash_attn.flash_attn_func(q * 2, k, v, causal=True) + 1


def varlen(q, k, v):
    return flash_attn.flash_attn_varlen_func(q * 2, k, v, CU, ALSO_CU, 44, 44, causal=True) + 1


def varlen_with_one_cu_seqlens(q, k, v):
    return flash_attn.flash_attn_varlen_func(q * 2, k, v, CU, CU, 44, 44, causal=True) + 1


def with_gradients(function, leaves):
    out = function(*leaves)
    return out, *torch.autograd.grad(out.float().square().sum(), leaves)


def traced(function, leaves) -> dict:
    explained = torch._dynamo.explain(function)(*leaves)
    torch._dynamo.reset()
    words = ""
    try:
        compiled = with_gradients(torch.compile(function, backend="aot_eager", fullgraph=True), leaves)
    except Exception as error:
        words = str(error)
        torch._dynamo.reset()
        compiled = with_gradients(torch.compile(function, backend="aot_eager"), leaves)
    torch._dynamo.reset()
    return {
        "graphs": explained.graph_count,
        "breaks": explained.graph_break_count,
        "reasons": [reason.reason for reason in explained.break_reasons],
        "fullgraph": words,
        "equal": all(map(torch.equal, with_gradients(function, leaves), compiled)),
    }


def observed() -> dict[str, dict]:
    torch.manual_seed(0)
    found = {}
    for function in (dense, varlen, varlen_with_one_cu_seqlens):
        shape = (2, 32, 4, 16) if function is dense else (64, 4, 16)
        leaves = [torch.randn(shape, dtype=torch.bfloat16, requires_grad=True) for _ in range(3)]
        found[function.__name__] = traced(function, leaves)
    return found
