"""Lines that name a failure by themselves, in the words of the programs that print them."""

import pytest
from reading import log_of, recorded, root

from trueup.logs import builds, collectives, launchers, messages, native
from trueup.logs.lines import Line
from trueup.logs.marks import Marks

ASSERTION = "Indexing.cu:1290: operator(): block: [3,0,0], thread: [7,0,0] Assertion `index < size' failed."
DUMP = "[Rank 3] Received a dump signal due to a collective timeout from this local rank"
ENTIRE = "To avoid data inconsistency, we are taking the entire process down."
NET_PLUGIN = "n1:7:9 [0] NCCL INFO NCCL WARN NET/Plugin: could not find libnccl-net.so"
RESOLVER = "pip's dependency resolver does not currently take into account all the packages that are installed."
PRESSURE = "4 Workers (tasks / actors) killed due to memory pressure (OOM)"

SAMPLES = [
    # native
    (
        "terminate called after throwing an instance of 'c10::DistBackendError'",
        "native",
        "root",
        "c10::DistBackendError",
    ),
    ("terminate called without an active exception", "native", "cascade", None),
    ("  what():  CUDA error: device kernel image is invalid", "native", "root", None),
    ("Out of memory: Killed process 4242 (python) total-vm:99kB", "killed", "root", "SIGKILL"),
    ("oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),task=python,pid=4242", "killed", "root", "SIGKILL"),
    ("slurmstepd: error: Detected 1 oom_kill event in StepId=77.0.", "killed", "root", "SIGKILL"),
    ("    Reason:       OOMKilled", "killed", "root", "SIGKILL"),
    ("srun: error: node7: task 3: Out Of Memory", "killed", "root", "SIGKILL"),
    (PRESSURE, "killed", "root", "SIGKILL"),
    (
        "slurmstepd: error: *** STEP 77.0 ON n7 CANCELLED AT 2026-01-05T10:00:00 DUE TO TIME LIMIT ***",
        "killed",
        "root",
        "TIME LIMIT",
    ),
    ("slurmstepd: error: *** JOB 77 ON n7 CANCELLED AT 2026-01-05T10:00:00 ***", "killed", "cascade", None),
    ("Killed", "killed", "root", "SIGKILL"),
    ("train.sh: line 3: 29252 Killed                  python train.py", "killed", "root", "SIGKILL"),
    (
        "train.sh: line 3: 29251 Segmentation fault      (core dumped) python train.py",
        "native",
        "root",
        "Segmentation fault",
    ),
    ("Segmentation fault (core dumped)", "native", "root", "Segmentation fault"),
    ("Bus error (core dumped)", "native", "root", "Bus error"),
    ("[n7:4242] *** Process received signal ***", "native", "root", None),
    ("[n7:4242] Signal: Segmentation fault (11)", "native", "root", "Segmentation fault"),
    ("Caught signal 11 (Segmentation fault: address not mapped)", "native", "root", "Segmentation fault"),
    ("!!!!!!! Segfault encountered !!!!!!!", "native", "root", None),
    ("double free or corruption (!prev)", "native", "root", "SIGABRT"),
    (
        "Unexpected bus error encountered in worker. This might be caused by insufficient shared memory (shm).",
        "native",
        "root",
        "SIGBUS",
    ),
    (ASSERTION, "native", "root", "assertion"),
    ("CUDA error: no kernel image is available for execution on the device", "native", "root", None),
    ("CUDNN_STATUS_EXECUTION_FAILED", "native", "root", None),
    ("NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.", "native", "root", "Xid"),
    # collective
    (DUMP, "collective", "cascade", None),
    (ENTIRE, "collective", "cascade", None),
    ("Process group watchdog thread terminated with exception: CUDA error", "collective", "cascade", None),
    ("[PG 0 Rank 3] Heartbeat monitor timed out! Process will be terminated", "collective", "cascade", None),
    ("n1:7:9 [0] net_ib.cc:12 NCCL WARN Call to ibv_reg_mr failed", "collective", "root", "NCCL WARN"),
    (
        "n1:7:9 [0] socket.cc:12 NCCL WARN socketProgress: Connection closed by remote peer",
        "collective",
        "cascade",
        "NCCL WARN",
    ),
    ("ncclInvalidUsage: This usually reflects invalid usage of NCCL library.", "collective", "root", None),
    ("ncclRemoteError: A call failed possibly due to a network error.", "collective", "cascade", None),
    ("NCCL 2.7.8 error, ncclSystemError: System call failed", "collective", "root", "NCCL error"),
    ("Duplicate GPU detected : rank 3 and rank 0 both on CUDA device 3000", "collective", "root", None),
    ("[pair.cc:553] Connection closed by peer [192.0.2.7]:28037", "collective", "cascade", None),
    (
        "The server socket has failed to bind to [::]:29500 (errno: 98 - Address already in use).",
        "collective",
        "root",
        "address in use",
    ),
    (
        "The client socket has timed out after 600s while trying to connect to (192.0.2.7, 29500).",
        "collective",
        "root",
        None,
    ),
    ("Rank 3 successfully reached monitoredBarrier, but received errors", "collective", "cascade", None),
    # launcher
    ("failed (exitcode: -9) local_rank: 3 (pid: 123) of binary: /opt/venv/bin/python", "launcher", "summary", "-9"),
    ("Sending process 123 closing signal SIGTERM", "launcher", "cascade", "SIGTERM"),
    ("Received Signals.SIGTERM death signal, shutting down workers", "launcher", "cascade", "SIGTERM"),
    ("['/opt/venv/bin/python', 'train.py'] exits with return code = -9", "launcher", "summary", "-9"),
    ("srun: error: node7: task 3: Exited with exit code 1", "launcher", "summary", None),
    (
        "mpirun noticed that process rank 3 with PID 0 on node n7 exited on signal 9 (Killed).",
        "launcher",
        "summary",
        None,
    ),
    ("=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES", "launcher", "summary", None),
    ("A worker died or was killed while executing a task by an unexpected system error.", "launcher", "summary", None),
    ("Back-off restarting failed container pytorch in pod worker-3", "launcher", "summary", None),
    ("    Exit Code:    137", "launcher", "summary", None),
    # build and loader
    ("python: symbol lookup error: libtorch.so: undefined symbol: foo", "loader", "root", None),
    ("libcudart.so.12: cannot open shared object file: No such file or directory", "loader", "root", None),
    ("/lib/libc.so.6: version `GLIBC_2.32' not found (required by /opt/venv/flash_attn.so)", "loader", "root", None),
    ("nvcc fatal   : Unsupported gpu architecture 'compute_120'", "build", "root", "ptxas or nvcc"),
    (
        "ptxas-blackwell fatal   : Value 'sm_110a' is not defined for option 'gpu-name'",
        "build",
        "root",
        "ptxas or nvcc",
    ),
    (
        "ptxas /tmp/a.ptx, line 77; error   : Feature '.bf16' requires .target sm_80 or higher",
        "build",
        "root",
        "ptxas or nvcc",
    ),
    ("/job/a.cpp:1:20: error: 'x' was not declared in this scope", "build", "root", "compiler"),
    ('/job/k.cu(12): error: identifier "x" is undefined', "build", "root", "compiler"),
    ("g++: error: unrecognized command-line option '-fopenmpx'", "build", "root", "compiler"),
    ("g++-11: fatal error: Killed signal terminated program cc1plus", "build", "root", "compiler"),
    ("/usr/bin/ld: cannot find -lcuda", "build", "root", "linker"),
    ("collect2: error: ld returned 1 exit status", "build", "summary", None),
    ("FAILED: flash_fwd_hdim128.o", "build", "summary", None),
    ("ninja: build stopped: subcommand failed.", "build", "summary", None),
    ("make: *** [Makefile:2: all] Error 1", "build", "summary", None),
    ("error: command '/usr/bin/g++' failed with exit code 1", "build", "summary", None),
    ("ERROR: Failed building wheel for flash-attn", "build", "summary", None),
    ("× python setup.py egg_info did not run successfully.", "build", "summary", None),
    ("× Failed to build `flash-attn==2.8.1`", "build", "summary", None),
    ("╰─▶ Call to `setuptools.build_meta.build_wheel` failed (exit status: 1)", "build", "summary", None),
    ("hint: This error likely indicates that `flash-attn@2.8.1` depends on `torch`", "build", "root", "hint"),
    (
        "ERROR: Cannot install a==1 and b==2 because these package versions have conflicting dependencies.",
        "build",
        "root",
        "resolution",
    ),
    ("ERROR: No matching distribution found for torch==9.9", "build", "root", "resolution"),
    (RESOLVER, "build", "warning", "conflict"),
    (
        "xformers 0.0.28 requires torch==2.5.0, but you have torch 2.6.0 which is incompatible.",
        "build",
        "warning",
        "conflict",
    ),
    ("PackagesNotFoundError: The following packages are not available", "exception", "root", "PackagesNotFoundError"),
    ("    Attempting uninstall: torch", "build", "warning", "uninstall"),
    ("CMake Error at CMakeLists.txt:3 (find_package):", "build", "root", None),
]


