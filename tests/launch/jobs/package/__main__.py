"""The same job as `train.py`, run as a module."""

import runpy
from pathlib import Path

runpy.run_path(str(Path(__file__).parent.parent / "train.py"), run_name="__main__")
