"""`trueup verify` of a real job: what is the same is verified, plain rounding is no fault, a wrong variant is found."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from trueup.cli import main
from trueup_runs import FROM_OUTSIDE, PYTHON, SCRIPTS

JOB = Path(__file__).parent / "jobs" / "verified.py"
Verify = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def verify(tmp_path: Path) -> Verify:
    """Runs `trueup verify` in a folder that holds the job, as train.py."""
    shutil.copy(JOB, tmp_path / "train.py")

    def run(*options: str, launcher: tuple[str, ...] = (PYTHON,)) -> subprocess.CompletedProcess[str]:
        environment = {name: value for name, value in os.environ.items() if name not in FROM_OUTSIDE}
        environment |= {"PATH": f"{SCRIPTS}{os.pathsep}{environment.get('PATH', os.defpath)}", "OMP_NUM_THREADS": "1"}
        return subprocess.run(
            [PYTHON, "-m", "trueup", "verify", "--json", "verified.json", *options, "--", *launcher, "train.py"],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            timeout=500,
            check=False,
        )

    return run


def result(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "verified.json").read_text())
    return found


def variant(folder: Path, **variables: str) -> str:
    lines = [f'{name} = "{value}"' for name, value in variables.items()]
    (folder / "variant.toml").write_text("\n".join(["[environment]", *lines, ""]))
    return "variant.toml"


def test_a_healthy_job_is_verified(verify: Verify, tmp_path: Path) -> None:
    done = verify()
    told = result(tmp_path)
    assert (done.returncode, told["verdict"]) == (0, "verified"), done.stdout + done.stderr
    assert {layer["layer"]: (layer["state"], layer["on_in_candidate"]) for layer in told["switched"]} == {
        "compile": ("as asked", True),
        "attention": ("as asked", True),
        "checkpointing": ("as asked", False),
    }
    steps = told["numerics"]["steps"]
    assert [step["step"] for step in steps] == list(range(1, 13))
    assert all(step["loss"]["noise"] == 0 for step in steps)
    assert steps[0]["norm"]["difference"] is not None
    assert [step["step"] for step in steps if step["drift"]] == [1, 2, 4, 8]
    assert told["speed"]["low"] <= told["speed"]["ratio"] <= told["speed"]["high"]
    assert told["memory"]["candidate_bytes"] > 1e7
    first = done.stdout.splitlines()[0]
    assert first.startswith("trueup verify: verified: ")
    assert f"next    trueup run -- {PYTHON} train.py" in done.stdout
    page = next((tmp_path / ".trueup" / "verify").glob("*/report.html"))
    assert f"report  {page.relative_to(tmp_path)}" in done.stdout
    assert page.read_text().count("<polyline") == 2
    assert not list(page.parent.glob("*/tree"))


def test_autocast_is_rounding_and_a_wrong_mask_is_not(verify: Verify, tmp_path: Path) -> None:
    done = verify("--reference", "fp32", "--with", variant(tmp_path, AUTOCAST="1"))
    told = result(tmp_path)
    assert (done.returncode, told["verdict"]) == (0, "verified"), done.stdout + done.stderr
    assert (told["numerics"]["verdict"], told["numerics"]["dtype"]) == ("within rounding", "bfloat16")
    assert {layer["layer"]: layer["state"] for layer in told["switched"]}["precision"] == "as asked"

    done = verify("--reference", "fp32", "--with", variant(tmp_path, AUTOCAST="1", FAULT="not causal"))
    told = result(tmp_path)
    assert (done.returncode, told["verdict"]) == (1, "different"), done.stdout + done.stderr
    assert told["why"].startswith("more than rounding and noise explain")


def test_another_learning_rate_is_found_against_the_job_as_it_is(verify: Verify, tmp_path: Path) -> None:
    (tmp_path / "as_is.toml").write_text("")
    done = verify("--against", "as_is.toml", "--with", variant(tmp_path, FAULT="rate"), "--steps", "4", "--quiet")
    told = result(tmp_path)
    assert (done.returncode, told["verdict"]) == (1, "different"), done.stdout + done.stderr
    assert "drift of the parameters first at step 1" in told["why"]
    assert told["speed"]["low"] is None
    assert "verified then? it is --with variant.toml that changes the results" in done.stdout
    assert done.stderr == ""


@pytest.mark.slow
def test_dropout_of_compiled_code_is_compared_with_the_random_numbers_of_eager_code(
    verify: Verify, tmp_path: Path
) -> None:
    (tmp_path / "control.toml").write_text(
        'layers = {compile = "off"}\nenvironment = {DROPOUT = "0.2", BACKEND = "inductor"}\n'
    )
    healthy = variant(tmp_path, DROPOUT="0.2", BACKEND="inductor")
    done = verify("--against", "control.toml", "--with", healthy, "--steps", "6")
    told = result(tmp_path)
    assert (done.returncode, told["verdict"]) == (0, "verified"), done.stdout + done.stderr
    assert len(told["same_random"]) == 1
    assert "draws random numbers of its own" in told["notes"][0]


@pytest.mark.slow
def test_what_has_no_seed_and_what_has_no_loss(verify: Verify, tmp_path: Path) -> None:
    (tmp_path / "control.toml").write_text('[environment]\nSEEDLESS = "1"\n')
    done = verify("--against", "control.toml", "--with", variant(tmp_path, SEEDLESS="1"))
    assert (done.returncode, result(tmp_path)["verdict"]) == (0, "within noise"), done.stdout
    (tmp_path / "control.toml").write_text('[environment]\nSILENT = "1"\n')
    done = verify("--against", "control.toml", "--with", variant(tmp_path, SILENT="1"))
    assert (done.returncode, result(tmp_path)["verdict"]) == (1, "not compared"), done.stdout


def test_two_ranks_that_shard(verify: Verify, tmp_path: Path) -> None:
    done = verify("--format", "sarif", launcher=("torchrun", "--standalone", "--nproc-per-node", "2"))
    told = result(tmp_path)
    assert (done.returncode, told["verdict"]) == (0, "verified"), done.stdout + done.stderr
    assert told["candidates"][0]["actual"]["sharding"]["strategy"] == "FSDP2"
    assert {drift["rank"] for drift in told["candidates"][0]["steps"]["drifts"]} == {0, 1}
    assert told["numerics"]["steps"][0]["drift"]["difference"] < 0.1
    assert json.loads(done.stdout)["runs"][0]["results"] == []


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ([], "no command to verify"),
        (["--against", "a.toml", "--reference", "fp32", "--", "x"], "both name the control"),
        (["--set", "compile=maybe", "--", "x"], "compile='maybe' is not a setting"),
        (["--pairs", "1", "--", "x"], "--pairs"),
    ],
)
def test_wrong_usage(options: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", *options]) == 2
    assert said in capsys.readouterr().err
