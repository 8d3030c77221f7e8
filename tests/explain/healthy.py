"""Healthy and unrelated logs, made by running real programs: `python tests/explain/healthy.py FOLDER`.

None is a failure of a training stack, so `trueup explain` must find nothing in any. Programs that print alike are
varied by what they do, not by name: exceptions of every built-in kind from code of its own shape, test runs, package
installs, compilers, and short training runs that warn.
"""

from __future__ import annotations

import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).parent

RAISING = {
    "KeyError": "rows = {'loss': 1.0}\nprint(rows['accuracy'])",
    "IndexError": "batches = [1, 2]\nprint(batches[7])",
    "AttributeError": "class Config: pass\nConfig().learning_rate",
    "TypeError": "def step(a, b): return a + b\nstep(1)",
    "ValueError": "int('three')",
    "ZeroDivisionError": "steps = 0\nprint(10 / steps)",
    "NameError": "print(undefined_name)",
    "UnboundLocalError": "def f():\n    print(x)\n    x = 1\nf()",
    "FileNotFoundError": "open('no/such/config.yaml')",
    "PermissionError": "import os\nraise PermissionError(13, 'Permission denied', 'data.bin')",
    "IsADirectoryError": "open('/')",
    "ModuleNotFoundError": "import a_module_that_is_not_there",
    "ImportError": "from json import not_a_name",
    "RecursionError": "def f(): f()\nf()",
    "StopIteration": "next(iter([]))",
    "AssertionError": "assert 1 + 1 == 3, 'shapes differ'",
    "UnicodeDecodeError": "b'\\xff\\xfe'.decode('utf-8')",
    "JSONDecodeError": "import json\njson.loads('{broken')",
    "OverflowError": "import math\nmath.exp(1000)",
    "NotImplementedError": "raise NotImplementedError('subclasses give the loss')",
    "ConnectionRefusedError": "import socket\nsocket.create_connection(('127.0.0.1', 9), timeout=1)",
    "TimeoutError": "raise TimeoutError('the server gave no answer in 30 s')",
    "SyntaxError": "exec('def f(:\\n  pass')",
    "chained": "try:\n    {}['a']\nexcept KeyError as error:\n    raise RuntimeError('no such column') from error",
    "during": "try:\n    1 / 0\nexcept ZeroDivisionError:\n    [][1]",
    "group": "raise ExceptionGroup('two workers', [ValueError('a'), TypeError('b')])",
    "SystemExit": "import sys\nsys.exit('configuration not complete: set data_dir')",
    "KeyboardInterrupt": "raise KeyboardInterrupt",
    "argparse": "import argparse\np = argparse.ArgumentParser()\n"
    "p.add_argument('--lr', type=float)\np.parse_args(['--lr', 'x'])",
    "thread": "import threading\nt = threading.Thread(target=lambda: [][0]); t.start(); t.join()",
    "subprocess": "import subprocess, sys\nsubprocess.run([sys.executable, '-c', 'raise SystemExit(4)'], check=True)",
    "pool": "import concurrent.futures as c\nwith c.ThreadPoolExecutor() as p: p.submit(int, 'x').result()",
    "sqlite": "import sqlite3\nsqlite3.connect(':memory:').execute('select * from nothing')",
    "zip": "import zipfile, io\nzipfile.ZipFile(io.BytesIO(b'not a zip'))",
    "pickle": "import pickle\npickle.loads(b'garbage')",
    "decimal": "from decimal import Decimal\nDecimal('x')",
    "memoryview": "memoryview(3)",
    "csv": "import csv\ncsv.reader(['a'], delimiter='ab')",
    "struct": "import struct\nstruct.unpack('<I', b'123')",
    "regex": "import re\nre.compile('(')",
}
"""Name → a program of one's own that fails for its own reasons."""

DEPTHS = (1, 4)
"""How deep in functions the failing line stands."""

TALKING = {
    "logging": "import logging\nlogging.basicConfig(level=10)\n"
    "for n in range(40): logging.info('step %d loss %.3f lr %.2e', n, 3 / (n + 1), 1e-4)\n"
    "logging.warning('slow batch')",
    "warnings": "import warnings\nfor kind in (UserWarning, DeprecationWarning, FutureWarning, RuntimeWarning):\n"
    "    warnings.warn('this will change in the next release', kind, stacklevel=1)",
    "bar": "for n in range(50): print(f'\\rEpoch 1: {2*n}%|' + '#' * n, end='')\nprint()",
    "json": "import json\nfor n in range(30): print(json.dumps({'step': n, 'loss': 1 / (n + 1), 'error': None}))",
    "metrics": "for n in range(30): print(f'{{\\'loss\\': {3/(n+1):.4f}, \\'grad_norm\\': 1.2, \\'epoch\\': {n/10}}}')",
    "words": "print('0 errors, 0 failed, out of memory errors: 0, CUDA available: False, NCCL not needed')",
    "table": "for n in range(20): print(f'| {n:4} | {n*n:6} | ok    | error rate {n/100:.2f} |')",
    "retry": "print('WARNING: request failed, retrying (1/5)')\nprint('INFO: request succeeded on retry 2')",
    "unicode": "print('Überprüfung läuft … 训练完成 ✓ loss=0.12')",
    "empty": "",
    "long": "print('x' * 200000)",
    "binary": "import sys\nsys.stdout.buffer.write(bytes(range(256)) * 20)",
}

