"""Does one document of a packed row change the results of a later one? Measured on a model, with a call of it.

The model computes the call four times without gradients: as it is, once more for the noise of the computation, with
the first document of every row changed, and with the last but one of one row changed. Only token ids change, to others
of the batch; random numbers are the same each time, and afterwards as they were.
"""

from __future__ import annotations

import contextlib
import sys
import warnings

from trueup_instrument import modules
from trueup_instrument.probes.calls import is_floating, is_whole
from trueup_instrument.probes.untouched import TooMuchState, Untouched

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from trueup_instrument.probes.calls import Call
    from trueup_instrument.probes.documents import Documents

LARGEST = 1 << 28
"""Elements of scores that are compared; of larger ones every n-th column."""
ROUNDING = {"float64": 1e-9, "float32": 1e-5, "bfloat16": 3e-2, "float16": 4e-3}
"""Share of the largest score below which a change may come of sums in another order, as experts compute them."""
PASSES = 4


class CannotMeasure(Exception):
    """The question cannot be put to this model; the message says why."""


def measure(root: Any, call: Call, tokens: str, documents: Documents | None) -> dict[str, Any]:
    """The fields of the result, see docs/attention.md. Without `documents` the passes are made and nothing is compared.

    Raises CannotMeasure.
    """
    torch = sys.modules["torch"]
    model = beneath_wrappers(root)
    try:
        state = Untouched(model)
    except TooMuchState as error:
        raise CannotMeasure(str(error)) from error
    given = call.named[tokens]
    plans = [] if documents is None else changes(documents.numbers, given, special_tokens(model))
    if documents is not None and not plans:
        raise CannotMeasure("no document has a token that can be changed")
    inputs = [given, given, *(plan.tokens for plan in plans)]
    inputs += [given] * (PASSES - len(inputs))  # FSDP: every rank makes as many
    seen: list[Any] = []
    shape = tuple(given.shape[:2]) if given.dim() > 1 else (1, given.shape[0])
    try:
        with _without_trace(torch):
            for each in inputs:
                seen.append(scores(model, call.replaced(tokens, each), shape, wanted=documents is not None))
                state.put_back()
    except CannotMeasure:
        raise
    except Exception as error:
        text = f"{type(error).__name__}: {error}".partition("\n")[0]
        raise CannotMeasure(f"the model failed on changed tokens: {text[:300]}") from error
    finally:
        state.put_back()
    if documents is None:
        return {}
    return _compared(seen, plans, documents)


def beneath_wrappers(root: Any) -> Any:
    """Without what compiles the model or reduces its gradients; FSDP stays, which has the parameters elsewhere."""
    while True:
        if type(root).__name__ in ("DistributedDataParallel", "DataParallel", "DeepSpeedEngine"):
            root = root._modules["module"]
        elif "_orig_mod" in root._modules:
            root = root._modules["_orig_mod"]
        else:
            return root


class Change:
    """One pass with changed tokens."""

    def __init__(self, tokens: Any, sources: dict[int, int]) -> None:
        self.tokens = tokens
        self.sources = sources
        """Row → number of the document that is changed there."""


def changes(numbers: Any, given: Any, special: set[int]) -> list[Change]:
    """The passes that change documents: the first of each row, and the last but one of the row with most of them."""
    last = numbers.max(1).values.tolist()
    whole = is_whole(given)
    tokens = given.view(numbers.shape) if whole else given
    fixed = _marks(tokens, numbers) | special if whole else set()
    others = _others(tokens, fixed) if whole else None
    made: list[Change] = []
    most = max(range(len(last)), key=lambda row: last[row])
    for wanted in ({row: 0 for row, number in enumerate(last) if number > 0}, {most: last[most] - 1}):
        changed, sources = tokens.clone(), {}
        for row, number in wanted.items():
            inside = numbers[row] == number
            replaced = _replaced(tokens[row], inside, others) if whole else _turned(tokens[row], inside)
            if bool((replaced != tokens[row]).any()):
                changed[row] = replaced
                sources[row] = number
        if sources and sources not in [each.sources for each in made]:
            made.append(Change(changed.view(given.shape), sources))
    return made


