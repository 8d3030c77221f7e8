"""What watchdogs, stores, launchers and NCCL print."""
# ruff: noqa: E501  (lines stand as they are printed)

from text_case import negative, positive

ABSENT = "launcher/collective-timeout-absent-rank"
DESYNC = "launcher/collective-desync"
UNEVEN = "launcher/uneven-batches-at-epoch-end"
BARRIER = "launcher/debug-detail-barrier-false-positive"
DUPLICATE = "launcher/duplicate-gpu-assignment"
ORDINAL = "launcher/mig-device-ordinal"
SLICES = "launcher/nccl-on-mig-slices"
PORT = "launcher/master-port-in-use"
RENDEZVOUS = "launcher/rendezvous-host-mismatch"
SHARED = "launcher/container-shared-memory-too-small"
INTERFACE = "launcher/nccl-wrong-network-interface"

WATCHDOG = (
    "[rank{rank}]:[E321 02:07:08.408271257 ProcessGroupNCCL.cpp:616] [Rank {rank}] Watchdog caught collective operation "
    "timeout: WorkNCCL(SeqNum={number}, OpType={operation}, NumelIn={elements}, NumelOut={elements}, Timeout(ms)=600000) "
    "ran for 600060 milliseconds before timing out."
)


def watchdog(rank: int, number: int, operation: str = "ALLREDUCE", elements: int = 4096) -> str:
    return WATCHDOG.format(rank=rank, number=number, operation=operation, elements=elements)


BEHIND = "    [0] finished collective #2, but didn't join collective #3 (count from 1)"
UNFINISHED = "  - [0, 1] joined but didn't finish collective #3 (count from 1)"


def desync_report(who: str, *states: str) -> str:
    """As torch/csrc/distributed/c10d/TraceUtils.h writes it, with TORCH_NCCL_DESYNC_DEBUG=1."""
    snapshot = [" - Snapshot of ranks' latest states:", *(f"   {each}" for each in states)] if states else []
    return "\n\t".join(
        (
            "[rank1]:[E1129 12:00:00.000000000 ProcessGroupNCCL.cpp:684] [Rank 1] ",
            " - To our best knowledge, the lagging/dead/mismatched ranks that caused the desync are:",
            f" {who}",
            *snapshot,
        )
    )


