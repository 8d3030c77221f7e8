"""Measured orders of kernels in `.trueup/attention.json`, by device and class of the call."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from trueup.attention.call import Call
from trueup.schema.attention_bench import Bench

PLACE = Path(".trueup") / "attention.json"
VERSION = 1


def key_of(device: str, *, dtype: str, head_size: int, length: int, mask: str, grouped: bool, backward: bool) -> str:
    """Device and class of a call: lengths between two powers of two are one class, windows of any width another."""
    floor = 1 << max(0, length.bit_length() - 1)
    return "; ".join(
        (
            device,
            dtype,
            f"head size {head_size}",
            f"length {floor}-{2 * floor - 1}",
            f"mask {mask.partition('=')[0]}",
            "shared keys" if grouped else "own keys",
            "training" if backward else "forward",
        )
    )


def key_of_bench(found: Bench) -> str:
    return key_of(
        found.device,
        dtype=found.dtype,
        head_size=found.query[3],
        length=found.query[2],
        mask=found.mask,
        grouped=found.query[1] != found.key[1],
        backward=found.backward,
    )


def save(found: Bench, place: Path = PLACE) -> str:
    """Add the order of `found` to the file, which is made where it is missing; returns its key.

    A file that cannot be read as one of these is left alone: raises ValueError.
    """
    entries = _read(place)
    key = key_of_bench(found)
    entries[key] = {
        "order": list(found.order),
        "torch": found.torch,
        "seconds": {row.name: row.whole.median for row in found.rows if row.kernel in found.order},
    }
    place.parent.mkdir(parents=True, exist_ok=True)
    text = msgspec.json.format(msgspec.json.encode({"version": VERSION, "measured": entries}), indent=1)
    place.write_bytes(text + b"\n")
    return key


def measured_order(call: Call, device: str, place: Path = PLACE) -> tuple[str, ...] | None:
    """The order that was saved for calls like this one on a device of this name, as `order.next_best` takes it.

    None where none was saved, or the file cannot be read.
    """
    try:
        entries = _read(place)
    except ValueError:
        return None
    key = key_of(
        device,
        dtype=call.dtype,
        head_size=call.head_size,
        length=call.length,
        mask=call.mask.kind,
        grouped=call.is_grouped,
        backward=call.requires_grad,
    )
    order = entries.get(key, {}).get("order")
    return tuple(map(str, order)) if isinstance(order, list) else None


def _read(place: Path) -> dict[str, Any]:
    try:
        raw = msgspec.json.decode(place.read_bytes())
    except FileNotFoundError:
        return {}
    except (OSError, msgspec.DecodeError) as error:
        raise ValueError(f"{place} cannot be read: {error}") from error
    if not isinstance(raw, dict) or raw.get("version") != VERSION or not isinstance(raw.get("measured"), dict):
        raise ValueError(f"{place} is no file of measured attention of this version")
    measured: dict[str, Any] = raw["measured"]
    return measured
