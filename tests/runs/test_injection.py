"""The observer reaches Python through whatever shell script starts it, and changes nothing else about the script."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from trueup.runs.injection import bootstrap_folder, inject
from trueup.schema.variant import Variant

SITECUSTOMIZE = """
import os, sys
with open(os.path.join(os.environ["TRUEUP_EVENTS"], "seen"), "a") as seen:
    seen.write(sys.executable + " " + " ".join(sys.argv[1:] if hasattr(sys, "argv") else sys.orig_argv[1:]) + "\\n")
"""


@dataclass
class Injected:
    """Runs commands with a small observer injected."""

    events: Path
    bootstrap: Path
    work: Path

    def run(self, *command: str, observed: bool = True, **variables: str) -> subprocess.CompletedProcess[str]:
        base = {**os.environ, **variables}
        if not observed:
            return self._run(command, base)
        with inject(base, events=self.events, bootstrap=self.bootstrap) as injection:
            return self._run(command, injection.environment)

    def _run(self, command: tuple[str, ...], environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command, env=environment, cwd=self.work, capture_output=True, text=True, timeout=60, check=False
        )

    @property
    def seen(self) -> int:
        """How many interpreters have reported."""
        file = self.events / "seen"
        return len(file.read_text().splitlines()) if file.exists() else 0


@pytest.fixture
def injected(tmp_path: Path) -> Injected:
    events, bootstrap, work = tmp_path / "events", tmp_path / "boot strap", tmp_path / "work"
    for folder in (events, bootstrap, work):
        folder.mkdir()
    (bootstrap / "sitecustomize.py").write_text(SITECUSTOMIZE)
    return Injected(events, bootstrap, work)


SHELLS = ("sh", "bash")
EXPORT = "export PYTHONPATH=src\npython3 -c 'print(1)'"
UNSET = "unset PYTHONPATH\npython3 -c 'print(1)'"
INLINE = "PYTHONPATH=. python3 -c 'print(1)'"
ENV = "env PYTHONPATH=. python3 -c 'print(1)'"
IN_FUNCTION = f"main() {{ {EXPORT}\n}}\nmain"
IN_SUBSHELL = f"( {INLINE} )\n"
IN_PIPELINE = f"{INLINE} | cat\n"
IN_BACKGROUND = f"{INLINE} &\nwait $!"
BY_EXEC = "export PYTHONPATH=src\nexec python3 -c 'print(1)'"


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize(
    "script", [EXPORT, UNSET, INLINE, ENV, IN_FUNCTION, IN_SUBSHELL, IN_PIPELINE, IN_BACKGROUND, BY_EXEC]
)
def test_a_script_that_sets_pythonpath_stays_observed(injected: Injected, shell: str, script: str) -> None:
    result = injected.run(shell, "-c", script)
    assert (result.returncode, result.stdout, result.stderr) == (0, "1\n", "")
    assert injected.seen == 1


@pytest.fixture(scope="module")
def venv(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A real environment without trueup, with a program of its own named torchrun that starts Python there."""
    folder = tmp_path_factory.mktemp("environments") / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True, timeout=120)
    torchrun = folder / "bin" / "torchrun"
    torchrun.write_text(f"#!{folder}/bin/python\nprint(1)\n")
    torchrun.chmod(0o755)
    return folder


PREFIX = "python -c 'import sys; print(sys.prefix)'"


@pytest.mark.parametrize(
    ("shell", "script"),
    [
        ("sh", PREFIX),
        ("sh", f"export PYTHONPATH=src:$PYTHONPATH\n{PREFIX}"),
        ("bash", PREFIX),
        ("bash", f"export PYTHONPATH=src\n{PREFIX}"),
        ("bash", f"PYTHONPATH=. {PREFIX}"),
        ("bash", f"PYTHONPATH=. {PREFIX} | cat"),
        ("bash", f"main() {{ PYTHONPATH=. {PREFIX}; }}\nmain"),
        ("bash", f"env PYTHONPATH=. {PREFIX}"),
        ("bash", f"PYTHONPATH=. exec {PREFIX}"),
    ],
)
def test_a_script_that_activates_an_environment_runs_there_and_stays_observed(
    injected: Injected, venv: Path, shell: str, script: str
) -> None:
    result = injected.run(shell, "-c", f". {venv}/bin/activate\n{script}")
    assert (result.returncode, result.stdout, result.stderr) == (0, f"{venv}\n", "")
    assert injected.seen == 1


@pytest.mark.parametrize("script", ["torchrun", "export PYTHONPATH=src\ntorchrun", "PYTHONPATH=. torchrun"])
def test_a_launcher_that_only_the_activated_environment_has_stays_observed(
    injected: Injected, venv: Path, script: str
) -> None:
    result = injected.run("bash", "-c", f". {venv}/bin/activate\n{script}", PATH=os.defpath)
    assert (result.returncode, result.stdout, result.stderr) == (0, "1\n", "")
    assert injected.seen == 1


def test_programs_that_are_not_installed_stay_not_installed(injected: Injected) -> None:
    result = injected.run("bash", "-c", "command -v torchrun || echo none", PATH=os.defpath)
    assert result.stdout == "none\n"


def test_the_script_sees_its_own_path_after_activation(injected: Injected, venv: Path) -> None:
    script = f". {venv}/bin/activate\nPYTHONPATH=. true\ncommand -v python\n"
    assert injected.run("bash", "-c", script).stdout == f"{venv}/bin/python\n"


