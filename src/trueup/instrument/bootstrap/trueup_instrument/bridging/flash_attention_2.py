"""flash-attn 2.1 to 2.6, whose kernels are bound with pybind: the operators that 2.7.0 brought, for those before it.

The forward operators have the names and schemas of 2.7, so that policies of selective checkpointing written for it hold
(https://github.com/Dao-AILab/flash-attention/pull/1139). The backward operators allocate the gradients that they
return, where those of 2.7 write into their arguments.

Head sizes that are no multiple of 8 are padded here as the C++ code pads them, since an operator returns no argument.
"""

from __future__ import annotations

import inspect

from trueup_instrument.bridging.entries import entered
from trueup_instrument.bridging.repeated import allow_repeated

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from trueup_instrument.bridging.entries import Given

MODULE = "flash_attn.flash_attn_interface"
LENGTHS = ("cu_seqlens_q", "cu_seqlens_k", "max_seqlen_q", "max_seqlen_k")
PAGED = ("block_table", "leftpad_k", "seqused_k")
OPTIONS = ("dropout_p", "softmax_scale", "causal", "window_size", "softcap", "alibi_slopes")
RESULTS = ("dout", "q", "k", "v", "out", "softmax_lse")
GRADIENTS = ("dq", "dk", "dv")
ENDS = ("deterministic", "rng_state")
KNOWN = frozenset((*LENGTHS, *PAGED, *OPTIONS, "return_softmax", *RESULTS, *GRADIENTS, *ENDS))
TENSORS = "Tensor q, Tensor k, Tensor v"
VARLEN = "Tensor cu_seqlens_q, Tensor cu_seqlens_k, SymInt max_seqlen_q, SymInt max_seqlen_k"
SETTINGS = (
    "float dropout_p, float softmax_scale, bool causal, SymInt window_size_left, SymInt window_size_right, "
    "float softcap, Tensor? alibi_slopes"
)
MULTIPLE = 8
"""Head sizes that the kernels take."""


def install(torch: Any, module: Any) -> tuple[list[str], str]:
    """Bridge the entry points of `flash_attn.flash_attn_interface`: (those that were, why others were not)."""
    allow_repeated(torch, module)
    entries = [kind(torch, module) for kind in (Forward, VarlenForward, Backward, VarlenBackward)]
    return entered(torch, module, entries, KNOWN, "this flash-attn")


class _Entry:
    """One of the four entry points: those of rows of one length, and those of documents one behind the other."""

    name = ""
    needs: tuple[str, ...] = ()
    varlen = False

    def __init__(self, torch: Any, module: Any) -> None:
        self.torch = torch
        original = getattr(module, self.name, None)
        parameters = inspect.signature(original).parameters if original is not None else {}
        self.parameters = frozenset(parameters)
        self.packed_lse = "softcap" in parameters
        """From 2.6 on the logsumexp of documents is (heads, tokens); before, (documents, heads, longest)."""

    def _settings(self, given: Given) -> tuple[Any, ...]:
        left, right = given.get("window_size", (-1, -1))
        scale, softcap = float(given["softmax_scale"]), float(given.get("softcap", 0.0))
        return float(given["dropout_p"]), scale, given["causal"], left, right, softcap, given.get("alibi_slopes")

    def _named(self, settings: tuple[Any, ...]) -> Given:
        """Settings of the operator by the names of this version's parameters."""
        dropout, scale, causal, left, right, softcap, slopes = settings
        named = dict(zip(OPTIONS, (dropout, scale, causal, (left, right), softcap, slopes), strict=True))
        return {name: value for name, value in named.items() if name in self.parameters}


