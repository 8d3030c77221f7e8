"""The failure that stands first is the likeliest root; the others follow from it, sum up, advise or warn."""

from pathlib import Path

import pytest
from reading import RECORDED, exceptions, log_of, prefixed, recorded, root

from trueup.logs import read
from trueup.schema.log import Log

OUT_OF_MEMORY = """\
Traceback (most recent call last):
  File "/job/train.py", line 9, in <module>
    loss.backward()
torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.
"""
LOST_PEER = """\
Traceback (most recent call last):
  File "/job/train.py", line 8, in <module>
    dist.barrier()
torch.distributed.DistBackendError: NCCL error in: NCCLUtils.hpp:317, remote process exited, NCCL 2.21.5
ncclRemoteError: A call failed possibly due to a network error or a remote process exiting prematurely.
Last error:
socketProgress: Connection closed by remote peer node2<192.0.2.7>
"""
WATCHDOG = (
    "[rank{rank}]:[E105 10:{minute:02d}:08.408271257 ProcessGroupNCCL.cpp:607] [Rank {rank}] Watchdog caught "
    "collective operation timeout: WorkNCCL(SeqNum={sequence}, OpType=ALLREDUCE, NumelIn=4, NumelOut=4, "
    "Timeout(ms)=600000) ran for 600060 milliseconds before timing out.\n"
)


def roles(log: Log) -> set[tuple[str | None, str]]:
    return {(failure.type, failure.role) for failure in log.failures}


@pytest.mark.parametrize("name", ["torchrun_exception.txt", "torchrun_tee.txt", "torchrun_log_dir"])
def test_the_rank_that_raised_and_not_the_one_that_lost_it(name: str) -> None:
    log = recorded(name)
    failure = root(log)
    assert (failure.type, failure.message, failure.rank) == ("ValueError", "labels of batch 7 are empty", 1)
    assert [(other.type, other.rank, other.role) for other in exceptions(log)[1:]] == [("RuntimeError", 0, "cascade")]
    assert log.ranks == (0, 1)


def test_the_summary_of_torchrun_names_ranks_exits_and_hosts() -> None:
    log = recorded("torchrun_exception.txt")
    assert log.world_size == 2
    workers = {f.rank: f for f in log.failures if f.kind == "launcher" and f.rank is not None}
    assert (workers[1].type, workers[1].role, workers[1].host) == ("exit 1", "summary", "localhost")
    assert (workers[0].type, workers[0].role) == ("SIGTERM", "cascade")
    assert workers[1].time is not None


def test_a_killed_rank_is_known_from_the_summary_only() -> None:
    log = recorded("torchrun_sigkill.txt")
    assert (root(log).kind, root(log).type, root(log).rank, root(log).role) == ("killed", "SIGKILL", 1, "root")
    assert [(failure.rank, failure.role) for failure in exceptions(log)] == [(0, "cascade")]


@pytest.mark.parametrize("name", ["torchrun_recorded.txt", "torchrun_error_file"])
def test_what_a_worker_recorded_of_itself(name: str) -> None:
    failure = root(recorded(name))
    assert (failure.type, failure.rank) == ("ValueError", 0)
    assert failure.frames[-1].function == "main"
    assert failure.time is not None


def test_ranks_that_waited_are_cascade_wherever_they_stand() -> None:
    text = prefixed("[rank0]: ", LOST_PEER) + prefixed("[rank5]: ", OUT_OF_MEMORY)
    log = log_of(text)
    assert (root(log).type, root(log).rank) == ("torch.OutOfMemoryError", 5)
    assert roles(log) == {
        ("torch.OutOfMemoryError", "root"),
        ("torch.distributed.DistBackendError", "cascade"),
    }


def test_a_watchdog_after_an_exception_is_cascade() -> None:
    watchdogs = "".join(WATCHDOG.format(rank=rank, minute=20, sequence=9) for rank in (0, 1))
    log = log_of(watchdogs + prefixed("[rank2]: ", OUT_OF_MEMORY))
    assert root(log).rank == 2
    assert {failure.role for failure in log.failures if failure.kind == "collective"} == {"cascade"}