TRYING = r"""
set -euo pipefail
false || echo "status $?"
true "some words"
echo "last argument: $_"
set +e
(exit 3) | true
echo "pipe ${PIPESTATUS[*]}"
(exit 5)
echo "status $?"
set -e
tidy() { trap 'echo "returned from ${FUNCNAME[0]}"' RETURN; inner; echo working; }
inner() { echo inner; }
tidy
seen() { echo "$BASH_COMMAND"; }
seen
lines=$(printf '%s\n' a b | wc -l)
echo "$lines"
[[ abc =~ b ]] && echo "${BASH_REMATCH[0]}"
trap 'echo "failed in line $LINENO"' ERR
fails() { false; }
set -x
: traced
fails
echo not reached
"""


def test_a_bash_script_behaves_as_without_us(injected: Injected) -> None:
    plain = injected.run("bash", "-c", TRYING, observed=False)
    assert plain.returncode == 1
    assert "not reached" not in plain.stdout
    observed = injected.run("bash", "-c", TRYING)
    assert (observed.returncode, observed.stdout, observed.stderr) == (1, plain.stdout, plain.stderr)


def test_a_debug_trap_of_the_script_is_not_inherited_by_its_functions(injected: Injected) -> None:
    script = "work() { true; true; }\ntrap 'echo step' DEBUG\nwork\n"
    assert injected.run("bash", "-c", script).stdout == injected.run("bash", "-c", script, observed=False).stdout


def test_readonly_variables_are_left_alone(injected: Injected) -> None:
    script = "readonly PYTHONPATH=src\nreadonly PATH\nPYTHONPATH=. true\necho done\n"
    plain = injected.run("bash", "-c", script, observed=False)
    observed = injected.run("bash", "-c", script)
    assert (observed.stdout, observed.stderr.splitlines()) == (plain.stdout, plain.stderr.splitlines())


def test_the_bash_file_of_the_user_is_read_first(injected: Injected, tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("mine() { echo mine; }\nexport PYTHONPATH=src\n")
    result = injected.run("bash", "-c", "mine; python3 -c ''", BASH_ENV="$FOLDER/mine", FOLDER=str(tmp_path))
    assert (result.stdout, result.stderr) == ("mine\n", "")
    assert injected.seen == 1


def test_a_version_manager_that_searches_path_again_comes_to_an_end(injected: Injected, tmp_path: Path) -> None:
    for name, call in (("executes", "exec python3"), ("forks", "python3")):
        manager = tmp_path / name
        manager.mkdir()
        (manager / "python3").write_text(f'#!/bin/sh\n{call} "$@"\nexit $?\n')
        (manager / "python3").chmod(0o755)
        result = injected.run("python3", "-c", "print(1)", PATH=f"{manager}:{os.defpath}")
        assert (result.returncode, result.stdout, result.stderr) == (0, "1\n", "")


def test_shims_hand_on_path_arguments_and_process_id(injected: Injected) -> None:
    program = 'import os, sys; print(os.getpid(), os.environ["PATH"] == sys.argv[1], sys.argv[2])'
    script = f"echo $$\nexec python3 -c '{program}' "
    first, second = injected.run("sh", "-c", script + '"$PATH" \'*  "x\'', PATH=os.defpath).stdout.splitlines()
    assert second == f'{first} True *  "x'


def test_a_shim_says_not_found_like_a_shell(injected: Injected) -> None:
    result = injected.run("sh", "-c", "shims=${PATH%%:*}; PATH=/nowhere; $shims/python3 -c 1")
    assert (result.returncode, result.stderr) == (127, "python3: command not found\n")


def test_variables_say_what_to_do(tmp_path: Path) -> None:
    order = ("sharding", "compile")
    variant = Variant(layers={"compile": "off"}, order=order, environment={"OMP_NUM_THREADS": "1"})
    base = {"PATH": "/bin", "PYTHONPATH": "src:", "TRUEUP_STEPS": "9", "TRUEUP_SET": "{}", "TRUEUP_ORDER": "[]"}
    with inject(base, events=tmp_path / "events", variant=variant, steps=3) as injection:
        given = injection.environment
        assert given["PYTHONPATH"] == f"{bootstrap_folder()}:src:"
        assert given["TRUEUP_EVENTS"] == str(tmp_path / "events")
        assert given["TRUEUP_RUN_ID"] == injection.run_id
        assert given["TRUEUP_STEPS"] == "3"
        assert json.loads(given["TRUEUP_SET"]) == {"compile": "off"}
        assert json.loads(given["TRUEUP_ORDER"]) == ["sharding", "compile"]
        assert given["OMP_NUM_THREADS"] == "1"
        assert injection.folder is not None
        folder = injection.folder
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert not folder.exists()
    with inject(base, events=tmp_path) as injection:
        assert "TRUEUP_STEPS" not in injection.environment
        assert "TRUEUP_SET" not in injection.environment
        assert "TRUEUP_ORDER" not in injection.environment


def test_a_run_inside_a_run_uses_its_own_observer(injected: Injected, tmp_path: Path) -> None:
    with inject(os.environ, events=tmp_path / "outer", bootstrap=injected.bootstrap) as outer:
        inner = injected.run("bash", "-c", INLINE, **outer.environment)
    assert (inner.returncode, inner.stdout, inner.stderr) == (0, "1\n", "")
    assert injected.seen == 1
    assert not (tmp_path / "outer").exists()
