"""The text of a report to the project whose layers fail together, with the script that shows it."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from trueup.schema.bisection import Bisection, Reproduction

PACKAGES = ("torch", "transformers", "accelerate", "peft", "lightning", "triton", "flash-attn", "xformers", "deepspeed")
"""Whose versions stand in it first."""


def with_issue(found: Bisection) -> Bisection:
    """`found` whose reproduction has its text."""
    if found.repro is None:
        return found
    repro = msgspec.structs.replace(found.repro, issue=issue_text(found, found.repro))
    return msgspec.structs.replace(found, repro=repro)


def issue_text(bisection: Bisection, reproduction: Reproduction) -> str:
    """Markdown: what fails, the script and its commands, what is needed for it, versions."""
    return "\n".join(_lines(bisection, reproduction)) + "\n"


def _lines(bisection: Bisection, reproduction: Reproduction) -> Iterator[str]:
    signature = bisection.signature
    layers = " + ".join(bisection.minimal)
    what = signature.text if signature is not None else ""
    yield f"# {layers}: {_first(what)}"
    yield ""
    yield "## What happens"
    yield ""
    yield from _fenced(what, "")
    if signature is not None and signature.frames:
        yield f"raised at {', called from '.join(f'`{frame}`' for frame in signature.frames[:3])}"
        yield ""
    yield "## To reproduce"
    yield ""
    yield f"`{reproduction.launch}` with this `repro.py`:"
    yield ""
    yield from _fenced(reproduction.script, "python")
    yield from (f"- `{reproduction.launch}`: fails as above", *_passing(reproduction))
    yield ""
    yield "## What is needed for it"
    yield ""
    proved = ", and it is gone without any one of them" if bisection.one_minimal else ""
    yield f"Together: {layers}{proved}."
    if bisection.order is not None:
        yield f"Order: {bisection.order}."
    if bisection.rate is not None and bisection.rate < 1:
        yield f"It shows in about {bisection.rate * 100:.0f} % of the runs."
    yield from (f"- {each.layer}, {each.what}: {each.answer} ({each.evidence})" for each in bisection.inside)
    yield ""
    yield "## Versions"
    yield ""
    yield from _versions(bisection)


def _passing(reproduction: Reproduction) -> Iterator[str]:
    for layer, command in reproduction.without.items():
        yield f"- `{command}`: passes, without {layer}"


def _versions(bisection: Bisection) -> Iterator[str]:
    environment = bisection.record.environment if bisection.record is not None else {}
    packages = dict(environment.get("packages") or {})
    if environment.get("torch"):
        packages["torch"] = environment["torch"]
    yield f"- python {environment.get('python', 'unknown')}"
    for name in (*(each for each in PACKAGES if each in packages), *sorted(set(packages) - set(PACKAGES))):
        yield f"- {name} {packages[name]}"
    build = environment.get("build") or {}
    yield from (f"- {name} {build[name]}" for name in ("cuda", "hip") if build.get(name))
    devices = environment.get("devices") or ()
    if devices:
        yield f"- devices: {', '.join(map(str, devices))}"


def _first(text: str, width: int = 90) -> str:
    line = text.splitlines()[0] if text else "a fault"
    return line if len(line) <= width else f"{line[: width - 4].rstrip()} ..."


def _fenced(text: str, language: str) -> Iterator[str]:
    """A block of code, fenced by more backticks than it holds in a row."""
    fence = "```"
    while fence in text:
        fence += "`"
    yield fence + language
    yield text.rstrip("\n")
    yield fence
    yield ""
