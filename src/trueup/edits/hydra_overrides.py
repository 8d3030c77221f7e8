"""Settings of a Hydra application such as verl: `key=value` words of the command or of its shell script, or YAML."""

from __future__ import annotations

import re

from trueup.edits import yaml_text
from trueup.edits.command import files, shell_script
from trueup.edits.draft import Draft, Editor

ACTOR = "actor_rollout_ref"
"""The part of verl's configuration that holds the model that is trained."""


def setting(path: str, value: str | bool) -> Editor:
    """An editor that sets one key of verl's configuration."""

    def editor(draft: Draft) -> bool:
        return _in_shell_script(draft, path, value) or _in_command(draft, path, value) or _in_file(draft, path, value)

    return editor


def layer_class(draft: Draft) -> bool:
    """The class of the model's blocks as verl's wrap policy."""
    classes = draft.job.record.actual.compile.blocks.names
    name = f"{ACTOR}.actor.fsdp_config.wrap_policy.transformer_layer_cls_to_wrap"
    return bool(classes) and setting(name, f"[{','.join(classes)}]")(draft)


def _in_command(draft: Draft, path: str, value: str | bool) -> bool:
    words = list(draft.job.command)
    places = [index for index, word in enumerate(words) if word.startswith((f"{ACTOR}.", f"+{ACTOR}."))]
    if not places:
        return False
    given = [index for index in range(len(words)) if words[index].lstrip("+").startswith(f"{path}=")]
    if given:
        words[given[-1]] = f"{words[given[-1]].partition('=')[0]}={_written(value)}"
    else:
        words.insert(places[-1] + 1, f"++{path}={_written(value)}")
    draft.command = tuple(words)
    return True


def _in_shell_script(draft: Draft, path: str, value: str | bool) -> bool:
    """The override in the script that is started, on a line of its own as the others are."""
    file = shell_script(draft.job.command, draft.job.folder)
    text = draft.job.text(file) if file is not None else None
    if file is None or text is None:
        return False
    written = f"'{_written(value)}'" if "[" in _written(value) else _written(value)
    given = re.compile(rf"^(\s*\+*{re.escape(path)}=)([^\s\\]+)", re.MULTILINE)
    if given.search(text):
        draft.replace(file, given.sub(lambda found: found[1] + written, text))
        return True
    first = re.search(rf"^([ \t]*)\+*{ACTOR}\.\S+ *\\\n", text, re.MULTILINE)
    if first is None:
        return False
    line = f"{first[1]}++{path}={written} \\\n"
    draft.replace(file, f"{text[: first.end()]}{line}{text[first.end() :]}")
    return True


def _in_file(draft: Draft, path: str, value: str | bool) -> bool:
    for file in files(draft.job.command, draft.job.folder, ".yaml", ".yml"):
        text = draft.job.text(file)
        if text is None or ACTOR not in text or "[" in str(value):
            continue
        new = yaml_text.with_key(text, path.split("."), value)
        if new is not None:
            draft.replace(file, new)
            return True
    return False


def _written(value: str | bool) -> str:
    return str(value)
