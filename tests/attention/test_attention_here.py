"""The place of a call, read from files: the GPU of a machine and the packages of an environment."""

from pathlib import Path

import pytest

from trueup.attention.devices import UnknownGpu, capability
from trueup.attention.here import Here, here, release
from trueup.environment.host import Host
from trueup.environment.target import of_folder

A100 = "Model: \t\t NVIDIA A100-SXM4-80GB\nGPU UUID: \t GPU-1\n"


def environment(folder: Path, **packages: str) -> Path:
    """A virtual environment with the metadata of these packages, and a torch that says its version."""
    site = folder / "env" / "lib" / "python3.11" / "site-packages"
    site.mkdir(parents=True)
    (folder / "env" / "pyvenv.cfg").write_text("home = /usr/bin\nversion = 3.11.7\n")
    for name, version in packages.items():
        info = site / f"{name}-{version}.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    if "torch" in packages:
        (site / "torch").mkdir()
        cuda = f"'{packages['torch'].partition('+cu')[2][:2]}.8'" if "+cu" in packages["torch"] else None
        (site / "torch" / "version.py").write_text(f"__version__ = '{packages['torch']}'\ncuda = {cuda}\nhip = None\n")
        (site / "torch" / "__init__.py").touch()
    return folder / "env"


def machine(folder: Path, gpu: str = "") -> Host:
    """A machine's files, with a GPU of which only the driver's files tell."""
    root = folder / "root"
    (root / "proc").mkdir(parents=True)
    (root / "proc" / "cpuinfo").write_text("processor\t: 0\nmodel name\t: A Processor 3000\n")
    if gpu:
        of_gpu = root / "proc" / "driver" / "nvidia" / "gpus" / "0000:01:00.0"
        of_gpu.mkdir(parents=True)
        (of_gpu / "information").write_text(gpu)
    return Host(root=root, variables={"PATH": ""}, folder=folder)


def found(folder: Path, host: Host, **named) -> Here:
    return here(of_folder(folder, "--env"), host, **named)


def test_what_is_installed_and_attached(tmp_path):
    prefix = environment(tmp_path, torch="2.9.0+cu128", nvidia_cudnn_cu12="9.10.2.21", flash_attn="2.8.3.post1")
    place = found(prefix, machine(tmp_path, A100))
    assert place.place.device == "cuda"
    assert place.place.capability == (8, 0)
    assert place.place.versions == {
        "torch": (2, 9, 0), "cuda": (12, 8), "cudnn": (9, 10, 2), "flash-attn": (2, 8, 3),
    }  # fmt: skip
    assert (place.gpu, place.device) == ("NVIDIA A100-SXM4-80GB", "NVIDIA A100-SXM4-80GB")
    assert place.notes == ()


def test_without_a_gpu_it_is_the_processor(tmp_path):
    place = found(environment(tmp_path, torch="2.13.0+cpu"), machine(tmp_path))
    assert place.place.device == "cpu"
    assert place.device == "A Processor 3000"
    assert "cudnn" not in place.place.versions


def test_what_is_named_stands_in_for_what_is_there_and_what_is_assumed_is_told(tmp_path):
    prefix = environment(tmp_path, torch="2.13.0+cpu")
    place = found(prefix, machine(tmp_path, A100), gpu="h100")
    assert place.place.capability == (9, 0)
    assert place.device == ""
    build, cudnn = place.notes
    assert build == "a build with CUDA of torch 2.13.0; the one installed is 2.13.0+cpu"
    assert cudnn.startswith("cuDNN 9.20.0")
    assert found(prefix, machine(tmp_path / "other"), gpu="cpu").place.device == "cpu"


def test_a_gpu_that_the_wheel_of_this_torch_has_no_code_for_is_told(tmp_path):
    host = machine(tmp_path)
    prefix = environment(tmp_path, torch="2.13.0+cpu")
    assert "no code" not in " ".join(found(prefix, host, gpu="t4").notes)
    assert (
        found(prefix, host, gpu="v100")
        .notes[-1]
        .endswith("code for sm_70, which CUDA 13 cannot make: one of CUDA 12.6")
    )
    assert "sm_70" not in " ".join(found(prefix, host, gpu="v100", torch=(2, 9)).notes)


@pytest.mark.parametrize(
    ("torch", "cudnn"),
    [((2, 14), (9, 24, 0)), ((2, 12), (9, 20, 0)), ((2, 11), (9, 19, 0)), ((2, 8), (9, 10, 2)), ((2, 7, 1), (9, 5, 1)),
     ((2, 6), (9, 1, 0))],
)  # fmt: skip
def test_the_cudnn_that_comes_with_torch(tmp_path, torch: tuple[int, ...], cudnn: tuple[int, ...]):
    """As the metadata of the wheels on PyPI require it."""
    place = found(environment(tmp_path), machine(tmp_path), gpu="h100", torch=torch)
    assert place.place.versions["cudnn"] == cudnn


def test_no_torch_at_all(tmp_path):
    place = found(environment(tmp_path), machine(tmp_path))
    assert place.place.torch == (2, 13)
    assert place.notes[0].startswith("torch 2.13, as none is installed")


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("h100", (9, 0)), ("A100", (8, 0)), ("rtx4090", (8, 9)), ("RTX 5090", (12, 0)), ("4090", (8, 9)),
        ("b200", (10, 0)), ("RTX 6000 Ada", (8, 9)), ("rtx pro 6000", (12, 0)), ("RTX PRO 6000 Blackwell", (12, 0)),
        ("Quadro RTX 8000", (7, 5)), ("jetson orin", (8, 7)), ("DGX Spark", (12, 1)), ("thor", (11, 0)),
        ("t4", (7, 5)), ("sm_90a", (9, 0)), ("sm_120", (12, 0)), ("9.0", (9, 0)), ("75", (7, 5)), ("cpu", None),
    ],
)  # fmt: skip
def test_names_of_gpus(name: str, told: tuple[int, int] | None):
    assert capability(name) == told


@pytest.mark.parametrize("name", ["mi300x", "MI250", "gfx942", "AMD Instinct MI325X", "Radeon RX 7900"])
def test_gpus_of_amd_are_named_as_such(name: str):
    with pytest.raises(UnknownGpu, match="AMD"):
        capability(name)


@pytest.mark.parametrize("name", ["", "mi300x", "sm_", "9", "gpu", "12345"])
def test_names_of_no_gpu(name: str):
    with pytest.raises(UnknownGpu, match="h100, a100"):
        capability(name)


@pytest.mark.parametrize(
    ("text", "numbers"), [("2.13.0+cpu", (2, 13, 0)), ("2.8.3.post1", (2, 8, 3)), ("2.14.0.dev20260801", (2, 14, 0))]
)
def test_releases(text: str, numbers: tuple[int, ...]):
    assert release(text) == numbers
