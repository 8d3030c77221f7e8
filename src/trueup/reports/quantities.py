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
    if value < 59.95:
        return f"{value:.3g} s"
    minutes, rest = divmod(round(value), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    return f"{minutes // 60} h {minutes % 60} min"


def size(number: int) -> str:
    """Bytes in decimal units."""
    value = float(number)
    for unit in ("B", "kB", "MB", "GB"):
        if value < 999.5:
            return f"{value:.3g} {unit}" if value < 100 else f"{value:.0f} {unit}"
        value /= 1000
    return f"{value:,.3g} TB"
