"""The arguments of the Hugging Face trainers: in a call, in a file for HfArgumentParser, or as words of the command."""

from __future__ import annotations

import re

import libcst as cst

from trueup.edits import json_text, yaml_text
from trueup.edits.calls import argument, is_open, with_keyword
from trueup.edits.command import files, option, script, shell_script, with_option
from trueup.edits.draft import Draft, Editor
from trueup.edits.python_source import Source

Value = str | int | bool


def setting(**arguments: Value) -> Editor:
    """An editor that sets arguments of TrainingArguments, wherever the job gives them."""

    def editor(draft: Draft) -> bool:
        calls = _calls(draft)
        if calls:
            return len(calls) == 1 and _in_call(draft, *calls[0], arguments)
        if not any("HfArgumentParser" in source.text or "TrlParser" in source.text for source in draft.job.sources()):
            return False
        return _in_file(draft, arguments) or _in_shell_script(draft, arguments) or _in_command(draft, arguments)

    return editor


def _calls(draft: Draft) -> list[tuple[Source, cst.Call]]:
    """Calls that make TrainingArguments or the configuration of a trl trainer."""
    return [
        (source, call)
        for source in draft.job.sources()
        for call in source.calls
        if any(
            name.startswith(("transformers.", "trl."))
            and (name.endswith("TrainingArguments") or (name.startswith("trl.") and name.endswith("Config")))
            for name in source.names(call.func)
        )
    ]


def _in_call(draft: Draft, source: Source, call: cst.Call, arguments: dict[str, Value]) -> bool:
    if is_open(call) and any(argument(call, name) is None for name in arguments):
        return False

    def change(node: cst.Call) -> cst.Call:
        for name, value in arguments.items():
            node = with_keyword(node, name, f'"{value}"' if isinstance(value, str) else repr(value))
        return node

    draft.of(source).change(call, change)
    return True


def _in_file(draft: Draft, arguments: dict[str, Value]) -> bool:
    """The JSON or YAML file behind the script."""
    for file in files(draft.job.command, draft.job.folder, ".json", ".yaml", ".yml"):
        text = draft.job.text(file)
        if text is None or "output_dir" not in text:
            continue
        with_key = json_text.with_key if file.endswith(".json") else yaml_text.with_key
        for name, value in arguments.items():
            text = with_key(text, (name,), value) if text is not None else None
        if text is not None:
            draft.replace(file, text)
            return True
    return False


def _in_shell_script(draft: Draft, arguments: dict[str, Value]) -> bool:
    """The launch line in a shell script, in front of `--output_dir`."""
    file = shell_script(draft.job.command, draft.job.folder)
    text = draft.job.text(file) if file is not None else None
    if file is None or text is None or text.count("--output_dir") != 1:
        return False
    for name, value in arguments.items():
        given = re.compile(rf"(--{name})([ =])([^\s\\]+)")
        if given.search(text):
            text = given.sub(rf"\g<1>\g<2>{value}", text)
        else:
            text = text.replace("--output_dir", f"--{name} {value} --output_dir")
    draft.replace(file, text)
    return True


def _in_command(draft: Draft, arguments: dict[str, Value]) -> bool:
    """Words behind those of the script."""
    words = list(draft.job.command)
    if script(words, draft.job.folder) is None or option(words, "--output_dir") is None:
        return False
    for name, value in arguments.items():
        if option(words, f"--{name}") is not None:
            words = list(with_option(words, f"--{name}", str(value)))
        else:
            words += [f"--{name}", str(value)]
    draft.command = tuple(words)
    return True