@pytest.mark.parametrize(("line", "kind", "role", "type"), SAMPLES)
def test_a_line_that_names_a_failure(line: str, kind: str, role: str, type: str | None) -> None:
    # In front of an independent failure, so that no role is raised for want of another.
    log = log_of(f"{line}\n\nTraceback (most recent call last):\n" + '  File "a.py", line 1, in f\nKeyError: 3\n')
    (failure,) = [each for each in log.failures if each.first_line == 1]
    assert (failure.kind, failure.role, failure.type) == (kind, role, type)


def test_lines_of_long_logs_are_looked_at_for_every_mark() -> None:
    """A line of a long log is read only when it has one of `WORDS`."""
    blind = [line for line, *_ in SAMPLES if not messages.is_notice(line)]
    assert blind == []


def test_every_mark_has_a_sample() -> None:
    marks = (*builds.MARKS, *collectives.MARKS, *native.MARKS, *launchers.MARKS)
    met = {id(found[1]) for line, *_ in SAMPLES if (found := Marks(*marks).first(Line(1, line)))}
    unmet = [each.pattern.pattern for each in marks if id(each) not in met]
    assert len(unmet) < len(marks) / 3, unmet


def test_what_cpp_throws_is_one_failure() -> None:
    failure, shell = recorded("terminate.txt").failures
    assert (failure.type, failure.message.splitlines()[1].strip()) == (
        "std::runtime_error",
        "what():  CUDA error: out of luck",
    )
    assert (shell.kind, shell.type) == ("native", "Aborted")


