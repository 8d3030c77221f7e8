"""Starts the training as a child process, as launch scripts in Python do."""

import pathlib
import subprocess
import sys

here = pathlib.Path(__file__).parent
sys.exit(subprocess.run([sys.executable, str(here / "train.py")]).returncode)