def test_watchdogs_alone_are_what_is_known() -> None:
    log = log_of("".join(WATCHDOG.format(rank=r, minute=20 - r, sequence=9 + r) for r in range(3)))
    assert [failure.kind for failure in log.failures] == ["collective"] * 3
    assert root(log).role == "root"
    assert root(log).rank == 2, "the watchdog that fired first by its time"
    assert {failure.rank for failure in log.failures} == {0, 1, 2}
    assert len({failure.message for failure in log.failures}) == 3, "sequence numbers tell the ranks apart"


def test_time_decides_between_files_of_a_folder(tmp_path: Path) -> None:
    late = prefixed("2026-01-05T10:00:09Z ", OUT_OF_MEMORY)
    early = prefixed("2026-01-05T10:00:01Z ", OUT_OF_MEMORY.replace("OutOfMemoryError", "AcceleratorError"))
    (tmp_path / "rank_0.log").write_text(late)
    (tmp_path / "rank_1.log").write_text(early)
    log = read(tmp_path)
    assert (root(log).type, root(log).rank) == ("torch.AcceleratorError", 1)


def test_warnings_and_advice_are_never_first() -> None:
    text = (
        "W0105 10:00:00.000000 77 torch/_dynamo/convert_frame.py:906] torch._dynamo hit config.recompile_limit (8)\n"
        "/job/train.py:3: UserWarning: the mask is ignored\n"
        "For debugging consider passing CUDA_LAUNCH_BLOCKING=1\n"
        "Traceback (most recent call last):\n"
        '  File "/job/train.py", line 9, in <module>\n'
        "KeyError: 'loss'\n"
    )
    log = log_of(text)
    assert root(log).type == "KeyError"
    assert [failure.role for failure in log.failures[1:]] == ["warning", "warning", "advice"]


def test_a_wrapper_around_a_compiler_is_a_summary() -> None:
    text = """\
FAILED: flash_fwd.o
kernel.cu(12): error: identifier "cute" is undefined
ninja: build stopped: subcommand failed.
Traceback (most recent call last):
  File "/opt/venv/lib/python3.11/site-packages/torch/utils/cpp_extension.py", line 2100, in _run_ninja_build
    subprocess.run(
subprocess.CalledProcessError: Command '['ninja', '-v']' returned non-zero exit status 1.

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "setup.py", line 9, in <module>
    setup()
RuntimeError: Error compiling objects for extension
"""
    log = log_of(text)
    assert (root(log).kind, root(log).type) == ("build", "compiler")
    assert [failure.role for failure in exceptions(log)] == ["summary"]


def test_a_device_assertion_before_the_error_that_reports_it() -> None:
    text = (
        "/pytorch/aten/src/ATen/native/cuda/Indexing.cu:1290: indexSelectLargeIndex: block: [3,0,0], thread: [7,0,0] "
        "Assertion `srcIndex < srcSelectDimSize` failed.\n"
        * 3
        + "RuntimeError: CUDA error: device-side assert triggered\n"
        + "CUDA kernel errors might be asynchronously reported at some other API call.\n"
    )
    log = log_of(text.replace("`srcIndex < srcSelectDimSize`", "`srcIndex < srcSelectDimSize'"))
    assert (root(log).type, root(log).count) == ("assertion", 3)
    (failure,) = exceptions(log)
    assert (failure.role, failure.asynchronous) == ("cascade", True)


def test_a_handled_failure_before_much_progress_is_not_the_root() -> None:
    handled = 'Traceback (most recent call last):\n  File "/job/data.py", line 2, in fetch\nTimeoutError: slow disk\n'
    steps = "".join(f"step {step} loss 0.1\n" for step in range(3000))
    log = log_of(handled + steps + OUT_OF_MEMORY)
    assert root(log).type == "torch.OutOfMemoryError"
    assert root(log_of(handled + OUT_OF_MEMORY)).type == "TimeoutError"


def test_a_summary_that_another_agent_cuts_short() -> None:
    lines = (RECORDED / "torchrun_exception.txt").read_text().splitlines(keepends=True)
    start = next(at for at, line in enumerate(lines) if line.startswith("torch.distributed.elastic"))
    log = log_of("".join(lines[start:-1]) + "".join(lines[start:]))
    assert {failure.rank for failure in log.failures if failure.place == "root cause"} == {1}
