"""Builds the wheel; the tag says which torch it was made for."""

import pathlib
import zipfile

import torch

TAG = f"torch{''.join(torch.__version__.split('.')[:2])}"
META = f"Metadata-Version: 2.1\nName: rowscale\nVersion: 0.3+{TAG}\n"
WHEEL = "Wheel-Version: 1.0\nGenerator: rowscale\nRoot-Is-Purelib: true\nTag: py3-none-any\n"


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    name = f"rowscale-0.3+{TAG}-py3-none-any.whl"
    info = f"rowscale-0.3+{TAG}.dist-info"
    here = pathlib.Path(__file__).parent
    with zipfile.ZipFile(pathlib.Path(wheel_directory) / name, "w") as wheel:
        wheel.write(here / "rowscale.py", "rowscale.py")
        wheel.writestr(f"{info}/METADATA", META)
        wheel.writestr(f"{info}/WHEEL", WHEEL)
        wheel.writestr(f"{info}/RECORD", f"rowscale.py,,\n{info}/METADATA,,\n{info}/WHEEL,,\n{info}/RECORD,,\n")
    return name