class Forward(_Entry):
    name = "_flash_attn_forward"
    operator = "flash_attn::_flash_attn_forward"
    schema = f"({TENSORS}, {SETTINGS}, bool return_softmax) -> (Tensor, Tensor, Tensor, Tensor)"
    needs: tuple[str, ...] = ("q", "k", "v", "dropout_p", "softmax_scale", "causal", "return_softmax")

    def carries(self, given: Given) -> bool:
        return True

    def pack(self, given: Given) -> tuple[Any, ...]:
        return (*self._inputs(given), *self._settings(given), given["return_softmax"])

    def run(self, original: Callable[..., Any], q: Any, k: Any, v: Any, *rest: Any) -> tuple[Any, ...]:
        *settings, softmax = rest
        return _kept(q, original(q=q, k=k, v=v, **self._named(tuple(settings)), return_softmax=softmax))

    def fake(self, q: Any, k: Any, v: Any, *rest: Any) -> tuple[Any, ...]:
        documents, rows, heads, _ = q.shape
        lse = q.new_empty((documents, heads, rows), dtype=self.torch.float32)
        return _empty(self.torch, q, lse, (documents, heads, rows, k.shape[1]) if rest[-1] else None)

    def unpack(self, given: Given, results: tuple[Any, ...]) -> tuple[Any, ...]:
        """What the library's function returns: out, q, k, v, padded out, logsumexp, probabilities, random state."""
        out, lse, probabilities, state = results
        cut = out[..., : given["q"].shape[-1]]
        return cut, *self._inputs(given), out, lse, probabilities if given["return_softmax"] else None, state

    def _inputs(self, given: Given) -> tuple[Any, Any, Any]:
        """Query, key and value as the kernel takes them."""
        missing = -given["q"].shape[-1] % MULTIPLE
        q, k, v = (each if each.stride(-1) == 1 else each.contiguous() for each in (given["q"], given["k"], given["v"]))
        if missing:
            pad = self.torch.nn.functional.pad
            q, k, v = pad(q, [0, missing]), pad(k, [0, missing]), pad(v, [0, missing])
        return q, k, v


class VarlenForward(Forward):
    name = "_flash_attn_varlen_forward"
    operator = "flash_attn::_flash_attn_varlen_forward"
    schema = (
        f"({TENSORS}, {VARLEN}, {SETTINGS}, bool return_softmax, Tensor? block_table, Tensor? leftpad_k, "
        "Tensor? seqused_k) -> (Tensor, Tensor, Tensor, Tensor)"
    )
    needs = (*Forward.needs, *LENGTHS)

    def carries(self, given: Given) -> bool:
        return given.get("block_table") is None or given["q"].shape[-1] % MULTIPLE == 0

    def pack(self, given: Given) -> tuple[Any, ...]:
        lengths = (given[name] for name in LENGTHS)
        paged = (given.get(name) for name in PAGED)
        return (*self._inputs(given), *lengths, *self._settings(given), given.get("return_softmax", False), *paged)

    def run(self, original: Callable[..., Any], q: Any, k: Any, v: Any, *rest: Any) -> tuple[Any, ...]:
        lengths, settings, (softmax, *paged) = rest[:4], rest[4:11], rest[11:]
        named = {**dict(zip(LENGTHS, lengths, strict=True)), **self._named(settings)}
        named.update({name: each for name, each in zip(PAGED, paged, strict=True) if name in self.parameters})
        return _kept(q, original(q=q, k=k, v=v, **named, return_softmax=softmax))

    def fake(self, q: Any, k: Any, v: Any, *rest: Any) -> tuple[Any, ...]:
        starts, _, longest_q, longest_k, softmax = *rest[:4], rest[11]
        tokens, heads, _ = q.shape
        documents = starts.shape[0] - 1
        shape = (heads, tokens) if self.packed_lse else (documents, heads, longest_q)
        lse = q.new_empty(shape, dtype=self.torch.float32)
        return _empty(self.torch, q, lse, (documents, heads, longest_q, longest_k) if softmax else None)


