"""Which attention ran: operators and kernels by name, the Hugging Face functions, the masks, the global switches.

Calls are those of the training forward: neither an evaluation's nor those of a checkpoint that runs again.
"""

from __future__ import annotations

import gc
import sys
from types import GeneratorType

from trueup_instrument import modules
from trueup_instrument.attributes import plain_attribute
from trueup_instrument.frames import innermost_code

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import CodeType, FrameType
    from typing import Any

    from trueup_instrument.frames import Listener
    from trueup_instrument.sampling import Sample

NAME = "attention"

HAND_WRITTEN = "aten::_softmax over 4 dimensions"
BOUNDARIES = ("cu_seq_lens_q", "cu_seqlens", "cu_seqlens_q", "block_mask", "seq_idx")
MASKS_LOOKED_AT = 3
LARGEST_MASK = 1 << 24
"""Elements of a mask that is still looked at."""


class Window:
    def __init__(self, sample: Sample) -> None:
        self.sample = sample
        self.functions: dict[str, int] = {}
        self.masks: dict[str, int] = {}
        self.contexts: list[list[str]] = []
        self.given_mask: str | None = None
        self.packed: bool | None = None
        self.boundaries: bool | None = None
        self.cache: bool | None = None
        self._looked = 0

    def listeners(self) -> dict[CodeType, Listener]:
        found: dict[CodeType, Listener] = {}
        for name, module in list(sys.modules.items()):
            if name.startswith("transformers.") and module is not None:
                for attribute, function in list(vars(module).items()):
                    if attribute.endswith("_attention_forward") and callable(function):
                        code = innermost_code(function)
                        if code is not None and attribute != "_flash_attention_forward":
                            found[code] = self._called
        table: Any = getattr(sys.modules.get("transformers.modeling_utils"), "ALL_ATTENTION_FUNCTIONS", None)
        for function in list(table.values()) if hasattr(table, "values") else ():
            code = innermost_code(function)
            if code is not None:
                found[code] = self._called
        context = _restricting()
        if context is not None:
            found[context] = self._restricted
        for module in self.sample.live:
            code = innermost_code(type(module).forward)
            if code is not None and "position_ids" in code.co_varnames and "input_ids" in code.co_varnames:
                found[code] = self._model_called
        for root in self.sample.roots:
            code = innermost_code(type(modules.bare(root)).forward)
            if code is not None and _positions_name(code) is not None:
                found[code] = self._model_called
        cache = innermost_code(
            getattr(getattr(sys.modules.get("transformers.cache_utils"), "Cache", None), "update", None)
        )
        if cache is not None:
            found[cache] = self._cache_filled
        return found

    def _called(self, frame: FrameType) -> None:
        if self.sample.evaluations.going_on or self.sample.clock.in_backward:
            return
        name = frame.f_code.co_name
        self.functions[name] = self.functions.get(name, 0) + 1
        if self._looked < MASKS_LOOKED_AT:
            self._looked += 1
            kind = mask_kind(frame.f_locals.get("attention_mask"))
            self.masks[kind] = self.masks.get(kind, 0) + 1

    def _restricted(self, frame: FrameType) -> None:
        backends = frame.f_locals.get("backends")
        backends = backends if isinstance(backends, (list, tuple)) else [backends]
        names = [str(backend).rpartition(".")[2] for backend in backends]
        if names not in self.contexts:
            self.contexts.append(names)

    def _look_for_open_contexts(self) -> None:
        """`sdpa_kernel` around the whole loop was entered before the sample: its generator waits for the end."""
        code = _restricting()
        for each in gc.get_objects():
            if type(each) is GeneratorType and each.gi_code is code and each.gi_frame is not None:
                self._restricted(each.gi_frame)

    def _model_called(self, frame: FrameType) -> None:
        if self.sample.evaluations.going_on:
            return
        given = frame.f_locals
        mask = given.get("attention_mask")
        if self.given_mask is None:
            self.given_mask = mask_kind(mask)
        if self.packed is None:
            self.packed = packed(given.get(_positions_name(frame.f_code) or ""), mask)
        options = given.get("kwargs")
        named = {**given, **(options if isinstance(options, dict) else {})}
        self.boundaries = bool(self.boundaries) or any(named.get(name) is not None for name in BOUNDARIES)

    def _cache_filled(self, frame: FrameType) -> None:
        if not self.sample.evaluations.going_on:
            self.cache = True

    def fields(self) -> dict[str, Any]:
        ops = dict(self.sample.operators.attention)
        switches = toggles()
        if not self.contexts and not all(switches.values()):
            self._look_for_open_contexts()
        by_hand = len(self.sample.operators.own_softmaxes())
        if by_hand:
            ops[HAND_WRITTEN] = by_hand
        return {
            "attention": {
                "ops": ops,
                "requested": self._requested(),
                "functions": self.functions,
                "masks": self.masks,
                "sdpa": self._calls(),
                "contexts": self.contexts,
                "toggles": switches,
                "given_mask": self.given_mask,
                "packed": self.packed,
                "boundaries": self.boundaries,
                "cache": self.cache,
            }
        }

    def _calls(self) -> dict[str, int]:
        """What the calls of scaled_dot_product_attention were given, told from shapes: mask, GQA, causal, sizes."""
        kinds: dict[str, int] = {}
        for shapes, _, concrete in self.sample.operators.attention_calls:
            mask = "masked" if len(shapes) > 3 and shapes[3] else "no mask"
            causal = " causal" if len(concrete) > 5 and concrete[5] is True else ""
            dropout = " dropout" if len(concrete) > 4 and concrete[4] not in (None, 0, 0.0) else ""
            rank = f" {len(shapes[0])}d" if len(shapes[0]) != 4 else ""
            grouped = len(shapes) > 1 and len(shapes[0]) == 4 == len(shapes[1]) and shapes[0][1] != shapes[1][1]
            sizes = " sizes" if len(shapes) > 2 and shapes[0] and shapes[2] and shapes[0][-1] != shapes[2][-1] else ""
            kind = f"{mask}{causal}{dropout}{' gqa' if grouped else ''}{sizes}{rank}"
            kinds[kind] = kinds.get(kind, 0) + 1
        return kinds

    def _requested(self) -> str | None:
        for root in self.sample.roots:
            config = plain_attribute(modules.beneath_adapters(modules.bare(root)), "config")
            name = getattr(config, "_attn_implementation", None)
            if name is not None:
                return str(name)
        return None