@pytest.mark.parametrize(
    ("name", "type", "message"),
    [
        ("gxx.txt", "compiler", "a.cpp:1:20: error: ‘undefined_thing’ was not declared in this scope"),
        ("ninja.txt", "compiler", "a.cpp:1:20: error: ‘undefined_thing’ was not declared in this scope"),
        ("ld.txt", "linker", "/usr/bin/ld: cannot find -lcuda_nope: No such file or directory"),
        ("nvcc_arch.txt", "ptxas or nvcc", "nvcc fatal   : Unsupported gpu architecture 'sm_20'"),
        ("pip_compile.txt", "compiler", "m.c:1:10: fatal error: missing_header.h: No such file or directory"),
        ("pip_isolation.txt", "ModuleNotFoundError", "No module named 'torch'"),
        ("uv_isolation.txt", "ModuleNotFoundError", "No module named 'torch'"),
        ("doublefree.txt", "SIGABRT", "free(): double free detected in tcache 2"),
    ],
)
def test_the_cause_in_the_output_of_a_build(name: str, type: str, message: str) -> None:
    log = recorded(name)
    assert (root(log).type, root(log).message, root(log).role) == (type, message, "root")
    assert {failure.role for failure in log.failures[1:] if failure.kind == "build"} <= {"summary", "root"}


@pytest.mark.parametrize("name", ["pip_conflict.txt", "uv_conflict.txt"])
def test_a_conflict_of_requirements(name: str) -> None:
    assert (root(recorded(name)).kind, root(recorded(name)).type) == ("build", "resolution")


def test_recompilation_limit_is_one_warning_with_its_reason() -> None:
    (failure,) = recorded("dynamo_limit.txt").failures
    assert (failure.kind, failure.role, failure.level) == ("message", "warning", "WARNING")
    assert failure.place == "torch/_dynamo/convert_frame.py:1994"
    assert "torch._dynamo hit config.recompile_limit (8)" in failure.message
    assert "last reason: 0/7: tensor 'x' size mismatch at index 0. expected 9, actual 10" in failure.message


def test_graph_breaks_have_the_users_line() -> None:
    failures = recorded("dynamo_item.txt").failures
    assert [(failure.role, failure.level) for failure in failures] == [("warning", "WARNING"), ("warning", "DEBUG")]
    assert failures[1].message.startswith("[0/0] [__graph_breaks] Graph break in user code at /job/dyn.py:11")
    assert "Unsupported Tensor.item() call with capture_scalar_outputs=False" in failures[1].message
    assert failures[1].user_frames[-1].line == 11
