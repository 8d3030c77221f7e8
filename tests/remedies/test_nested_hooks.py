"""A hook that asks for another of the module that is just imported, as appliers do, gets it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import trueup

BOOTSTRAP = Path(trueup.__file__).parent / "instrument" / "bootstrap"
PROGRAM = """
import sys
sys.path.insert(0, sys.argv[1])
from trueup_instrument.importing import ImportHooks
hooks = ImportHooks()
hooks.after("colorsys", lambda module: hooks.after("colorsys", lambda module: print("within", module.__name__)))
hooks.install()
import colorsys
hooks.after("colorsys", lambda module: print("at once"))
"""


def test_a_hook_asked_for_by_a_hook_of_the_same_module_runs() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM, str(BOOTSTRAP)], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["within colorsys", "at once"]
