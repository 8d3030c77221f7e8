"""The tables of `docs/attention.md`, made from the knowledge: `python -m trueup.attention.documentation [FILE]`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from trueup.attention.entries import ENTRIES
from trueup.attention.kernel import Kernel
from trueup.attention.knowledge import KERNELS

FILE = Path("docs/attention.md")
BEGIN = "<!-- Made by `python -m trueup.attention.documentation` from here -->"
END = "<!-- to here -->"
COLUMNS = ("dtype", "head size", "GPU", "mask", "heads", "dropout")


def tables() -> str:
    """One table of names, one of what is called, and what each kernel needs."""
    return "\n".join([*_overview(), "", *_kernels(), "", *_entries(), "", *_constraints()])


def inserted(page: str) -> str:
    """The page with its tables made anew. Raises ValueError for a page without their marks."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"the page has no {BEGIN} … {END}")
    return f"{before}{BEGIN}\n\n{tables()}\n\n{END}{after}"


def _overview() -> Iterator[str]:
    """One line a kernel of what is asked most; a dash where it needs nothing."""
    yield f"| kernel | {' | '.join(COLUMNS)} |"
    yield "|---" * (len(COLUMNS) + 1) + "|"
    for kernel in KERNELS.values():
        cells = []
        for column in COLUMNS:
            needs = [each.needs for each in kernel.constraints if each.about == column]
            cells.append(_cell("; ".join(dict.fromkeys(needs))) or "–")
        yield f"| `{kernel.name}` | {' | '.join(cells)} |"


def _kernels() -> Iterator[str]:
    yield "| kernel | what it is | fused | in torch.profiler | under torch.compile |"
    yield "|---|---|---|---|---|"
    for kernel in KERNELS.values():
        names = ", ".join(f"`{name}`" for name in (*kernel.operators, *kernel.device_kernels))
        fused = "yes" if kernel.fused else "no"
        yield f"| `{kernel.name}` | {_cell(kernel.title)} | {fused} | {names} | {_cell(_compiled(kernel))} |"


def _compiled(kernel: Kernel) -> str:
    parts = []
    for each in kernel.compiled:
        since = f" from {'.'.join(map(str, each.since))} on" if each.since else ""
        parts.append(f"{each.in_graph}{since}" + (f": {each.words}" if each.words else ""))
    return "; before that ".join(parts)


def _entries() -> Iterator[str]:
    yield "| `--entry` | what is called | kernels behind it |"
    yield "|---|---|---|"
    for entry in ENTRIES.values():
        yield f"| `{entry.name}` | `{entry.title}` | {', '.join(f'`{name}`' for name in entry.kernels)} |"


def _constraints() -> Iterator[str]:
    for kernel in KERNELS.values():
        yield f"### {kernel.name}"
        yield ""
        yield "| about | needs | source |"
        yield "|---|---|---|"
        for each in kernel.constraints:
            verified = "" if each.source.evidence == "run" else ", unverified"
            where = each.source.where
            shown = f"<{where}>" if where.startswith("https://") and " " not in where else where
            yield f"| {each.about} | {_cell(each.needs)} | {_cell(shown)}; {each.source.of}{verified} |"
        yield ""


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    file = Path(sys.argv[1]) if len(sys.argv) > 1 else FILE
    file.write_text(inserted(file.read_text(encoding="utf-8")), encoding="utf-8")
