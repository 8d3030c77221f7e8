"""Tracebacks of every make, mostly printed by real programs in this test or recorded once."""

import subprocess
import sys
from pathlib import Path

import pytest
from reading import TRACEBACK, exceptions, log_of, place, recorded, root


def output(code: str, folder: Path, *options: str) -> str:
    """What a Python program prints."""
    (folder / "job.py").write_text(code)
    done = subprocess.run(
        [sys.executable, *options, "job.py"], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60
    )
    return done.stdout.decode()


def test_chained_causes_innermost_last(tmp_path: Path) -> None:
    code = """
def a(): raise KeyError("w")
def b():
    try: a()
    except KeyError as e: raise ValueError("no w") from e
def c():
    try: b()
    except ValueError: raise RuntimeError("while loading")
c()
"""
    (failure,) = log_of(output(code, tmp_path)).failures
    assert (failure.type, failure.message) == ("RuntimeError", "while loading")
    assert [(cause.type, cause.message) for cause in failure.causes] == [("ValueError", "no w"), ("KeyError", "'w'")]
    assert failure.causes[-1].frames[-1].function == "a"
    assert failure.frames[-1].function == "c"


@pytest.mark.skipif(sys.version_info < (3, 11), reason="exception groups are new in Python 3.11")
def test_members_of_a_group_are_its_causes(tmp_path: Path) -> None:
    code = """
def f(x): raise x
def g():
    found = []
    for x in (ValueError(1), ExceptionGroup("inner", [TypeError("t")])):
        try: f(x)
        except Exception as e: found.append(e)
    raise ExceptionGroup("several", found)
g()
"""
    (failure,) = log_of(output(code, tmp_path)).failures
    assert failure.type == "ExceptionGroup"
    assert [cause.type for cause in failure.causes] == ["ValueError", "ExceptionGroup", "TypeError"]
    assert failure.causes[0].frames[-1].function == "f"


def test_a_syntax_error_has_its_line(tmp_path: Path) -> None:
    failure = root(log_of(output("def f(:\n    pass\n", tmp_path)))
    assert failure.type == "SyntaxError"
    assert (failure.frames[-1].line, failure.frames[-1].code) == (1, "def f(:")


def test_repeated_frames(tmp_path: Path) -> None:
    (failure,) = log_of(output("def f(n): return f(n + 1)\nf(0)\n", tmp_path)).failures
    assert failure.type == "RecursionError"
    assert len(failure.frames) == 4


@pytest.mark.parametrize("pool", ["multiprocessing.Pool(1)", "concurrent.futures.ProcessPoolExecutor(1)"])
def test_the_traceback_of_another_process_is_the_cause(pool: str, tmp_path: Path) -> None:
    code = f"""
import concurrent.futures, multiprocessing
def divide(x): return 1 / x
if __name__ == "__main__":
    with {pool} as pool: list(pool.map(divide, [0]))
"""
    (failure,) = log_of(output(code, tmp_path)).failures
    assert failure.type == "ZeroDivisionError"
    (cause,) = failure.causes
    assert (cause.type, cause.frames[-1].function) == ("ZeroDivisionError", "divide")


def test_threads_ignored_exceptions_and_warnings(tmp_path: Path) -> None:
    code = """
import threading, warnings
def divide(x): return 1 / x
warnings.warn("the scheduler comes first", UserWarning)
thread = threading.Thread(target=divide, args=(0,)); thread.start(); thread.join()
class Late:
    def __del__(self): raise OSError("too late")
late = Late(); del late
"""
    log = log_of(output(code, tmp_path))
    assert (root(log).type, root(log).role) == ("ZeroDivisionError", "root")
    (late,) = [failure for failure in log.failures if failure.type == "OSError"]
    assert late.role == "warning"
    (warning,) = [failure for failure in log.failures if failure.type == "UserWarning"]
    assert (warning.kind, warning.role, warning.message) == ("message", "warning", "the scheduler comes first")
    assert warning.frames[0].line == 4
    assert (warning.frames[0].code or "").startswith("warnings.warn(")


def test_faulthandler_gives_the_frames_of_the_crashed_thread(tmp_path: Path) -> None:
    code = "import ctypes\ndef crash(): ctypes.string_at(0)\ncrash()\n"
    failure = root(log_of(output(code, tmp_path, "-X", "faulthandler")))
    assert (failure.kind, failure.type) == ("native", "Segmentation fault")
    assert [frame.function for frame in failure.frames][:2] == ["<module>", "crash"]


def test_notes_belong_to_the_message(tmp_path: Path) -> None:
    if sys.version_info < (3, 11):
        pytest.skip("notes are new in Python 3.11")
    code = 'e = ValueError("x"); e.add_note("while reading shard a"); raise e'
    assert root(log_of(output(code, tmp_path))).message == "x\nwhile reading shard a"


@pytest.mark.parametrize(
    ("name", "type", "function"),
    [
        ("ipython.txt", "ZeroDivisionError", "inner"),
        ("loguru.txt", "ZeroDivisionError", "inner"),
        ("rich_logging.txt", "ZeroDivisionError", "inner"),
    ],
)
def test_tracebacks_of_other_printers(name: str, type: str, function: str) -> None:
    (failure,) = exceptions(recorded(name))
    assert (failure.type, failure.message) == (type, "division by zero")
    assert (failure.frames[-1].function, failure.frames[-1].line) == (function, 2)
    assert failure.frames[-1].code == "return 1 / x"


