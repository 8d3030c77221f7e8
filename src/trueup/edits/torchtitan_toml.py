"""The configuration of torchtitan: `--job.config_file`, or the variable CONFIG_FILE of its `run_train.sh`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from trueup.edits import toml_text
from trueup.edits.command import files, option
from trueup.edits.draft import Draft, Editor

Content = dict[str, Any]


def setting(*path: str, value: str | float | bool, where: Callable[[Content], bool]) -> Editor:
    """An editor that sets one key of a file whose content `where` accepts."""

    def editor(draft: Draft) -> bool:
        file = configuration(draft)
        text = draft.job.text(file) if file is not None else None
        content = toml_text.content(text) if text is not None else None
        if file is None or text is None or content is None or not where(content):
            return False
        new = toml_text.with_key(text, path, value)
        if new is not None:
            draft.replace(file, new)
        return new is not None

    return editor


def has(*path: str) -> Callable[[Content], bool]:
    """Whether a file has a key: only what stands there is changed, for releases differ in their keys."""

    def test(content: Content) -> bool:
        found: Any = content
        for name in path:
            found = found.get(name) if isinstance(found, dict) else None
        return found is not None

    return test


def configuration(draft: Draft) -> str | None:
    words = draft.job.command
    named = option(words, "--job.config_file") or option(words, "--job.config-file")
    if named is not None:
        return named
    for word in words:
        if word.startswith("CONFIG_FILE="):
            return word.partition("=")[2]
    return next(iter(files(words, draft.job.folder, ".toml")), None) if "torchtitan" in " ".join(words) else None
