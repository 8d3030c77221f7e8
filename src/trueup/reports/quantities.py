"""Numbers as people read them."""

from __future__ import annotations


def percent(share: float) -> str:
    """A share as a whole percentage; `100 %` and `0 %` are kept for exactly all and nothing."""
    if 0 < share < 0.01:
        return "< 1 %"
    if 0.99 < share < 1:
        return "> 99 %"
    return f"{share * 100:.0f} %"


def count(number: int, noun: str, plural: str | None = None) -> str:
    """`1 warning`, `2 warnings`."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def seconds(value: float) -> str:
    """Three significant digits below a minute, minutes and hours above."""
    if value >= 3600:
        return f"{value // 3600:.0f} h {value % 3600 / 60:.0f} min"
    if value >= 60:
        return f"{value // 60:.0f} min {value % 60:.0f} s"
    return f"{value:.3g} s"


def size(number: int) -> str:
    """Bytes in decimal units."""
    value = float(number)
    for unit in ("B", "kB", "MB", "GB"):
        if value < 1000:
            return f"{value:.3g} {unit}" if value < 100 else f"{value:.0f} {unit}"
        value /= 1000
    return f"{value:,.3g} TB"
