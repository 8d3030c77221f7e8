"""Questions that several rules ask of a record; each answers from recorded facts only."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from trueup.schema.finding import Evidence
from trueup.schema.record import Applied, Attention, Record

FUSED = re.compile(r"flash|efficient|cudnn|flex")
"""Names of attention kernels that never form the whole score matrix."""

_OFF = {"", "no", "none", "false", "0", "off", "dynamobackend.no", "dynamobackendtype.no"}


def is_on(value: Any) -> bool:
    """True when a setting, as a value or as the text of an environment variable, asks for something."""
    return value is not None and str(value).strip().lower() not in _OFF


def asked(record: Record, layer: str, setting: str) -> Any:
    """The value that configuration asked for, None when it asked for nothing."""
    return record.requested.get(layer, {}).get(setting)


def applied(record: Record, *events: str) -> tuple[Applied, ...]:
    """The order events of these names."""
    return tuple(each for each in record.order if each.event in events)


def autocasts(record: Record) -> tuple[Applied, ...]:
    """Contexts that switched autocast on; the recomputation of a checkpoint enters one that leaves it off."""
    return tuple(each for each in applied(record, "autocast") if each.detail.get("enabled") is not False)


def argument(record: Record, name: str) -> Any:
    """The value of a training argument of a Trainer, None when there is no Trainer or no such argument."""
    for each in applied(record, "Trainer"):
        arguments = each.detail.get("args", each.detail)
        if isinstance(arguments, Mapping) and name in arguments:
            return arguments[name]
    return None


def switched(record: Record, layer: str) -> bool:
    """True when the variant of this run forces the layer, so that its absence is as asked for."""
    layers = record.variant.get("layers")
    return isinstance(layers, Mapping) and layer in layers


def taken_out(record: Record, layer: str) -> bool:
    """True when the variant of this run takes the layer out of it; another kernel or dtype takes none out."""
    layers = record.variant.get("layers")
    return isinstance(layers, Mapping) and layers.get(layer) == "off"


def variable(record: Record, name: str) -> str | None:
    """An environment variable of the job."""
    variables = record.environment.get("variables")
    value = variables.get(name) if isinstance(variables, Mapping) else None
    return None if value is None else str(value)


def installed(record: Record) -> dict[str, str]:
    """Package → version of the environment that the job ran in."""
    packages = record.environment.get("packages")
    if not isinstance(packages, Mapping):
        return {}
    return {str(name): str(version) for name, version in packages.items() if version}


def has_gpu(record: Record) -> bool:
    """True when the machine has an accelerator or the job used one."""
    devices = str(record.environment.get("devices") or "").lower()
    return record.actual.memory.source == "cuda allocator" or any(
        name in devices for name in ("cuda", "nvidia", "rocm", "amd instinct", "xpu")
    )


def trained(record: Record) -> bool:
    """True when at least one optimizer step was seen."""
    return record.steps.count > 0 or any(rank.steps > 0 for rank in record.ranks)


def errors(record: Record, pattern: str) -> tuple[Evidence, ...]:
    """Uncaught exceptions of ranks, and the reason of the exit, whose text matches `pattern`."""
    seen = [
        Evidence(what="uncaught exception", value=_line_with(pattern, rank.error), ranks=(rank.rank,))
        for rank in record.ranks
        if rank.error and re.search(pattern, rank.error)
    ]
    reason = record.exit.reason
    if not seen and reason and re.search(pattern, reason):
        seen.append(Evidence(what="reason of the exit", value=_line_with(pattern, reason)))
    return tuple(seen)


def share(shares: Mapping[str, float], *dtypes: str) -> float:
    """Sum of the shares of these dtypes; `bfloat16` and `torch.bfloat16` are one name."""
    return sum(part for name, part in shares.items() if name.removeprefix("torch.") in dtypes)


def precision_asked(record: Record) -> str | None:
    """`bf16` or `fp16` when configuration asks for low-precision compute."""
    text = str(asked(record, "precision", "dtype") or "").lower()
    for dtype, names in {"bf16": ("bf16", "bfloat16"), "fp16": ("fp16", "float16", "half")}.items():
        if any(name in text for name in names):
            return dtype
    return None


def explicit_masks(attention: Attention) -> dict[str, int]:
    """Calls that were given a mask tensor, by what the mask is, or `mask` where only its presence is known."""
    seen = {kind: calls for kind, calls in attention.masks.items() if kind != "none"}
    if seen:
        return seen
    calls = sum(number for kind, number in attention.sdpa_calls.items() if kind.startswith("masked"))
    return {"mask": calls} if calls else {}


def percent(fraction: float) -> str:
    """`0.934` as `93 %`; a share that is neither none nor all is never rounded to 0 or 100."""
    rounded = round(100 * fraction)
    if rounded == 0 and fraction > 0:
        return "less than 1 %"
    if rounded == 100 and fraction < 1:
        return "more than 99 %"
    return f"{rounded} %"


ADAPTER = re.compile(r"(?:^|[._])[qv]?lora|adapter|ia3_|vera_|oft_|lokr_|hada_|adaption_|prompt_", re.IGNORECASE)


def adapters_among(names: Iterable[str]) -> list[str]:
    """Those of these names of parameters that are an adapter's, by PEFT's names and usual ones of one's own."""
    return [name for name in names if ADAPTER.search(name)]


def listed(names: Iterable[str], limit: int = 3, total: int = 0) -> str:
    """The first names, and how many more there are; `total` where the record does not name all."""
    everything = list(names)
    rest = max(len(everything), total) - limit
    return ", ".join(everything[:limit]) + (f" and {rest} more" if rest > 0 else "")


def places(events: Iterable[Applied], what: str | None = None) -> tuple[Evidence, ...]:
    """Where layers were applied, one evidence an event."""
    return tuple(
        Evidence(
            what=what or (f"{each.event} applied to" if each.module else each.event),
            value=each.module or None,
            at=each.at,
            ranks=(each.rank,),
        )
        for each in events
    )


def _line_with(pattern: str, text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if re.search(pattern, line)]
    return lines[0] if lines else text.strip()[:200]
