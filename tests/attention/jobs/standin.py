"""Runs the observations named in the arguments in one process, under the flash_attn of PYTHONPATH; prints JSON."""

import importlib
import json
import sys

import flash_attn
import flash_attn_2_cuda

found = {name: importlib.import_module(f"standin_{name}").observed() for name in sys.argv[1:]}
json.dump({"version": flash_attn.__version__, "played": flash_attn_2_cuda.stand_in_for, **found}, sys.stdout)