def test_a_chain_in_boxes() -> None:
    (failure,) = recorded("rich.txt").failures
    assert (failure.type, failure.message) == ("ValueError", "bad batch")
    (cause,) = failure.causes
    assert cause.type == "ZeroDivisionError"
    assert [frame.function for frame in cause.frames] == ["<module>", "outer", "inner"]


def test_ray_names_the_exception_of_its_worker() -> None:
    failure = root(recorded("ray.txt"))
    assert failure.type == "ray.exceptions.RayTaskError(ZeroDivisionError)"
    (cause,) = failure.causes
    assert (cause.type, place(cause)) == ("ZeroDivisionError", ("/job/rayjob.py", 6, "step"))


def test_the_worker_of_a_data_loader_is_the_cause() -> None:
    failure = root(recorded("data_loader.txt"))
    assert failure.message == "Caught IndexError in DataLoader worker process 0."
    (cause,) = failure.causes
    assert (cause.type, cause.message) == ("IndexError", "list index out of range")
    assert cause.frames[-1].function == "__getitem__"


def test_a_spawned_process_is_the_cause() -> None:
    (failure,) = recorded("torch_spawn.txt").failures
    assert failure.type == "torch.multiprocessing.spawn.ProcessRaisedException"
    assert [(cause.type, cause.message) for cause in failure.causes] == [("ValueError", "in spawned")]


def test_dynamo_quotes_the_users_code() -> None:
    failure = root(recorded("dynamo_unsupported.txt"))
    assert failure.type == "torch._dynamo.exc.Unsupported"
    assert "Explanation: Dynamo does not know how to trace builtin operator `print`" in failure.message
    assert "gb0059.html" in failure.message
    assert "TORCHDYNAMO_VERBOSE" not in failure.message
    (frame,) = failure.user_frames
    assert (frame.file, frame.line, frame.code) == ("/job/dyn.py", 7, 'print("hi")')


def test_the_backend_raised_something() -> None:
    log = recorded("dynamo_backend.txt")
    assert root(log).type == "torch._dynamo.exc.BackendCompilerFailed"
    assert [(cause.type, cause.message) for cause in root(log).causes] == [("RuntimeError", "no kernel for this")]
    assert [failure.role for failure in log.failures[1:]] == ["advice"]


def test_a_log_that_begins_inside_a_traceback() -> None:
    failure = root(log_of("".join(TRACEBACK.splitlines(keepends=True)[3:])))
    assert (failure.type, len(failure.frames)) == ("ValueError", 1)


def test_a_log_that_ends_inside_a_traceback() -> None:
    (failure,) = log_of("".join(TRACEBACK.splitlines(keepends=True)[:-1])).failures
    assert (failure.type, failure.message, len(failure.frames)) == (None, "", 2)


def test_an_exception_without_frames() -> None:
    (failure,) = log_of("RuntimeError: FlashAttention only support fp16 and bf16 data type\n").failures
    assert (failure.kind, failure.role, failure.type) == ("exception", "root", "RuntimeError")
    assert failure.printed == "RuntimeError: FlashAttention only support fp16 and bf16 data type"


def test_c_plus_plus_frames_are_no_part_of_the_message() -> None:
    text = """\
RuntimeError: CUDA error: an illegal memory access was encountered
CUDA kernel errors might be asynchronously reported at some other API call, so the stacktrace below might be incorrect.
For debugging consider passing CUDA_LAUNCH_BLOCKING=1
Compile with `TORCH_USE_CUDA_DSA` to enable device-side assertions.

Exception raised from c10_cuda_check_implementation at /pytorch/c10/cuda/CUDAException.cpp:43 (most recent call first):
frame #0: c10::Error::Error(c10::SourceLocation, std::string) + 0x80 (0x7f1 in /opt/venv/torch/lib/libc10.so)
frame #1: <unknown function> + 0x1e2b (0x7f2 in /opt/venv/torch/lib/libtorch_cuda.so)

"""
    log = log_of(text)
    failure = root(log)
    assert failure.message.startswith("CUDA error: an illegal memory access was encountered")
    assert "CUDA_LAUNCH_BLOCKING" not in failure.message
    assert failure.asynchronous
    assert [frame.file.rpartition("/")[2] for frame in failure.native_frames] == ["libtorch_cuda.so", "libc10.so"]
    advice = [other for other in log.failures if other.role == "advice"]
    assert len(advice) == 3


def test_a_message_of_several_lines() -> None:
    text = "RuntimeError:\n      The detected CUDA version (12.2) mismatches\n      PyTorch (11.7). Please make sure\n"
    (failure,) = log_of(text).failures
    said = " ".join(failure.message.split())
    assert said == "The detected CUDA version (12.2) mismatches PyTorch (11.7). Please make sure"


def test_metrics_behind_an_exception_are_not_its_message() -> None:
    failure = root(log_of(TRACEBACK + "step 3 loss 0.1\n" + "2026-01-05 10:00:00 INFO trainer: resumed\n"))
    assert failure.message == "labels of batch 7 are empty"
