"""Whatever stands in front of the lines, the same traceback is read, and what the prefix tells is used."""

import json

import pytest
from reading import TRACEBACK, exceptions, log_of, place, prefixed, root

from trueup.logs.prefixes import split

INNERMOST = ("/job/train.py", 10, "main")


@pytest.mark.parametrize(
    ("prefix", "rank", "host", "time"),
    [
        ("", None, None, None),
        ("[rank3]: ", 3, None, None),
        ("[default3]:", 3, None, None),
        ("[default3]:[rank11]: ", 11, None, None),
        ("[3]:", 3, None, None),
        ("3: ", 3, None, None),
        (" 13: ", 13, None, None),
        ("[1,3]<stderr>:", 3, None, None),
        ("Rank 3: ", 3, None, None),
        ("(RayTrainWorker pid=123, ip=192.0.2.7) ", None, "192.0.2.7", None),
        ("\x1b[36m(RayTrainWorker pid=123, ip=192.0.2.7)\x1b[0m ", None, "192.0.2.7", None),
        ("(EngineCore_0 pid=77) ERROR 11-29 14:55:27 [core.py:123] ", None, None, "11-29 14:55:27"),
        ("worker-3: ", None, "worker-3", None),
        ("worker-3: [rank3]: ", 3, "worker-3", None),
        ("192.0.2.7: ", None, "192.0.2.7", None),
        ("trainer-1  | ", None, None, None),
        ("[pod/llama-worker-3/pytorch] ", None, "llama-worker-3/pytorch", None),
        ("2026-01-05T10:00:00.123456789Z stderr F ", None, None, "2026-01-05T10:00:00.123456789Z"),
        ("2026-01-05T10:00:00.123456789Z ", None, None, "2026-01-05T10:00:00.123456789Z"),
        ("2026-01-05 10:00:00,123 ERROR ", None, None, "2026-01-05 10:00:00,123"),
        ("[2026-01-05 10:00:00,123] [ERROR] [engine.py:12:step] ", None, None, "2026-01-05 10:00:00,123"),
        ("Jan  5 10:00:00 node7 python[123]: ", None, "node7", "Jan  5 10:00:00"),
        ("E0105 10:00:00.123000 77 torch/_dynamo/utils.py:12] [rank3]:", 3, None, "0105 10:00:00.123000"),
        ("(RayWorkerVllm pid=7602) ERROR 04-07 00:57:46 ray_utils.py:45] ", None, None, "04-07 00:57:46"),
        ("node-3.nolog [stderr] [rank3]: ", 3, None, None),
        ("[80746] [rank3]: ", 3, None, None),
        ("> ", None, None, None),
        ("        ", None, None, None),
        ("\t", None, None, None),
        ("E   ", None, None, None),
    ],
)
def test_a_traceback_behind_a_prefix(prefix: str, rank: int | None, host: str | None, time: str | None) -> None:
    failure = root(log_of(prefixed(prefix)))
    assert (failure.kind, failure.type, failure.message) == (
        "exception",
        "ValueError",
        "labels of batch 7 are empty",
    )
    assert place(failure) == INNERMOST
    assert [frame.code for frame in failure.frames] == ["main()", "step(3)"]
    assert (failure.rank, failure.host, failure.time) == (rank, host, time)
    assert (failure.first_line, failure.last_line) == (1, 6)


@pytest.mark.parametrize(
    ("line", "level", "place", "text"),
    [
        ("W1129 14:55:27.881000 2160 torch/_dynamo/a.py:9] [0/8] hit", "WARNING", "torch/_dynamo/a.py:9", "[0/8] hit"),
        ("[W socket.cpp:426] [c10d] The server socket", "WARNING", "socket.cpp:426", "The server socket"),
        ("[E321 02:07:08.408 ProcessGroupNCCL.cpp:607] slow", "ERROR", "ProcessGroupNCCL.cpp:607", "slow"),
        ("[WARNING|trainer.py:21] 2026-01-05 10:00:00,123 >> slow", "WARNING", "trainer.py:21", "slow"),
        ("[2026-01-05 10:00:00,123] torch._dynamo: [WARNING]    slow", "WARNING", "torch._dynamo", "   slow"),
        ("torch._dynamo.convert_frame: [WARNING] hit", "WARNING", "torch._dynamo.convert_frame", "hit"),
        ("WARNING 01-05 10:00:00 [config.py:12] slow", "WARNING", "config.py:12", "slow"),
        ("WARNING:root:slow", "WARNING", "root", "slow"),
        ("01/05/2026 10:00:00 - WARNING - __main__ - slow", "WARNING", "__main__", "slow"),
        ("2026-01-05 10:00:00,123 - accelerate.state - WARNING - slow", "WARNING", "accelerate.state", "slow"),
        ("2026-01-05 10:00:00.123 | ERROR    | app.main:run:12 - slow", "ERROR", "app.main:run:12", "slow"),
        ("2026-01-05 10:00:00.123456: W tensorflow/core/a.cc:12] slow", "WARNING", "tensorflow/core/a.cc:12", "slow"),
        ("torch/_dynamo/guards.py:2997] [0/6] slow", None, "torch/_dynamo/guards.py:2997", "[0/6] slow"),
        ("ERROR: No matching distribution found", "ERROR", None, "No matching distribution found"),
        ("n1:77:99 [3] transport/net_ib.cc:12 NCCL WARN slow", None, "transport/net_ib.cc:12", "NCCL WARN slow"),
    ],
)
def test_level_and_place(line: str, level: str | None, place: str | None, text: str) -> None:
    prefix = split(line)
    assert (prefix.level, prefix.place, prefix.text) == (level, place, text)


