"""Programs that fail for reasons of their own, and programs that work, give no finding: run for real."""

import subprocess
import sys

import pytest

from trueup.logs import read
from trueup.rules import explain

PROGRAMS = {
    "missing key": "batch = {'input_ids': 1}\nbatch['labels']",
    "missing attribute": "class Model: pass\nModel().lm_head.weight",
    "division": "1 / 0",
    "missing file": "open('/nowhere/data.json')",
    "no permission": "raise PermissionError(13, 'Permission denied', '/data/imagenet/train')",
    "full disk": "raise OSError(28, 'No space left on device', '/data/checkpoints/step_100.pt')",
    "not utf-8": "b'\\xff\\xfe'.decode('utf-8')",
    "not json": "import json\njson.loads('{\"a\": 1}{')",
    "refused": "import socket\nsocket.create_connection(('127.0.0.1', 1))",
    "port of another server": (
        "import socket\none = socket.socket(); one.bind(('127.0.0.1', 0)); one.listen()\n"
        "socket.socket().bind(one.getsockname())"
    ),
    "recursion": "def f(): f()\nf()",
    "assertion": "sizes = 3, 4\nassert sizes[0] == sizes[1], 'batch sizes differ'",
    "missing module": "import no_such_module_of_mine",
    "missing name": "from collections import Nope",
    "wrong argument": "def f(a): return a\nf(1, b=2)",
    "host memory": "bytearray(10 ** 15)",
    "exit": "raise SystemExit(3)",
    "interrupt": "raise KeyboardInterrupt",
    "chain": "try:\n    {}['x']\nexcept KeyError as error:\n    raise RuntimeError('the configuration is incomplete') "
    "from error",
    "worker": (
        "import multiprocessing\ndef f(x): return 1 / x\n"
        "if __name__ == '__main__':\n    multiprocessing.get_context('fork').Pool(1).map(f, [0])"
    ),
    "command": "import subprocess\nsubprocess.run(['false'], check=True)",
    "crash": "import ctypes, faulthandler\nfaulthandler.enable()\nctypes.string_at(0)",
    "argument parser": "import argparse\np = argparse.ArgumentParser(); p.add_argument('--lr', required=True); "
    "p.parse_args([])",
    "warnings": "import warnings\nwarnings.warn('an old name', DeprecationWarning); warnings.warn('be "
    "careful')\nprint('done')",
    "training": (
        "import logging\nlogging.basicConfig(level='INFO')\n"
        "for step in range(300): logging.info('step %d loss %.3f grad_norm %.2f lr 1e-4', step, 3 - step / 100, 1.2)\n"
        "logging.warning('checkpoint is 3 hours old'); logging.error('the evaluation set is empty')"
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_no_finding(name, tmp_path):
    program, log = tmp_path / "program.py", tmp_path / "job.log"
    program.write_text(PROGRAMS[name])
    with log.open("wb") as output:
        subprocess.run([sys.executable, str(program)], stdout=output, stderr=subprocess.STDOUT, timeout=60)
    assert explain(read(log)).findings == ()


def test_a_failing_test_run(tmp_path):
    tests, log = tmp_path / "test_mine.py", tmp_path / "job.log"
    tests.write_text(
        "import warnings\nimport pytest\n"
        "def test_lists(): assert [1, 2] == [1, 3]\n"
        "def test_key(): {}['x']\n"
        "def test_warning(): warnings.warn('an old name')\n"
        "@pytest.fixture\ndef server(): raise OSError(98, 'Address already in use')\n"
        "def test_server(server): pass\n"
    )
    command = [sys.executable, "-m", "pytest", "-vv", "--tb=long", "-p", "no:cacheprovider", str(tests)]
    with log.open("wb") as output:
        subprocess.run(command, stdout=output, stderr=subprocess.STDOUT, cwd=tmp_path, timeout=60)
    assert [finding.rule for finding in explain(read(log)).findings if finding.confidence != "possible"] == []


def test_what_is_not_known_names_type_and_place(tmp_path):
    program, log = tmp_path / "program.py", tmp_path / "job.log"
    program.write_text("def main(batch):\n    return batch['labels']\nmain({})\n")
    with log.open("wb") as output:
        subprocess.run([sys.executable, str(program)], stdout=output, stderr=subprocess.STDOUT, timeout=60)
    (unknown,) = explain(read(log)).unexplained
    assert unknown.type == "KeyError"
    assert unknown.user == f"{program}:2 in main"
    assert unknown.layer is None
