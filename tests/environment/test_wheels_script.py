"""`scripts/publish_matrix.py`: from a workflow and a `setup.py`, here small ones of our own, to the table."""

import importlib.util
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts" / "publish_matrix.py"

WORKFLOW = """
on: {create: {tags: ['v*']}}
jobs:
  announce:
    runs-on: ubuntu-latest
    steps: [{run: echo}]
  wheels:
    strategy:
      matrix:
        os: [ubuntu-22.04, ubuntu-22.04-arm]
        python-version: ['3.10', '3.11']
        torch-version: ['2.6.0', '2.7.1', '2.8.0.dev20250601']
        cuda-version: ['12.9.1']
        cxx11_abi: ['FALSE', 'TRUE']
        exclude:
          - torch-version: '2.6.0'
            os: ubuntu-22.04-arm
          - torch-version: '2.8.0.dev20250601'
            python-version: '3.10'
    steps:
      - run: |
          export WANTED=$(python -c "from os import environ as env; \\
            lowest = {'2.6': 118, '2.7': 118}[env['MATRIX_TORCH_VERSION']]; \\
            known = { \\
              '2.6': [124, 126], \\
              '2.7': [126, 128], \\
            }[env['MATRIX_TORCH_VERSION']]")
          tmpname=cu${WHEEL_CUDA_VERSION}torch${MATRIX_TORCH_VERSION}cxx11abi${{ matrix.cxx11_abi }}
"""

SETUP = """
setup(python_requires=">=3.9")
# cc_flag.append("arch=compute_75,code=sm_75")
cc_flag.append("arch=compute_80,code=sm_80")
if CUDA_HOME is not None:
    if bare_metal_version >= Version("11.8") and "90" in cuda_archs():
        cc_flag.append("arch=compute_90,code=sm_90")
    if bare_metal_version >= Version("12.8"):
        cc_flag.append("arch=compute_100,code=sm_100")
if bare_metal_version <= Version("12.9"):
    cc_flag.append("arch=compute_70,code=sm_70")
cc_flag.append("arch=compute_86,code=sm_86")
"""


