#!/bin/sh
export OMP_NUM_THREADS=1 GLOO_SOCKET_IFNAME=ens7f1 NCCL_SOCKET_IFNAME=ens7f1
exec torchrun --standalone --nproc-per-node 2 "$@"
