"""flash-attn's own operators on CPU under torch's tools: opcheck, inductor, checkpointing with dropout.

`observed()`: {"opcheck": {operator: verdicts}, "inductor": equal to eager, "checkpoint": dropout repeats}.
"""

import flash_attn
import torch
from torch.library import opcheck
from torch.utils.checkpoint import checkpoint

CHECKS = ("test_schema", "test_faketensor", "test_autograd_registration")
SCORING = (0.0, 0.125, True)  # dropout, scale, causal
REST = (-1, -1, 0.0, None, False)  # windows, softcap, ALiBi, deterministic or softmax returned


def checked() -> dict[str, dict[str, str]]:
    operators = torch.ops.flash_attn
    q, k = torch.randn(2, 40, 4, 64, dtype=torch.bfloat16), torch.randn(2, 50, 2, 64, dtype=torch.bfloat16)
    flat_q, flat_k = q[0].contiguous(), k[0, :40].contiguous()
    lengths = (torch.tensor([0, 10, 40], dtype=torch.int32), torch.tensor([0, 10, 40], dtype=torch.int32), 30, 30)
    found = {}
    for forward, backward, x, y, packing, rest in (
        (operators._flash_attn_forward, operators._flash_attn_backward, q, k, (), REST),
        (operators._flash_attn_varlen_forward, operators._flash_attn_varlen_backward, flat_q, flat_k, lengths, ()),
    ):
        arguments = (x, y, y.clone(), *packing, *SCORING, *rest)
        out, lse, _, rng_state = forward(*arguments)
        gradients = [torch.empty_like(each) for each in (x, y, y)]
        back = (torch.randn_like(out), x, y, y, out, lse, *gradients, *packing, *SCORING, *REST, rng_state)
        for operator, its in ((forward, arguments), (backward, back)):
            found[operator.default.name()] = opcheck(operator.default, its, test_utils=CHECKS)
    return found


def with_gradients(function, leaves):
    out = function(*leaves)
    return out, *torch.autograd.grad(out.float().square().sum(), leaves)


def observed() -> dict:
    torch.manual_seed(0)
    leaves = [torch.randn(2, 40, 4, 64, dtype=torch.bfloat16, requires_grad=True) for _ in range(3)]

    def plain(q, k, v):
        return flash_attn.flash_attn_func(q * 2, k, v, causal=True) + 1

    def dropped(q, k, v):
        return flash_attn.flash_attn_func(q, k, v, 0.2, causal=True)

    torch.manual_seed(1)
    kept = with_gradients(dropped, leaves)
    torch.manual_seed(1)
    recomputed = with_gradients(lambda *x: checkpoint(dropped, *x, use_reentrant=False), leaves)
    compiled = with_gradients(torch.compile(plain, fullgraph=True), leaves)
    return {
        "opcheck": checked(),
        "inductor": all(map(torch.equal, with_gradients(plain, leaves), compiled)),
        "checkpoint": all(map(torch.equal, kept, recomputed)),
    }