def _restricting() -> CodeType | None:
    """The code of `sdpa_kernel`, which the deprecated `torch.backends.cuda.sdp_kernel` enters as well."""
    return innermost_code(getattr(sys.modules.get("torch.nn.attention"), "sdpa_kernel", None))


def mask_kind(mask: Any) -> str:
    """`none`, `all-ones` (masks nothing), `causal`, `padding` or `other`; `unseen` for a mask too large to look at."""
    if mask is None:
        return "none"
    if not hasattr(mask, "numel") or not hasattr(mask, "dtype"):
        return type(mask).__name__
    if mask.numel() > LARGEST_MASK:
        return "unseen"
    torch = sys.modules["torch"]
    with torch.no_grad():
        if mask.dim() == 2 and mask.dtype not in (torch.float32, torch.float16, torch.bfloat16):
            return "all-ones" if bool((mask != 0).all()) else "padding"
        allowed = mask if mask.dtype == torch.bool else mask >= 0
        if bool(allowed.all()):
            return "all-ones"
        rows, columns = allowed.shape[-2:]
        if bool(
            (allowed == torch.ones(rows, columns, dtype=torch.bool, device=mask.device).tril(columns - rows)).all()
        ):
            return "causal"
    return "other"


def _positions_name(code: CodeType) -> str | None:
    """The argument of a model's forward that holds positions, `position_ids` by custom."""
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    return next((name for name in names if "position" in name or name == "pos"), None)


def packed(positions: Any, mask: Any) -> bool | None:
    """Whether positions start anew inside a row of tokens; None when there are none to look at.

    Padding has positions as well, all alike or from zero, so that tokens beside padding tell nothing.
    """
    if not hasattr(positions, "dim") or positions.dim() != 2 or positions.shape[-1] < 3:
        return None
    again = (positions[:, 1:-1] == 0) & (positions[:, :-2] > 0) & (positions[:, 2:] == 1)
    if hasattr(mask, "dim") and mask.dim() == 2 and mask.shape == positions.shape:
        tokens = mask != 0
        again = again & tokens[:, 1:-1] & tokens[:, :-2]
    return bool(again.any())


def toggles() -> dict[str, bool]:
    """The global SDPA switches of torch."""
    cuda = sys.modules["torch"].backends.cuda
    found = {}
    for name in ("flash", "mem_efficient", "math", "cudnn"):
        question = getattr(cuda, f"{name}_sdp_enabled", None)
        if question is not None:
            found[name] = bool(question())
    return found
