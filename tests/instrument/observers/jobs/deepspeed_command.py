"""Starts `python -m deepspeed.launcher.launch` with the arguments given, in a folder where that is an empty module."""

import pathlib
import subprocess
import sys

package = pathlib.Path("deepspeed", "launcher")
package.mkdir(parents=True)
for file in (package.parent / "__init__.py", package / "__init__.py", package / "launch.py"):
    file.touch()
subprocess.run([sys.executable, "-u", "-m", "deepspeed.launcher.launch", *sys.argv[1:], "train.py"], check=True)
