"""The configuration file of `accelerate launch --config_file`."""

from __future__ import annotations

from trueup.edits import yaml_text
from trueup.edits.command import option
from trueup.edits.draft import Draft, Editor


def setting(*path: str, value: str | int | bool) -> Editor:
    """An editor that sets one key, `fsdp_config`, `fsdp_version` for example."""

    def editor(draft: Draft) -> bool:
        file = configuration(draft)
        text = draft.job.text(file) if file is not None else None
        new = yaml_text.with_key(text, path, value) if text is not None else None
        if file is None or new is None:
            return False
        draft.replace(file, new)
        return True

    return editor


def fsdp(name: str, value: str | int | bool) -> Editor:
    """An editor that sets a key of `fsdp_config` in a file that asks for FSDP."""

    def editor(draft: Draft) -> bool:
        file = configuration(draft)
        text = draft.job.text(file) if file is not None else None
        return text is not None and "fsdp_config" in text and setting("fsdp_config", name, value=value)(draft)

    return editor


def layer_class(draft: Draft) -> bool:
    """The class of the model's blocks, wrapped by class."""
    classes = draft.job.record.actual.compile.blocks.names
    file = configuration(draft)
    text = draft.job.text(file) if file is not None else None
    if file is None or text is None or "fsdp_config" not in text or not classes:
        return False
    for name, value in (
        ("fsdp_auto_wrap_policy", "TRANSFORMER_BASED_WRAP"),
        ("fsdp_transformer_layer_cls_to_wrap", ",".join(classes)),
    ):
        text = yaml_text.with_key(text, ("fsdp_config", name), value)
        if text is None:
            return False
    draft.replace(file, text)
    return True


def configuration(draft: Draft) -> str | None:
    """The file that the command names."""
    words = draft.job.command
    if "accelerate" not in {word.rpartition("/")[2] for word in words} and "accelerate.commands.launch" not in words:
        return None
    return option(words, "--config_file")
