"""What a script says of itself: the fault, and the commands that show it."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from trueup.procedures.reproduction.candidate import WITHOUT, Candidate
from trueup.schema.bisection import Bisection

WIDTH = 110


def title_of(bisection: Bisection) -> str:
    """The fault in a line."""
    assert bisection.signature is not None
    text = bisection.signature.text if bisection.signature.kind != "hang" else "It never ends."
    text = " ".join(text.replace("\\", "/").replace('"""', "'''").split())
    return "\n".join(textwrap.wrap(text, WIDTH, max_lines=1, placeholder=" ..."))


def documented(title: str, fails: Candidate, layers: Sequence[str]) -> str:
    """A docstring with the command that fails, and those that pass."""
    commands = [" ".join(fails.without(layer).command) for layer in layers]
    own = " ".join((*fails.command, WITHOUT))
    if all(command.startswith(own) for command in commands):
        others = [command.removeprefix(own.removesuffix(WITHOUT)) for command in commands[1:]]
        commands = [", or ".join([commands[0], *others])]
    return "\n".join(
        [f'"""{title}', f"fails:  {' '.join(fails.command)}", *(f"passes: {command}" for command in commands), '"""']
    )
