#!/bin/sh
set -e
pip install --quiet --no-index --no-deps --target vendored ./rowscale
PYTHONPATH=vendored:$PYTHONPATH python train.py