TESTS = {
    "passing": "def test_sum():\n    assert sum([1, 2]) == 3\n",
    "failing": "def test_sum():\n    assert sum([1, 2]) == 4, 'wrong total'\n",
    "raising": "import pytest\ndef test_key():\n    {}['missing']\n"
    "def test_raises():\n    with pytest.raises(ValueError): int('x')\n",
    "erroring": "import pytest\n@pytest.fixture\ndef data(): raise OSError('no data')\ndef test_data(data): pass\n",
    "collecting": "import not_installed_anywhere\n",
    "skipping": "import pytest\n@pytest.mark.skip(reason='needs a GPU')\ndef test_gpu(): pass\n",
    "warning": "import warnings\ndef test_w():\n    warnings.warn('deprecated since 2.0', DeprecationWarning)\n",
    "comparing": "def test_d():\n    assert {'a': [1, 2, 3], 'b': 2} == {'a': [1, 2, 4], 'b': 2}\n",
}
TEST_OPTIONS = ((), ("-v",), ("--tb=short",), ("-q", "--tb=line"))

SOURCES = {
    "fine.c": "int main(void) { return 0; }",
    "warns.c": "int main(void) { int unused; return 0; }",
    "undeclared.c": "int main(void) { return missing_name; }",
    "syntax.c": "int main(void) { return 0 }",
    "links.c": "int elsewhere(void); int main(void) { return elsewhere(); }",
    "types.cpp": "#include <string>\nint main() { std::string s = 3.5 * 2; return s.size(); }",
    "template.cpp": '#include <vector>\nint main() { std::vector<int> v; v.push_back("a"); }',
}

COMMANDS = {
    "pip-list": (sys.executable, "-m", "pip", "list"),
    "pip-check": (sys.executable, "-m", "pip", "check"),
    "pip-show": (sys.executable, "-m", "pip", "show", "pytest"),
    "pip-help": (sys.executable, "-m", "pip", "install", "--help"),
    "pip-missing-file": (sys.executable, "-m", "pip", "install", "-r", "no-such-requirements.txt"),
    "pip-bad-name": (sys.executable, "-m", "pip", "install", "not a name!"),
    "pip-debug": (sys.executable, "-m", "pip", "debug"),
    "venv-help": (sys.executable, "-m", "venv", "--help"),
    "make-missing": ("make", "-f", "/dev/null", "all"),
    "git-outside": ("git", "-C", "/", "log"),
    "git-help": ("git", "help", "-a"),
    "ls-missing": ("ls", "no-such-file"),
    "df": ("df", "-h"),
    "dmesg-like": ("printf", "kernel: usb 1-1: new high-speed device\nsystemd[1]: Started Daily apt activities.\n"),
    "env": ("env", "-i", "A=1", "env"),
}


def programs(folder: Path) -> Iterator[tuple[str, list[str]]]:
    """(name, command) of every program; files that they need are written to `folder`."""
    for name, body in {**RAISING, **TALKING}.items():
        for depth in DEPTHS if name in RAISING else (1,):
            script = folder / f"{name}_{depth}.py"
            script.write_text(_nested(body, depth))
            yield f"python-{name}-{depth}", [sys.executable, str(script)]
    for name, body in TESTS.items():
        test = folder / f"test_{name}.py"
        test.write_text(body)
        for number, options in enumerate(TEST_OPTIONS):
            command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "no:xdist", *options, str(test)]
            yield f"pytest-{name}-{number}", command
    for name, body in SOURCES.items():
        source = folder / name
        source.write_text(body)
        for option in ("-Wall", "-O2"):
            compiler = "g++" if name.endswith("cpp") else "gcc"
            yield f"compiler-{name}{option}", [compiler, option, str(source), "-o", str(folder / "a.out")]
    for name, command in COMMANDS.items():
        yield name, list(command)


def _nested(body: str, depth: int) -> str:
    """The program, its lines inside `depth` functions that call each other."""
    if depth == 1:
        return body + "\n"
    text = "def level0():\n" + textwrap.indent(body or "pass", "    ") + "\n"
    for level in range(1, depth):
        text += f"def level{level}():\n    level{level - 1}()\n"
    return text + f"level{depth - 1}()\n"


def write_logs(target: Path, work: Path) -> int:
    """Run every program, what it prints goes to a file of `target`; returns how many."""
    count = 0
    for name, command in programs(work):
        done = subprocess.run(command, cwd=work, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=120)
        (target / f"{name}.log").write_bytes(done.stdout)
        count += 1
    training = subprocess.run(
        [sys.executable, str(HERE / "training_logs.py"), str(target)], cwd=work, capture_output=True, timeout=600
    )
    if training.returncode:
        raise RuntimeError(f"the training runs failed: {training.stderr.decode(errors='replace')[-2000:]}")
    return count + int(training.stdout.split()[-1])


if __name__ == "__main__":
    import tempfile

    destination = Path(sys.argv[1])
    destination.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        print(write_logs(destination, Path(folder)))
