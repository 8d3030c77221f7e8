"""Writes the documents that are made from the source, so that nothing is written twice.

`docs/rules/<layer>.md` from the rules, `docs/record.schema.json` from the record's types. Run it with `make docs`;
`--check` writes nothing and exits 1 when a document is out of date.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from trueup.reports.rulebook import markdown
from trueup.rules import all_rules
from trueup.schema.layer import LAYERS
from trueup.schema.record import record_json_schema

DOCS = Path(__file__).parent


def documents() -> dict[Path, str]:
    """Every generated document with its text."""
    written = {DOCS / "record.schema.json": json.dumps(record_json_schema(), indent=1, ensure_ascii=False) + "\n"}
    for layer in LAYERS:
        rules = [rule for rule in all_rules() if rule.id.startswith(f"{layer}/")]
        if rules:
            written[DOCS / "rules" / f"{layer}.md"] = markdown(layer, rules)
    return written


def main() -> int:
    """Write what changed, or with `--check` name it."""
    changed = [
        (path, text)
        for path, text in documents().items()
        if not path.exists() or path.read_text(encoding="utf-8") != text
    ]
    for path, text in changed:
        print(path.relative_to(DOCS.parent))
        if "--check" not in sys.argv:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
    return 1 if changed and "--check" in sys.argv else 0


if __name__ == "__main__":
    sys.exit(main())
