"""Another launcher in front of the same script."""

from __future__ import annotations

import yaml

from trueup.edits.accelerate_yaml import configuration
from trueup.edits.command import option
from trueup.edits.draft import Draft


def with_torchrun(draft: Draft) -> bool:
    """`torchrun --nproc-per-node N script.py` for `accelerate launch ... script.py` on one machine."""
    words = draft.job.command
    launch = next((i for i, word in enumerate(words) if word.rpartition("/")[2] == "accelerate"), None)
    script = next((i for i, word in enumerate(words) if word.endswith(".py")), None)
    processes = option(words, "--num_processes") or _configured(draft)
    if launch is None or script is None or script < launch or processes is None or not processes.isdigit():
        return False
    if option(words, "--num_machines") not in (None, "1"):
        return False
    draft.command = (*words[:launch], "torchrun", "--nproc-per-node", processes, *words[script:])
    return True


def _configured(draft: Draft) -> str | None:
    """The number of processes in the configuration of accelerate."""
    file = configuration(draft)
    text = draft.job.text(file) if file is not None else None
    try:
        content = yaml.safe_load(text or "")
    except yaml.YAMLError:
        return None
    found = content.get("num_processes") if isinstance(content, dict) else None
    return str(found) if found is not None else None