class Backward(_Entry):
    name = "_flash_attn_backward"
    operator = "flash_attn::trueup_flash_attn_backward"
    results = "Tensor dout, Tensor q, Tensor k, Tensor v, Tensor out, Tensor softmax_lse"
    schema = f"({results}, {SETTINGS}, bool deterministic, Tensor? rng_state) -> (Tensor, Tensor, Tensor)"
    needs: tuple[str, ...] = (*RESULTS, *GRADIENTS, "dropout_p", "softmax_scale", "causal")

    def carries(self, given: Given) -> bool:
        return all(given.get(name) is not None for name in GRADIENTS)

    def pack(self, given: Given) -> tuple[Any, ...]:
        tensors = (given[name] for name in RESULTS)
        return (*tensors, *self._settings(given), given.get("deterministic", False), given.get("rng_state"))

    def run(self, original: Callable[..., Any], *packed: Any) -> tuple[Any, ...]:
        tensors, settings, ends = packed[:6], packed[6:13], packed[13:]
        return self._run(original, tensors, settings, ends, {})

    def _run(self, original: Any, tensors: Any, settings: Any, ends: Any, lengths: Given) -> tuple[Any, ...]:
        empty = self.torch.empty_like
        gradients = {name: empty(each) for name, each in zip(GRADIENTS, tensors[1:4], strict=True)}
        named = dict(zip(RESULTS, tensors, strict=True))
        named.update(zip(ENDS, ends, strict=True))
        named = {name: each for name, each in named.items() if name in self.parameters}
        original(**named, **gradients, **lengths, **self._named(settings))
        return tuple(gradients.values())

    def fake(self, dout: Any, q: Any, k: Any, v: Any, *rest: Any) -> tuple[Any, ...]:
        empty = self.torch.empty_like
        return empty(q), empty(k), empty(v)

    def unpack(self, given: Given, results: tuple[Any, ...]) -> tuple[Any, ...]:
        """The gradients, written where the caller wants them. The fourth result is for the library's own tests."""
        for name, gradient in zip(GRADIENTS, results, strict=True):
            given[name].copy_(gradient)
        return given["dq"], given["dk"], given["dv"], None


class VarlenBackward(Backward):
    name = "_flash_attn_varlen_backward"
    operator = "flash_attn::trueup_flash_attn_varlen_backward"
    schema = (
        f"({Backward.results}, {VARLEN}, {SETTINGS}, bool deterministic, Tensor? rng_state) -> (Tensor, Tensor, Tensor)"
    )
    needs = (*Backward.needs, *LENGTHS)

    def pack(self, given: Given) -> tuple[Any, ...]:
        tensors = (given[name] for name in RESULTS)
        lengths = (given[name] for name in LENGTHS)
        ends = given.get("deterministic", False), given.get("rng_state")
        return (*tensors, *lengths, *self._settings(given), *ends)

    def run(self, original: Callable[..., Any], *packed: Any) -> tuple[Any, ...]:
        tensors, lengths, settings, ends = packed[:6], packed[6:10], packed[10:17], packed[17:]
        return self._run(original, tensors, settings, ends, dict(zip(LENGTHS, lengths, strict=True)))


def _kept(q: Any, returned: tuple[Any, ...]) -> tuple[Any, ...]:
    """Output, logsumexp, probabilities or nothing, and random state, of the eight results."""
    _, _, _, _, out, lse, probabilities, state = returned
    return out, lse, q.new_empty(0) if probabilities is None else probabilities, state


def _empty(torch: Any, q: Any, lse: Any, probabilities: tuple[Any, ...] | None) -> tuple[Any, ...]:
    shape: tuple[Any, ...] = (0,)
    if probabilities is not None:
        *front, rows, columns = probabilities
        shape = (*front, _rounded(rows), _rounded(columns))
    return torch.empty_like(q), lse, q.new_empty(shape), q.new_empty(2, dtype=torch.int64)


def _rounded(length: Any) -> Any:
    """The length to which the kernel fills up its tiles."""
    return (length + 127) // 128 * 128
