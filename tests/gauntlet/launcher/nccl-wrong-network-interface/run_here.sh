#!/bin/sh
export OMP_NUM_THREADS=1
exec torchrun --standalone --nproc-per-node 2 "$@"
