#!/bin/sh
set -e
pip install --quiet --no-index --no-deps --no-build-isolation --target vendored ./rowscale
PYTHONPATH=vendored:$PYTHONPATH python fixed.py
