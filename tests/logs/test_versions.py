"""Versions that texts show."""

import pytest
from reading import log_of, recorded


@pytest.mark.parametrize(
    ("text", "versions"),
    [
        (
            "torch==2.8.0\ntransformers==4.49.0.dev0\nflash-attn==2.8.0.post2\n",
            {"torch": "2.8.0", "transformers": "4.49.0.dev0", "flash-attn": "2.8.0.post2"},
        ),
        (
            "torch                     2.8.0+cu128\naccelerate   1.5.0\n",
            {"torch": "2.8.0+cu128", "accelerate": "1.5.0"},
        ),
        ("PyTorch version: 2.5.1+cu124\nCUDA used to build PyTorch: 12.4\n", {"torch": "2.5.1+cu124", "cuda": "12.4"}),
        (
            "Python version: 3.10.12 (main, Nov 20 2023, 15:14:05) [GCC 11.4.0] (64-bit runtime)\n",
            {"python": "3.10.12"},
        ),
        (
            "- `transformers` version: 4.49.0\n- PyTorch version (GPU?): 2.6.0+cu124 (True)\n",
            {"transformers": "4.49.0", "torch": "2.6.0+cu124"},
        ),
        (
            "[pip3] torch==2.6.0\n[conda] triton                    3.2.0                    pypi_0    pypi\n",
            {"torch": "2.6.0", "triton": "3.2.0"},
        ),
        ("Successfully installed torch-2.6.0 triton-3.2.0\n", {"torch": "2.6.0", "triton": "3.2.0"}),
        (
            "Downloading torch-2.6.0+cu124-cp310-cp310-linux_x86_64.whl (760 MB)\n",
            {"torch": "2.6.0+cu124", "python": "3.10"},
        ),
        (
            "ImportError: /opt/venv/lib/python3.8/site-packages/flash_attn_2_cuda.cpython-38-x86_64-linux-gnu.so\n",
            {"python": "3.8"},
        ),
        ("torch.distributed.DistBackendError: NCCL error in: a.cpp:1, NCCL version 2.21.5\n", {"nccl": "2.21.5"}),
        (
            "| NVIDIA-SMI 550.54.15   Driver Version: 550.54.15   CUDA Version: 12.4 |\n",
            {"driver": "550.54.15", "cuda": "12.4"},
        ),
        ("Cuda compilation tools, release 12.4, V12.4.131\n", {"nvcc": "12.4"}),
        (" + torch==2.7.1\n", {"torch": "2.7.1"}),
        ("hint: `flash-attn@2.8.1` failed to build\n", {"flash-attn": "2.8.1"}),
        (
            "Requirement already satisfied: torch>=2.0 in /opt/venv/lib/python3.11/site-packages (2.6.0)\n",
            {"torch": "2.6.0", "python": "3.11"},
        ),
        (
            "xformers 0.0.28 requires torch==2.5.0, but you have torch 2.6.0 which is incompatible.\n",
            {"xformers": "0.0.28", "torch": "2.6.0"},
        ),
        ("step 3 loss 0.12\n", {}),
        ("Python 3.11.7\n", {"python": "3.11.7"}),
    ],
)
def test_versions(text: str, versions: dict[str, str]) -> None:
    assert log_of(text).versions == versions


def test_what_a_program_says_of_itself_counts_more_than_a_file_name() -> None:
    text = "Downloading torch-2.6.0-cp310-cp310-linux_x86_64.whl\nPyTorch version: 2.5.1+cu124\n"
    assert log_of(text).versions["torch"] == "2.5.1+cu124"


def test_versions_are_found_in_long_logs_too() -> None:
    steps = "".join(f"step {step} loss 0.1\n" for step in range(5000))
    assert log_of(steps + "PyTorch version: 2.5.1\n" + steps).versions == {"torch": "2.5.1"}


@pytest.mark.parametrize(
    ("text", "size"), [("world_size=8\n", 8), ("rank 0 of 2\n", 2), ("WORLD_SIZE=16\n", 16), ("nranks 64\n", 64)]
)
def test_world_size(text: str, size: int) -> None:
    assert log_of(text).world_size == size


def test_the_python_of_a_recorded_job() -> None:
    assert recorded("torchrun_exception.txt").versions["python"] == "3.11"


NAMES = ("torch", "flash_attn", "flash-attn-3", "pytorch_lightning", "transformer-engine", "vllm", "bitsandbytes")


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    "line",
    [
        "using `{}` version: 2.1.0",
        "{} version is 2.1.0, a later version may warn",
        "[pip3] {}==2.1.0",
        "{}  2.1.0",
        "x needs y, but you have {} 2.1.0",
        "wrote /venv/lib/{}-2.1.0.dist-info/METADATA",
        "+ {}==2.1.0",
        "wanted: {}@2.1.0",
    ],
)
def test_every_way_to_print_a_version_is_read_for_every_package(line: str, name: str) -> None:
    assert log_of(f"{line.format(name)}\n").versions == {name.replace("_", "-"): "2.1.0"}


def test_a_version_in_which_something_will_be_removed_is_nobodys() -> None:
    assert log_of("FutureWarning: the option will be removed in version 5.0, see release 4.48\n").versions == {}
