"""What the header of an event file leaves out, since the folder of a run is sent to others."""

from __future__ import annotations

import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

HIDDEN = "***"
SECRET_NAME = re.compile(r"TOKEN|KEY|SECRET|PASSW|CREDENTIAL|(?:^|_)AUTH(?:_|$)", re.IGNORECASE)
CREDENTIALS = re.compile(r"(?<=://)[^/\s'\"]+@")
SHORT_OPTION = re.compile(r"-[A-Za-z]*?(?P<letter>[cmWX])(?P<value>.*)", re.DOTALL)
"""The options of Python that take a value, as one word (`-mtimeit`, `-uc`) or with it in the next."""


def program_words(command: Sequence[str]) -> list[str]:
    """The interpreter, its options and the script or module that it runs.

    Neither the program's arguments, of which any may be a secret, nor the text behind `-c`."""
    kept, words = list(command[:1]), iter(command[1:])
    for word in words:
        option = SHORT_OPTION.match(word)
        if option is None:
            kept.append(word)
            if not word.startswith("-"):
                break
        elif option["letter"] == "c":
            kept.append("-c")
            break
        else:
            kept.append(word)
            if not option["value"]:
                kept.extend(each for each in (next(words, None),) if each is not None)
            if option["letter"] == "m":
                break
    return kept


def without_secrets(variables: Mapping[str, str]) -> dict[str, str]:
    """Variables with `***` for the value under a name of a secret and for credentials in URLs."""
    return {
        name: HIDDEN if value and SECRET_NAME.search(name) else CREDENTIALS.sub(f"{HIDDEN}@", value)
        for name, value in variables.items()
    }