def _marks(tokens: Any, numbers: Any) -> set[int]:
    """Token ids that begin or end most documents: a model may part documents at them, so they are neither changed
    nor put in."""
    torch = sys.modules["torch"]
    apart = numbers[:, 1:] != numbers[:, :-1]
    found: set[int] = set()
    for edge in (tokens[:, 1:][apart & (numbers[:, 1:] >= 0)], tokens[:, :-1][apart & (numbers[:, :-1] >= 0)]):
        ids, count = torch.unique(edge, return_counts=True)
        found |= {int(each) for each, times in zip(ids, count, strict=True) if 2 * times > edge.numel() and times > 1}
    return found


def _others(tokens: Any, fixed: set[int]) -> Any:
    """The ids to choose from: those of the batch, so that each is in the vocabulary."""
    torch = sys.modules["torch"]
    ids = torch.unique(tokens)
    for each in fixed:
        ids = ids[ids != each]
    if ids.numel() == 1 and int(ids[0]) > 0:
        ids = torch.cat([ids - 1, ids])
    return ids


def _replaced(row: Any, inside: Any, others: Any) -> Any:
    torch = sys.modules["torch"]
    if others.numel() < 2:
        return row
    place = torch.searchsorted(others, row).clamp(max=others.numel() - 1)
    inside = inside & (others[place] == row)
    other = others[(place + others.numel() // 2) % others.numel()]
    return torch.where(inside, other.to(row.dtype), row)


def _turned(row: Any, inside: Any) -> Any:
    """Embedded tokens: (positions, width)."""
    return sys.modules["torch"].where(inside[:, None], -row.flip(-1), row)


def special_tokens(model: Any) -> set[int]:
    """Ids that a model's configuration names: padding, ends, places of images."""
    config = getattr(modules.beneath_adapters(modules.bare(model)), "config", None)
    configs = [config, getattr(config, "text_config", None)]
    values: list[Any] = []
    for each in configs:
        names = [name for name in getattr(each, "__dict__", {}) if name.endswith(("_token_id", "_token_index"))]
        values += [getattr(each, name) for name in names]
    flat = [one for value in values for one in (value if isinstance(value, (list, tuple)) else [value])]
    return {one for one in flat if isinstance(one, int) and not isinstance(one, bool)}


def scores(model: Any, call: Call, shape: tuple[int, int], wanted: bool = True) -> Any:
    """(values for each position, where they were taken, every how-manieth column): logits, else of the last block.

    The values have the shape (rows, positions, columns).
    """
    kept: list[Any] = []

    def keep(module: Any, args: Any, output: Any) -> None:
        kept[:] = [found for found in [_by_position(output, shape)] if found is not None]

    blocks = modules.blocks_of(model) if wanted else []
    handle = blocks[-1][1].register_forward_hook(keep) if blocks else None
    try:
        output = model(*call.args, **call.kwargs)
    finally:
        if handle is not None:
            handle.remove()
    if not wanted:
        return None
    found = _by_position(output, shape)
    at = "logits" if found is not None else f"output of {modules.class_name(blocks[-1][1])}" if kept else ""
    if not at:
        raise CannotMeasure("the model gives no result for each position")
    found = found if found is not None else kept[0]
    if hasattr(found, "full_tensor"):
        found = found.full_tensor()
    every = max(1, -(-found.numel() // LARGEST))
    return found[..., ::every].detach().clone(), at, every


def _by_position(output: Any, shape: tuple[int, int]) -> Any:
    """The tensor of floats in an output whose first dimensions are rows and positions, by the name of logits first."""
    named = output if isinstance(output, dict) else getattr(output, "__dict__", {})
    candidates = [named[name] for name in ("logits", "scores", "last_hidden_state") if name in named]
    candidates += output if isinstance(output, (tuple, list)) else [output]
    for each in candidates:
        if not is_floating(each):
            continue
        if each.dim() == 3 and tuple(each.shape[:2]) == shape:
            return each
        if each.dim() == 2 and each.shape[0] == shape[0] * shape[1]:
            return each.view(*shape, -1)
        if each.dim() == 3 and each.shape[0] == 1 and each.shape[1] == shape[0] * shape[1]:
            return each.view(*shape, -1)
    return None


def _compared(seen: list[Any], plans: list[Change], documents: Documents) -> dict[str, Any]:
    (base, at, every), (again, _, _) = seen[:2]
    numbers = documents.numbers.to(base.device)
    apart = (numbers >= 0)[..., None]
    scale = _largest(base.abs() * apart)
    noise = _largest(_difference(base, again) * apart)
    dtype = _precision(base)
    worst: dict[str, Any] = {"change": 0.0, "source": None, "target": None, "row": None}
    elsewhere: float | None = None
    for plan, (result, _, _) in zip(plans, seen[2:], strict=False):
        difference = _difference(base, result).amax(-1)
        for row, source in plan.sources.items():
            later = difference[row] * (numbers[row] > source)
            largest = float(later.max())
            if worst["source"] is None or largest > worst["change"]:
                target = int(numbers[row][int(later.argmax())]) if largest > 0 else None
                worst = {
                    "change": largest,
                    "source": source + 1,
                    "target": None if target is None else target + 1,
                    "row": row + 1,
                }
        still = [row for row in range(numbers.shape[0]) if row not in plan.sources]
        if still:
            elsewhere = max(elsewhere or 0.0, float(difference[still].max()))
    rounding = max(ROUNDING.get(dtype, 3e-2) * scale, 4 * noise)
    change = worst["change"]
    return {
        "verdict": "none" if change == 0 else "rounding" if change <= rounding else "leak",
        **worst,
        "scale": scale,
        "noise": noise,
        "other_rows": elsewhere,
        "documents": int((numbers.max(1).values + 1).sum()),
        "rows": int(numbers.shape[0]),
        "positions": int(numbers.shape[1]),
        "dtype": dtype,
        "seen_in": documents.seen_in,
        "measured_at": at,
        "every": every,
    }


def _precision(values: Any) -> str:
    """Name of the dtype that the values have in truth: results in low precision may be handed out as float32."""
    torch = sys.modules["torch"]
    if values.dtype == torch.float32:
        for low in (torch.bfloat16, torch.float16):
            if torch.equal(values.to(low).to(values.dtype), values):
                return str(low).removeprefix("torch.")
    return str(values.dtype).removeprefix("torch.")


def _difference(one: Any, other: Any) -> Any:
    """|one - other| in at least single precision; a value that is not a number in both is no difference."""
    torch = sys.modules["torch"]
    wide = torch.float64 if one.dtype == torch.float64 else torch.float32
    difference = (one.to(wide) - other.to(wide)).abs()
    alike = (one == other) | (one.isnan() & other.isnan())
    return difference.nan_to_num(nan=float("inf")).masked_fill(alike, 0.0)


def _largest(values: Any) -> float:
    return float(values.nan_to_num(nan=0.0, posinf=0.0).max())


@contextlib.contextmanager
def _without_trace(torch: Any) -> Iterator[None]:
    """No gradients, no cached casts, nothing compiled, no warnings."""
    with contextlib.ExitStack() as stack:
        stack.enter_context(torch.no_grad())
        stack.enter_context(warnings.catch_warnings())
        warnings.simplefilter("ignore")
        dynamo: Any = sys.modules.get("torch._dynamo")
        if dynamo is not None:  # the function that torch.compiler.set_stance calls, and that is not observed
            stack.enter_context(dynamo.set_stance("force_eager"))
        cached = torch.is_autocast_cache_enabled()
        torch.set_autocast_cache_enabled(False)
        try:
            yield
        finally:
            torch.set_autocast_cache_enabled(cached)
            if _casts(torch):
                torch.clear_autocast_cache()  # a context inside of the model may have filled it, without gradients


def _casts(torch: Any) -> bool:
    return any(torch.is_autocast_enabled(name) for name in ("cuda", "cpu"))
