"""The pages of `docs/rules/`, made from the rules: `python -m trueup.rules.documentation [FOLDER]`."""

from __future__ import annotations

import sys
from pathlib import Path

from trueup.rules.definition import LogText, Rule
from trueup.rules.not_covered import NOT_COVERED
from trueup.rules.registry import all_rules
from trueup.schema.finding import Remedy
from trueup.schema.layer import LAYERS

FOLDER = Path("docs/rules")
_MADE = "<!-- Made by `python -m trueup.rules.documentation`; change the rule, not this page. -->"


def pages() -> dict[str, str]:
    """Path below the folder → text, for the index and one page a rule."""
    return {"README.md": _index(), **{f"{rule.id}.md": _page(rule) for rule in all_rules()}}


def write(folder: Path = FOLDER) -> list[Path]:
    """Write all pages, and delete those made before for rules that are gone; returns the paths that changed."""
    made = {folder / name: text for name, text in pages().items()}
    changed = [path for path in stale(folder) if path not in made]
    for path in changed:
        path.unlink()
    for path, text in made.items():
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
            changed.append(path)
    return changed


def stale(folder: Path) -> list[Path]:
    """The pages in this folder that this module made, and no page of anyone else."""
    return [path for path in folder.rglob("*.md") if path.read_text(encoding="utf-8").startswith(_MADE)]


def _index() -> str:
    lines = [
        _MADE,
        "",
        "# Rules",
        "",
        f"{len(all_rules())} failure classes that trueup detects in runs, logs and environments.",
    ]
    for layer in LAYERS:
        of_layer = [rule for rule in all_rules() if rule.layer == layer]
        if not of_layer:
            continue
        lines += ["", f"## {layer}", "", "| rule | what | severity | silent |", "|---|---|---|---|"]
        for rule in of_layer:
            silent = "yes" if rule.silent else "no"
            lines.append(f"| [{rule.id}]({rule.id}.md) | {_cell(rule.title)} | {rule.severity} | {silent} |")
    lines += ["", "## Known and not detected", ""]
    lines += [f"- `{name}`: {why}" for name, why in NOT_COVERED.items()]
    return "\n".join(lines) + "\n"


def _page(rule: Rule) -> str:
    lines = [_MADE, "", f"# {rule.id}", "", f"**{rule.title}**", ""]
    lines += [f"Layers: {', '.join(rule.layers)}. Severity: {rule.severity}.{_scope(rule)}"]
    if rule.aliases:
        lines += ["", f"Also called: {', '.join(rule.aliases)}."]
    if rule.silent:
        lines += ["", "## Why it stays unnoticed", "", rule.silent]
    lines += ["", "## Cause", "", rule.cause, "", "## What to do", ""]
    lines += [f"- `{remedy.id}` ({_kind(remedy)}): {_text(remedy.how)}" for remedy in rule.remedies]
    lines += ["", "## What looks like it and is not", "", rule.caution]
    if rule.log:
        lines += ["", "## What it prints", ""]
        lines += [f"- {_code(text.text)}{_printed_by(text)}" for text in rule.log]
    if rule.explains:
        lines += ["", "## What follows from it", ""]
        lines += [f"- [{each}](../{each}.md)" for each in rule.explains]
    if rule.sources:
        lines += ["", "## Sources", "", *(f"- <{source}>" for source in rule.sources)]
    return "\n".join(lines) + "\n"


def _scope(rule: Rule) -> str:
    versions = ", ".join(f"{name} {specifier}" for name, specifier in rule.versions.items())
    return f" Applies to {versions}." if versions else ""


def _printed_by(text: LogText) -> str:
    shared = "shared with other classes" if text.strength == "supporting" else ""
    told = "; ".join(part for part in (text.versions, shared) if part)
    return f" ({told})" if told else ""


def _code(text: str) -> str:
    """A code span that ends where the text does, whatever backticks it holds."""
    return f"`` {text} ``" if "`" in text else f"`{text}`"


def _kind(remedy: Remedy) -> str:
    return f"{remedy.kind}, automatic" if remedy.automatic else remedy.kind


def _text(how: str) -> str:
    return how.replace("<", "&lt;")


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    for path in write(Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER):
        print(path)