@pytest.fixture(scope="module")
def script():
    pytest.importorskip("yaml")
    spec = importlib.util.spec_from_file_location("publish_matrix", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_matrix_of_the_job_that_has_one(script):
    assert script.matrix_of(WORKFLOW) == {
        "python": ["3.10", "3.11"],
        "torch": ["2.6.0", "2.7.1"],
        "cuda": ["12.9.1"],
        "abi": ["FALSE", "TRUE"],
        "image": ["ubuntu-22.04", "ubuntu-22.04-arm"],
        "exclude": [{"torch": "2.6.0", "image": "ubuntu-22.04-arm"}],
    }


def test_a_workflow_without_such_a_job(script):
    assert script.matrix_of("jobs: {a: {strategy: {matrix: {os: [x]}}}, b: {steps: []}}") is None
    assert script.matrix_of("jobs: {a: {strategy: {matrix: '${{ fromJson(x) }}'}}}") is None


def test_truths_that_yaml_reads_become_text_again(script):
    matrix = script.matrix_of(WORKFLOW.replace("['FALSE', 'TRUE']", "[FALSE, TRUE]"))
    assert matrix["abi"] == ["FALSE", "TRUE"]


def test_the_builds_of_torch_from_both_ways_to_write_them(script):
    assert script.torch_builds(WORKFLOW) == {"2.6": ["118", "124", "126"], "2.7": ["118", "126", "128"]}


def test_gpu_code_with_the_conditions_it_stands_under(script):
    assert script.gpu_code(SETUP) == [
        {"code": "sm_80", "nvcc": ""},
        {"code": "sm_90", "nvcc": ">=11.8"},
        {"code": "sm_100", "nvcc": ">=12.8"},
        {"code": "sm_70", "nvcc": "<=12.9"},
        {"code": "sm_86", "nvcc": ""},
    ]


def test_a_release_for_one_torch(script, tmp_path):
    steps = tmp_path / ".github" / "workflows"
    steps.mkdir(parents=True)
    matrix = "CU_VERSIONS = ['126', '128']\nfor torch_version in ['2.9.1']:\nPY_VERSIONS = ['3.9', '3.10']\n"
    (steps / "wheels.yml").write_text(matrix)
    (steps / "wheels_build.yml").write_text('echo "torch == ${{ inputs.torch_version }}"\n')
    (tmp_path / "requirements.txt").write_text("torch >= 2.9\nnumpy\n")
    folder = clone(tmp_path, {"v1.0.0": ("2025-01-01", "jobs: {}")})
    found = script.pinned_release(folder, "v1.0.0")
    assert (found["torch"], found["builds"], found["pythons"]) == ("==2.9.1", ["126", "128"], ["3.9", "3.10"])
    assert script.pinned_release(folder, "no-such-tag") is None


def clone(folder: Path, tags: dict[str, tuple[str, str]]) -> Path:
    """A repository with one commit a tag, each with its own workflow and day."""

    def git(*arguments: str, day: str = "2025-01-01") -> None:
        when = f"{day}T12:00:00+0000"
        environment = {
            "GIT_AUTHOR_DATE": when,
            "GIT_COMMITTER_DATE": when,
            "HOME": str(folder),
            "PATH": "/usr/bin:/bin",
        }
        identity = ("-c", "user.name=nobody", "-c", "user.email=nobody@localhost")
        subprocess.run(["git", "-C", folder, *identity, *arguments], check=True, capture_output=True, env=environment)

    git("init")
    (folder / ".github" / "workflows").mkdir(parents=True, exist_ok=True)
    for tag, (day, workflow) in tags.items():
        (folder / ".github" / "workflows" / "publish.yaml").write_text(workflow)
        (folder / "setup.py").write_text(SETUP)
        git("add", "-A")
        git("commit", "--allow-empty", "-m", tag, day=day)
        git("tag", tag)
    return folder


def test_a_repository(script, tmp_path):
    old = WORKFLOW.replace("[ubuntu-22.04, ubuntu-22.04-arm]", "[ubuntu-20.04]")
    days = {"v0.9.0": "2025-01-01", "v1.9.0": "2025-02-01", "v1.10.0": "2025-05-01", "v1.10.1": "2025-06-01"}
    tags = {tag: (day, WORKFLOW if tag == "v1.10.1" else old) for tag, day in days.items()}
    tags["v2.0.0"] = ("2025-07-01", "jobs: {}")
    found = script.project(clone(tmp_path, tags), "https://example.org/x", script.Version("1.0"), script.release)
    # v1.10.0 asks for a runner that was gone, v2.0.0 has no matrix, v0.9.0 is older than what was asked for
    assert [(each["version"], each["date"]) for each in found["releases"]] == [
        ("1.10.1", "2025-06-01"),
        ("1.9.0", "2025-02-01"),
    ]
    assert found["releases"][0]["label"] == "major"
    assert found["releases"][0]["requires_python"] == ">=3.9"
    assert found["seen"] == "2025-07-01"


def test_what_is_written_is_read_by_the_tool(script, tmp_path):
    import msgspec

    from trueup.environment.wheels.matrix import Table

    found = script.project(
        clone(tmp_path, {"v1.0": ("2025-01-01", WORKFLOW)}),
        "https://example.org/x",
        script.Version("1.0"),
        script.release,
    )
    text = script.written({"made": "2026-01-01", "by": "a test", "projects": {"x": found}, "pinned": {}})
    (release,) = msgspec.json.decode(text, type=Table).projects["x"].releases
    assert len(list(release.cells())) == 2 * 2 * 1 * 2 * 2 - 2 * 1 * 1 * 2


def test_the_libraries_in_a_wheel(script, tmp_path):
    """As bitsandbytes packs them; wheels of two releases, the newest first."""
    import zipfile

    metadata = "Name: bitsandbytes\nRequires-Dist: {torch}\nRequires-Dist: numpy\nRequires-Python: >=3.9\n"
    for version, torch, files in (
        ("0.9.0", "torch", ["cuda118", "cuda118_nocublaslt", "cpu"]),
        ("0.10.0", "torch<3,>=2.4", ["cuda128", "cuda130", "rocm72", "xpu2025"]),
    ):
        with zipfile.ZipFile(tmp_path / f"bitsandbytes-{version}-py3-none-manylinux_2_24_x86_64.whl", "w") as wheel:
            wheel.writestr(f"bitsandbytes-{version}.dist-info/METADATA", metadata.format(torch=torch))
            wheel.writestr("bitsandbytes/cextension.py", script.LOOKS_FURTHER if version == "0.10.0" else "")
            for name in files:
                wheel.writestr(f"bitsandbytes/libbitsandbytes_{name}.so", "")
    newest, oldest = script.bundled_project(tmp_path, "https://example.org/x")["releases"]
    assert (newest["version"], newest["cuda"], newest["rocm"]) == ("0.10.0", ["128", "130"], ["72"])
    assert (newest["torch"], newest["requires_python"], newest["nearest"]) == ("<3,>=2.4", ">=3.9", True)
    assert (oldest["torch"], oldest["cuda"], oldest["nearest"]) == ("", ["118"], False)