@pytest.mark.parametrize(
    "line",
    [
        "ValueError: labels are empty",
        "torch.OutOfMemoryError: CUDA out of memory",
        '  File "/job/train.py", line 12, in <module>',
        "nvcc fatal   : Unsupported gpu architecture 'compute_120'",
        "error: command '/usr/bin/g++' failed with exit code 1",
        "python3: can't open file 'train.py'",
        "a.cpp:1:20: error: x was not declared in this scope",
        "ncclInvalidUsage: This usually reflects invalid usage of NCCL library.",
    ],
)
def test_what_is_no_prefix_stays(line: str) -> None:
    assert split(line).text == line


def test_a_word_before_a_colon_is_a_machine_only_when_lines_agree() -> None:
    log = log_of("layer3: weights are missing, please check\n")
    assert root(log).host is None
    assert root(log).message == "layer3: weights are missing, please check"


def test_lines_of_docker_as_json() -> None:
    lines = [
        json.dumps({"log": line, "stream": "stderr", "time": f"2026-01-05T10:00:0{at}Z"})
        for at, line in enumerate(TRACEBACK.splitlines(keepends=True))
    ]
    failure = root(log_of("\n".join(lines) + "\n"))
    assert place(failure) == INNERMOST
    assert failure.time == "2026-01-05T10:00:00Z"


def test_a_traceback_inside_one_json_line() -> None:
    record = {
        "level": "error",
        "ts": "2026-01-05T10:00:00Z",
        "rank": 5,
        "msg": "training failed",
        "exc_info": TRACEBACK,
    }
    failure = root(log_of(json.dumps(record) + "\n"))
    assert (failure.type, failure.rank, failure.time) == ("ValueError", 5, "2026-01-05T10:00:00Z")
    assert place(failure) == INNERMOST


def test_a_traceback_inside_a_repr() -> None:
    wrapper = "subprocess.CalledProcessError: Command '['python']' returned non-zero exit status 1. output="
    log = log_of(wrapper + repr(TRACEBACK.encode()) + "\n")
    assert (root(log).type, root(log).message) == ("ValueError", "labels of batch 7 are empty")
    assert [(failure.type, failure.role) for failure in exceptions(log)][1:] == [
        ("subprocess.CalledProcessError", "summary")
    ]


def test_colours_progress_bars_and_carriage_returns() -> None:
    bar = "  1%|▏         | 1/100\r  2%|▎         | 2/100\r"
    log = log_of(bar + TRACEBACK.replace("ValueError", "\x1b[1;35mValueError\x1b[0m"))
    assert [failure.type for failure in log.failures] == ["ValueError"]


def test_fences_are_no_lines_of_the_job() -> None:
    log = log_of(f"```pytb\n{TRACEBACK}```\n")
    assert [failure.type for failure in log.failures] == ["ValueError"]
    assert root(log).message == "labels of batch 7 are empty"


def test_what_stands_behind_a_progress_bar_on_the_same_line() -> None:
    bar = "Epoch 0:   6%|██       | 32040/500150 [6:28:43<94:39:17,  1.37it/s, loss=2.6]"
    (failure,) = log_of(
        f"{bar}[E ProcessGroupNCCL.cpp:458] [Rank 7] Watchdog caught collective operation timeout\n"
    ).failures
    assert (failure.kind, failure.rank, failure.place) == ("collective", 7, "ProcessGroupNCCL.cpp:458")
    (failure,) = log_of(bar + TRACEBACK).failures
    assert place(failure) == INNERMOST
