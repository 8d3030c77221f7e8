"""How far a kernel's output and gradients are from fp64, as shares of the largest value."""

from __future__ import annotations

from typing import Any

from trueup.attention.bench.case import Case, allowed, bias

LARGEST = 1 << 28
"""Bytes of scores in fp64 that are written out at once; fewer queries are compared for more."""


class Reference:
    """The exact output for one group of heads of the first and the last row, and the exact gradients where wanted."""

    def __init__(self, case: Case, torch: Any, device: str, inputs: tuple[Any, Any, Any, Any], backward: bool) -> None:
        self._torch = torch
        self._groups = case.groups
        self._parts: list[tuple[int, int, Any, tuple[Any, ...]]] = []
        scores = case.groups * case.query[2] * case.key[2] * 8
        if scores > LARGEST:
            backward = False
        may = allowed(case, torch, device)
        added = bias(case, torch, device) if case.mask == "float" else None
        for row, head in dict.fromkeys(((0, 0), (case.query[0] - 1, case.key[1] - 1))):
            self._parts.append(
                (row, head, *self._exact(inputs, row, head, _row(may, row), _row(added, row), backward, scores))
            )

    def _exact(
        self, inputs: tuple[Any, ...], row: int, head: int, may: Any, added: Any, backward: bool, scores: int
    ) -> tuple[Any, tuple[Any, ...]]:
        torch = self._torch
        heads = slice(head * self._groups, (head + 1) * self._groups)
        q, gradient = (each[row, heads].double() for each in (inputs[0], inputs[3]))
        k, v = (each[row, head].double() for each in inputs[1:3])
        needed = [each.detach().requires_grad_(backward) for each in (q, k, v)]
        q, k, v = needed
        outputs = []
        step = max(1, int(q.shape[1] * min(1.0, LARGEST / scores)))
        for start in range(0, q.shape[1], step):
            part = slice(start, start + step)
            values = q[:, part] @ k.T * q.shape[-1] ** -0.5
            if added is not None:
                values = values + added[part].double()
            if may is not None:
                values = values.masked_fill(~may[part], float("-inf"))
            outputs.append(torch.softmax(values, -1) @ v)
        out = torch.cat(outputs, 1)
        if not backward:
            return out.detach(), ()
        return out.detach(), torch.autograd.grad(out, needed, gradient)

    def error(self, out: Any) -> float:
        worst = 0.0
        for row, head, exact, _ in self._parts:
            heads = slice(head * self._groups, (head + 1) * self._groups)
            worst = max(worst, _error(out[row, heads], exact))
        return worst

    def gradient_error(self, gradients: tuple[Any, ...]) -> float | None:
        """Of gradients of queries, keys and values; None where the exact ones were not computed."""
        worst: float | None = None
        for row, head, _, exact in self._parts:
            heads = slice(head * self._groups, (head + 1) * self._groups)
            for place, expected in enumerate(exact):
                got = gradients[place][row, heads] if place == 0 else gradients[place][row, head]
                worst = max(worst or 0.0, _error(got, expected))
        return worst


def _row(mask: Any, row: int) -> Any:
    return None if mask is None else mask[row if mask.shape[0] > 1 else 0, 0]


def _error(got: Any, exact: Any) -> float:
    largest = float(exact.abs().max())
    difference = float((got.detach().double() - exact).abs().max())
    return difference / largest if largest else difference