CASES = (
    # -- collective-timeout-absent-rank
    positive(ABSENT, "three of four report", "\n".join(watchdog(rank, 1580) for rank in (0, 1, 3)), "established"),
    positive(
        ABSENT,
        "before sequence numbers",
        "[E ProcessGroupNCCL.cpp:828] [Rank 2] Watchdog caught collective operation timeout: WorkNCCL(OpType=BROADCAST, "
        "Timeout(ms)=1800000) ran for 1800116 milliseconds before timing out.",
    ),
    positive(
        ABSENT,
        "the second line only",
        "[PG ID 2 PG GUID 5 Rank 3] Exception (either an error or timeout) detected by watchdog at work: 12, last enqueued "
        "NCCL work: 14, last completed NCCL work: 11.",
    ),
    positive(
        ABSENT,
        "barrier of init_process_group",
        "RuntimeError: Timed out initializing process group in store based barrier on rank: 1, for key: "
        "store_based_barrier_key:1 (world_size=8, worker_count=7, timeout=0:30:00)",
    ),
    positive(
        ABSENT,
        "the report of c10d about a rank without any collective",
        "[rank0]:[E1129 12:00:00.000000000 ProcessGroupNCCL.cpp:684] [Rank 0] \n\t - To our best knowledge, ranks [3] are the "
        "lagging ranks that caused this timeout. They never joined any collectives",
        "established",
    ),
    positive(
        ABSENT,
        "the monitor of the watchdog",
        "[rank25]:[E ProcessGroupNCCL.cpp:1316] [PG 0 Rank 25] Heartbeat monitor timed out! Process will be terminated after "
        "dumping debug info. workMetaList_.size()=2",
        "possible",
    ),
    positive(
        ABSENT,
        "gloo",
        "RuntimeError: [../third_party/gloo/gloo/transport/tcp/unbound_buffer.cc:81] Timed out waiting 1800000ms for recv "
        "operation to complete",
    ),
    negative(
        ABSENT,
        "another rank raised first",
        "\n".join(
            [
                "[rank1]: Traceback (most recent call last):",
                '[rank1]:   File "/home/me/train.py", line 20, in <module>',
                "[rank1]:     labels = batch['labels']",
                "[rank1]: KeyError: 'labels'",
                watchdog(0, 7),
            ]
        ),
    ),
    # -- collective-desync
    positive(DESYNC, "other sequence numbers", f"{watchdog(0, 96120)}\n{watchdog(7, 64088)}", "likely"),
    positive(DESYNC, "other operations", f"{watchdog(0, 52)}\n{watchdog(1, 52, 'BROADCAST')}"),
    positive(DESYNC, "other sizes", f"{watchdog(0, 52)}\n{watchdog(1, 52, elements=1)}"),
    positive(
        DESYNC,
        "the debug wrapper",
        "RuntimeError: Detected mismatch between collectives on ranks. Rank 0 is running collective: "
        "CollectiveFingerPrint(SequenceNumber=12, OpType=ALLREDUCE, TensorShape=[10]), but Rank 1 is running collective: "
        "CollectiveFingerPrint(SequenceNumber=12, OpType=ALLGATHER, TensorShape=[10]).",
        "established",
    ),
    positive(
        DESYNC,
        "gloo, another size",
        "RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:446] op.preamble.length <= op.nbytes. 8192 vs 4096",
    ),
    positive(
        DESYNC,
        "the report of c10d shows two operations under one number",
        f"{watchdog(1, 3)}\n{desync_report(UNFINISHED, '#3 started ranks:', '  [1] ALLREDUCE', '  [0] BROADCAST')}",
        "established",
    ),
    positive(DESYNC, "the report of c10d, cut", desync_report(UNFINISHED), "likely"),
    negative(
        DESYNC,
        "the report of c10d names a rank that did not come",
        f"{watchdog(1, 3)}\n{desync_report(BEHIND, '#2 finished ranks:', '  [0] ALLREDUCE', '#3 started ranks:', '  [1] ALLREDUCE')}",
        instead=ABSENT,
    ),
    positive(
        DESYNC,
        "DeepSpeed compares what the ranks gather",
        "[rank3]: RuntimeError: disagreement between rank0 and rank3: rank0: [12, 13], rank3: [12, 15]",
        "established",
    ),
    negative(DESYNC, "one rank alone", watchdog(0, 52), instead=ABSENT),
    negative(DESYNC, "the same collective", f"{watchdog(0, 52)}\n{watchdog(1, 52)}", instead=ABSENT),
    # -- uneven-batches-at-epoch-end
    positive(UNEVEN, "all-to-all", watchdog(7, 4486, "ALLTOALL_BASE"), "possible"),
    positive(
        UNEVEN, "join", "RuntimeError: Detected at least one rank that exhausted inputs. Throwing across all ranks."
    ),
    negative(UNEVEN, "all-reduce", watchdog(7, 4486), instead=ABSENT),
    # -- debug-detail-barrier-false-positive
    positive(
        BARRIER,
        "both are barriers",
        "RuntimeError: Detected mismatch between collectives on ranks. Rank 1 is running collective: "
        "CollectiveFingerPrint(SequenceNumber=3OpType=BARRIER), but Rank 0 is running collective: "
        "CollectiveFingerPrint(SequenceNumber=1OpType=BARRIER).Collectives differ in the following aspects: Sequence number: 3vs 1",
    ),
    negative(
        BARRIER,
        "one is not",
        "RuntimeError: Detected mismatch between collectives on ranks. Rank 1 is running collective: "
        "CollectiveFingerPrint(SequenceNumber=3OpType=BARRIER), but Rank 0 is running collective: "
        "CollectiveFingerPrint(SequenceNumber=3, OpType=ALLREDUCE, TensorShape=[1]).",
        instead=DESYNC,
    ),
    # -- duplicate-gpu-assignment
    positive(
        DUPLICATE,
        "NCCL's last error",
        """
        [rank1]: torch.distributed.DistBackendError: NCCL error in: ../torch/csrc/distributed/c10d/NCCLUtils.hpp:268, invalid usage (run with NCCL_DEBUG=WARN for details), NCCL version 2.20.5
        [rank1]: ncclInvalidUsage: This usually reflects invalid usage of NCCL library.
        [rank1]: Last error:
        [rank1]: Duplicate GPU detected : rank 1 and rank 0 both on CUDA device 1000
        """,
        "established",
    ),
    positive(
        DUPLICATE,
        "NCCL's own log",
        "node1:4211:4300 [0] init.cc:943 NCCL WARN Duplicate GPU detected : rank 5 and rank 4 both on CUDA device 4f000",
    ),
    negative(
        DUPLICATE,
        "slices of one card",
        """
        torch.distributed.DistBackendError: NCCL error in: NCCLUtils.hpp:268, invalid usage, NCCL version 2.21.5
        ncclInvalidUsage: This usually reflects invalid usage of NCCL library.
        Last error:
        Duplicate GPU detected : rank 1 and rank 0 both on CUDA device 1000 (MIG 3g.20gb)
        """,
        instead=SLICES,
    ),
    # -- mig-device-ordinal
    positive(
        ORDINAL,
        "torch's assertion",
        'RuntimeError: device >= 0 && device < num_gpus INTERNAL ASSERT FAILED at "../aten/src/ATen/cuda/CUDAContext.cpp":49, '
        "please report a bug to PyTorch. device=1, num_gpus=1",
    ),
    negative(
        ORDINAL,
        "several devices are visible",
        'RuntimeError: device >= 0 && device < num_gpus INTERNAL ASSERT FAILED at "../aten/src/ATen/cuda/CUDAContext.cpp":49, '
        "please report a bug to PyTorch. device=4, num_gpus=4",
    ),
    # -- nccl-on-mig-slices
    positive(
        SLICES,
        "the launcher names the slices",
        """
        RuntimeError: NCCL failed with CUDA_VISIBLE_DEVICES=MIG-7a1c6f0e-0001: Duplicate GPU detected : rank 1 and rank 0 both on CUDA device 6000
        """,
    ),
    negative(
        SLICES,
        "whole cards",
        "Duplicate GPU detected : rank 1 and rank 0 both on CUDA device 6000",
        instead=DUPLICATE,
    ),
    # -- master-port-in-use
    positive(
        PORT,
        "torch 2.5",
        "torch.distributed.DistNetworkError: The server socket has failed to listen on any local network address. port: 29500, "
        "useIpv6: false, code: -98, name: EADDRINUSE, message: address already in use",
        "established",
    ),
    positive(
        PORT,
        "warning of an older torch",
        "[W socket.cpp:436] [c10d] The server socket has failed to bind to [::]:29500 (errno: 98 - Address already in use).",
    ),
    positive(
        PORT,
        "accelerate",
        "ConnectionError: Tried to launch distributed communication on port `29500`, but another process is utilizing it. Please "
        "specify a different port (such as using the `--main_process_port` flag or specifying a different `main_process_port` in "
        "your config file) and rerun your script.",
    ),
    negative(
        PORT,
        "another server",
        """
        Traceback (most recent call last):
          File "/home/me/serve.py", line 9, in <module>
            app.run(port=8000)
          File "/usr/lib/python3.11/socketserver.py", line 473, in server_bind
            self.socket.bind(self.server_address)
        OSError: [Errno 98] Address already in use
        """,
    ),
    negative(
        PORT,
        "another error of the socket",
        "torch.distributed.DistNetworkError: The server socket has failed to listen on any local network address. port: 80, "
        "useIpv6: false, code: -13, name: EACCES, message: permission denied",
    ),
    # -- rendezvous-host-mismatch
    positive(
        RENDEZVOUS,
        "torchrun",
        "torch.distributed.elastic.rendezvous.api.RendezvousConnectionError: The connection to the C10d store has failed. See "
        "inner exception for details.",
        "established",
    ),
    positive(
        RENDEZVOUS,
        "nobody came",
        "torch.distributed.DistStoreError: Timed out after 1801 seconds waiting for clients. 1/2 clients joined.",
    ),
    negative(
        RENDEZVOUS,
        "the port is taken",
        "[E socket.cpp:481] [c10d] The server socket has failed to listen on any local network address. port: 29400, useIpv6: "
        "false, code: -98, name: EADDRINUSE, message: address already in use\n"
        "torch.distributed.elastic.rendezvous.api.RendezvousConnectionError: The connection to the C10d store has failed. See "
        "inner exception for details.",
        instead=PORT,
    ),
    # -- container-shared-memory-too-small
    positive(
        SHARED,
        "newer NCCL",
        "box:1:1 [0] misc/shmutils.cc:72 NCCL WARN Error: failed to extend /dev/shm/nccl-H1dBqY to 9637892 bytes",
    ),
    positive(
        SHARED,
        "older NCCL",
        "box:11:80 [1] include/shm.h:28 NCCL WARN Call to posix_fallocate failed : No space left on device",
    ),
    positive(
        SHARED,
        "workers of a loader",
        "RuntimeError: DataLoader worker (pid 4123) is killed by signal: Bus error. It is possible that dataloader's workers "
        "are out of shared memory. Please try to raise your shared memory limit.",
    ),
    negative(
        SHARED,
        "the network",
        "RuntimeError: NCCL error in: ProcessGroupNCCL.cpp:911, unhandled system error, NCCL version 2.14.3\n"
        "ncclSystemError: System call (socket, malloc, munmap, etc) failed.\n"
        "Last error:\nsocketStartConnect: Connect to 172.17.0.3<40041> failed : Connection refused",
        instead=INTERFACE,
    ),
    # -- nccl-wrong-network-interface
    positive(
        INTERFACE,
        "no interface",
        "RuntimeError: NCCL error in: ProcessGroupNCCL.cpp:1191, internal error, NCCL version 2.18.1\n"
        "ncclInternalError: Internal check failed.\nLast error:\nBootstrap : no socket interface found",
    ),
    positive(
        INTERFACE,
        "gloo",
        "RuntimeError: [enforce fail at ../third_party/gloo/gloo/transport/tcp/device.cc:83] ifa != nullptr. Unable to find "
        "address for: eth0",
    ),
    positive(
        INTERFACE,
        "a bridge of the container",
        "ncclSystemError: System call (e.g. socket, malloc) or external library call failed or device error.\nLast error:\n"
        "socketStartConnect: Connect to 172.17.0.1<54321> failed : Software caused connection abort",
        "established",
    ),
    negative(
        INTERFACE,
        "NCCL's chosen interface",
        "node1:1:1 [0] NCCL INFO Bootstrap : Using eth0:10.0.0.4<0>\nnode1:1:1 [0] NCCL INFO NET/Socket : Using [0]eth0:10.0.0.4<0>",
    ),
)
