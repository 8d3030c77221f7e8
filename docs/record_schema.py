"""Writes `docs/record.schema.json`, the JSON Schema of `record.json`, from the types. Run it with `make docs`."""

from __future__ import annotations

import json
from pathlib import Path

from trueup.schema.record import record_json_schema

FILE = Path(__file__).with_name("record.schema.json")


def main() -> None:
    """Write the file."""
    FILE.write_text(json.dumps(record_json_schema(), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
