"""`pip install` in the interpreter of a job: asked for by `trueup fix --yes`, never done else."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence


class InstallError(Exception):
    """Nothing could be installed; the message says why and what to do."""


def pip_install(executable: str, words: Sequence[str]) -> None:
    """Run `pip install WORDS` with the Python at `executable`, whose output goes to standard error.

    Raises InstallError when it fails.
    """
    command = [executable, "-m", "pip", "install", *words]
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=2, check=False)
    except OSError as error:
        raise InstallError(f"{executable} cannot be started: {error.strerror}") from error
    if done.returncode:
        line = " ".join(words)
        raise InstallError(
            f"pip install {line} ended with {done.returncode}; mend the environment by hand, and run again"
        )
