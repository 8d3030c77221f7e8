"""`import trueup` costs nothing: the Python API is loaded when it is asked for, torch when something is composed."""

import subprocess
import sys

import pytest

import trueup


def python(program: str) -> str:
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_importing_trueup_loads_none_of_its_packages():
    loaded = python("import sys, trueup; print(*(name for name in sys.modules if name.startswith('trueup')))")
    assert loaded.split() == ["trueup"]


@pytest.mark.parametrize("name", trueup.__all__)
def test_each_name_is_there_without_torch(name):
    program = f"import sys, trueup; trueup.{name}; print([n for n in ('torch', 'accelerate') if n in sys.modules])"
    assert python(program) == "[]\n"


def test_a_plan_is_written_without_torch():
    program = "import trueup; print(trueup.Plan(sharding='fsdp2', compile=trueup.CompilePolicy()).sharding)"
    assert python(f"import sys; sys.modules['torch'] = None; {program}") == "fsdp2\n"


@pytest.mark.parametrize("first", ["trueup.compose", "trueup.compose.plan", "trueup.compose.errors"])
def test_compose_is_called_whatever_was_imported_before(first):
    shown = python(f"import {first}; import trueup; print(callable(trueup.compose), trueup.compose.Plan().blocks)")
    assert shown == "True ()\n"


def test_other_names_are_no_attributes():
    with pytest.raises(AttributeError, match="compse"):
        _ = trueup.compse
    assert set(trueup.__all__) <= set(dir(trueup))
