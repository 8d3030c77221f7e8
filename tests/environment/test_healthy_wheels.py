"""Environments of real wheels beside the torch that is installed here (2.13, CPU only), from files to findings.

The wheels are unpacked as an installer would, without what they depend on: that is missing, and `pip check` is the
witness of what is said about it. The verdicts about compiled modules were compared with what importing them does.
"""

import re
import subprocess
import sys
from collections.abc import Callable

import pytest
from compiled import installed_torch
from registry_wheels import built, skip_unless_cpu_torch_2_13, unpacked

from trueup.environment.collecting import collect
from trueup.environment.host import Host
from trueup.environment.target import of_folder
from trueup.rules import judge_environment
from trueup.rules.requirements import OF_NVIDIA, WATCHED, unmet
from trueup.schema.environment import Environment

pytestmark = [pytest.mark.network, pytest.mark.timeout(900)]

PURE = (
    "flash-attn-4==4.0.0b36",
    "transformer-engine==2.20.2",
    "trl==1.14.2",
    "lightning==2.6.6",
    "pytorch-lightning==2.6.6",
    "torchmetrics==1.9.0",
    "liger-kernel==0.8.5",
    "verl==0.9.1",
)
COMPILED = ("xformers==0.0.35", "bitsandbytes==0.50.2", "torchao==0.18.0")
LIGHT = (*PURE, *COMPILED)
HEAVY = ("triton==3.7.1",)
"""Wheels of hundreds of megabytes."""
FROM_SOURCE = ("deepspeed==0.19.8",)
"""There is no wheel of it; built without its compiled operations, as anyone gets it who has no nvcc."""

CONFLICT = "warning environment/installed-versions-conflict"
ON_CPU = "environment/cuda-extension-on-cpu-torch"
OLD_ABI = "environment/extension-cxx11-abi-mismatch"
OTHER_TORCH = "environment/extension-torch-version-mismatch"
PINNED = "environment/dependency-resolution-replaces-torch"


@pytest.fixture
def assembled(store, tmp_path) -> Callable[..., Environment]:
    """The facts of an environment with these wheels, that sees the packages installed here behind them."""
    skip_unless_cpu_torch_2_13()

    def assemble(*requirements: str) -> Environment:
        prefix = tmp_path / "env"
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", prefix], check=True, timeout=120)
        (site,) = prefix.glob("lib/python*/site-packages")
        folders = [(built if each in FROM_SOURCE else unpacked)(store, each) for each in requirements]
        lines = [str(folder) for folder in (*folders, installed_torch().parent)]
        (site / "wheels.pth").write_text("".join(f"{line}\n" for line in lines))
        host = Host(variables={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "LANG": "C"}, folder=tmp_path)
        return collect(of_folder(prefix, "--env"), host)

    return assemble


def findings(facts: Environment) -> list[str]:
    return [f"{finding.severity} {finding.rule}" for finding in judge_environment(facts)]


def pip_check(prefix: str) -> set[tuple[str, str]]:
    """(who requires, what) of every line that `pip check` prints for the environment."""
    command = [sys.executable, "-m", "pip", "--python", f"{prefix}/bin/python", "check"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    lines = re.findall(r"^(\S+) \S+ (?:has requirement|requires) ([\w.-]+)", done.stdout, re.MULTILINE)
    return {(who, re.sub(r"[-_.]+", "-", what).lower()) for who, what in lines}


def assert_healthy(facts: Environment, requirements: tuple[str, ...]) -> None:
    assert {each.partition("==")[0] for each in requirements} <= facts.packages.keys()
    assert facts.notes == ()
    assert findings(facts) == [CONFLICT, f"note {ON_CPU}"]
    said = {(each.package.name, each.name) for each in unmet(facts)}
    known = {
        (who, what)
        for who, what in pip_check(facts.prefix or "")
        if who in WATCHED or what in WATCHED or what.startswith(OF_NVIDIA)
    }
    assert said == known


def test_no_false_alarm_beside_everything_that_has_a_small_wheel(assembled):
    assert_healthy(assembled(*LIGHT), LIGHT)


@pytest.mark.slow
def test_no_false_alarm_beside_what_is_large_or_built(assembled):
    everything = (*LIGHT, *HEAVY, *FROM_SOURCE)
    assert_healthy(assembled(*everything), everything)


@pytest.mark.parametrize(
    ("requirement", "said"),
    [
        ("torchvision==0.19.1", [f"error {PINNED}", f"warning {ON_CPU}", f"error {OLD_ABI}"]),
        ("torchvision==0.22.1", [f"error {PINNED}", f"warning {ON_CPU}", f"error {OTHER_TORCH}"]),
        ("torchvision==0.24.1", [f"error {PINNED}", f"warning {ON_CPU}", f"error {OTHER_TORCH}"]),
        ("torchvision==0.28.0", [f"warning {ON_CPU}"]),
        ("vllm-flash-attn==2.6.2", [f"error {PINNED}", f"warning {ON_CPU}", f"error {OLD_ABI}"]),
        ("fa3-fwd==0.0.3", [f"warning {ON_CPU}"]),
        ("torchao==0.18.0", [f"note {ON_CPU}"]),
        ("xformers==0.0.35", [f"note {ON_CPU}"]),
        ("bitsandbytes==0.50.2", []),
    ],
)
def test_the_verdict_in_an_environment(assembled, requirement, said):
    """The wheels that were built for another torch also pin it, which is then the root of what their files lack."""
    if "vllm" in requirement and sys.version_info[:2] != (3, 10):
        said = [f"error {PINNED}", "error environment/extension-for-other-python"]
    assert [each for each in findings(assembled(requirement)) if each != CONFLICT] == said
