"""The configuration of DeepSpeed in a JSON file: `--deepspeed ds.json`, accelerate's `deepspeed_config_file`."""

from __future__ import annotations

import json

from trueup.edits import json_text
from trueup.edits.command import files
from trueup.edits.draft import Draft, Editor

MARKS = frozenset({"zero_optimization", "train_micro_batch_size_per_gpu", "train_batch_size"})
"""One of them stands in every configuration of DeepSpeed."""


def settings(*keys: tuple[tuple[str, ...], str | int | bool]) -> Editor:
    """An editor that sets keys: `(("zero_optimization", "stage"), 2)`."""

    def editor(draft: Draft) -> bool:
        file = configuration(draft)
        text = draft.job.text(file) if file is not None else None
        for path, value in keys:
            text = json_text.with_key(text, path, value) if text is not None else None
        if file is None or text is None:
            return False
        draft.replace(file, text)
        return True

    return editor


def configuration(draft: Draft) -> str | None:
    """The one file of DeepSpeed that the command names."""
    found = []
    for file in files(draft.job.command, draft.job.folder, ".json"):
        try:
            content = json.loads(draft.job.text(file) or "")
        except ValueError:
            continue
        if isinstance(content, dict) and MARKS.intersection(content):
            found.append(file)
    return found[0] if len(found) == 1 else None
