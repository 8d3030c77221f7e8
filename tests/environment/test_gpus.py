"""GPUs from the driver's tool and the driver's files.

There is no GPU here. The texts have the format that nvidia-smi 570.124 documents (`nvidia-smi --help-query-gpu`, man
page, section "SELECTIVE QUERY OPTIONS"; `-L` as in the MIG user guide) and are no recordings. The tool itself is a
script that prints them, so that it is really started, asked and waited for.
"""

import pytest
from hand_made import machine, program

from trueup.environment import nvidia_smi
from trueup.environment.gpus import capability_of, newest_cuda, search

TWO_H100 = """0, NVIDIA H100 80GB HBM3, GPU-11111111-2222-3333-4444-555555555555, 81559, 4, 570.124.06, Disabled, 9.0
1, NVIDIA H100 80GB HBM3, GPU-66666666-7777-8888-9999-000000000000, 81559, 40962, 570.124.06, Disabled, 9.0"""
ONE_RTX = "0, NVIDIA GeForce RTX 3090, GPU-11111111-2222-3333-4444-555555555555, 24576, 1, 470.57.02, [N/A]"
SLICED = "0, NVIDIA A100-SXM4-40GB, GPU-aaaaaaaa-0000-0000-0000-000000000000, 40960, 2, 550.54.15, Enabled, 8.0"
LISTED = """GPU 0: NVIDIA A100-SXM4-40GB (UUID: GPU-aaaaaaaa-0000-0000-0000-000000000000)
  MIG 3g.20gb     Device  0: (UUID: MIG-bbbbbbbb-0000-0000-0000-000000000000)
  MIG 3g.20gb     Device  1: (UUID: MIG-cccccccc-0000-0000-0000-000000000000)"""
VERSION = (
    "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue Mar  5 22:23:56 UTC 2024\nGCC version:  gcc 12\n"
)
OPEN_VERSION = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.124.06  Release Build  (dvs-builder)\n"
INFORMATION = "Model: \t\t NVIDIA L40S\nIRQ:   \t\t 52\nGPU UUID: \t GPU-dddddddd-0000-0000-0000-000000000000\n"


def found(tmp_path, script=None, files=None):
    """Driver, GPUs and notes of a machine whose nvidia-smi is `script`."""
    if script is not None:
        program(tmp_path / "bin" / "nvidia-smi", script)
    looking = search(machine(tmp_path, files, PATH=str(tmp_path / "bin")), tmp_path / "env")
    return (*looking.found(), looking.notes)


def prints(text):
    return f"cat <<'END'\n{text}\nEND"


def test_two_cards(tmp_path):
    driver, gpus, notes = found(tmp_path, prints(TWO_H100))
    assert (driver, notes) == ("570.124.06", [])
    assert [(gpu.index, gpu.name, gpu.compute_capability, gpu.mig) for gpu in gpus] == [
        (0, "NVIDIA H100 80GB HBM3", "9.0", False),
        (1, "NVIDIA H100 80GB HBM3", "9.0", False),
    ]
    assert gpus[0].memory_bytes == 81559 << 20
    assert gpus[1].memory_used_bytes == 40962 << 20


def test_an_older_tool_is_asked_for_less(tmp_path):
    refuses = "echo 'Field \"compute_cap\" is not a valid field to query.'; exit 2"
    driver, (gpu,), notes = found(tmp_path, f'case "$*" in *compute_cap*) {refuses};; esac\n{prints(ONE_RTX)}')
    assert (driver, gpu.compute_capability, gpu.mig, notes) == ("470.57.02", "8.6", None, [])


def test_slices(tmp_path):
    _, (gpu,), _ = found(tmp_path, f'if [ "$1" = -L ]; then {prints(LISTED)}\nelse {prints(SLICED)}\nfi')
    assert gpu.mig
    assert gpu.slices == ("MIG-bbbbbbbb-0000-0000-0000-000000000000", "MIG-cccccccc-0000-0000-0000-000000000000")


def test_a_tool_without_a_driver(tmp_path):
    complaint = "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver."
    driver, gpus, notes = found(tmp_path, f'echo "{complaint}"; exit 9')
    assert (driver, gpus) == (None, ())
    assert notes == [f"nvidia-smi: {complaint}"]


def test_a_tool_that_never_answers(tmp_path, monkeypatch):
    monkeypatch.setattr(nvidia_smi, "PATIENCE_S", 0.1)
    driver, gpus, notes = found(
        tmp_path, "exec tail -f /dev/null", {"proc/driver/nvidia/gpus/0000:01:00.0/information": INFORMATION}
    )
    assert driver is None
    assert [gpu.name for gpu in gpus] == ["NVIDIA L40S"]
    assert notes == ["nvidia-smi gave no answer within 0.1 s"]


def test_a_tool_that_prints_something_else(tmp_path):
    assert found(tmp_path, "echo 'No devices were found'; printf '\\377\\376, 1\\n'")[:2] == (None, ())


def test_a_file_that_cannot_be_started(tmp_path):
    program(tmp_path / "bin" / "nvidia-smi", "").write_bytes(b"\x7fELF broken")
    (tmp_path / "bin" / "nvidia-smi").chmod(0o755)
    _, gpus, notes = found(tmp_path)
    assert gpus == ()
    assert notes[0].startswith("nvidia-smi cannot be started")


def test_the_tool_of_the_environment_is_not_run(tmp_path):
    program(tmp_path / "env" / "bin" / "nvidia-smi", f"touch {tmp_path}/started")
    looking = search(machine(tmp_path, PATH=f"{tmp_path}/env/bin"), tmp_path / "env")
    looking.found()
    assert not (tmp_path / "started").exists()


@pytest.mark.parametrize(("text", "version"), [(VERSION, "550.54.15"), (OPEN_VERSION, "570.124.06")])
def test_driver_and_card_from_files(tmp_path, text, version):
    files = {"proc/driver/nvidia/version": text, "proc/driver/nvidia/gpus/0000:01:00.0/information": INFORMATION}
    driver, (gpu,), notes = found(tmp_path, files=files)
    assert (driver, gpu.driver, notes) == (version, version, [])
    assert (gpu.name, gpu.compute_capability, gpu.memory_bytes) == ("NVIDIA L40S", "8.9", None)
    assert gpu.uuid == "GPU-dddddddd-0000-0000-0000-000000000000"


def test_no_card(tmp_path):
    assert found(tmp_path) == (None, (), [])


@pytest.mark.parametrize(
    ("driver", "cuda"),
    [
        ("535.104.05", "12.2"),
        ("570.124.06", "12.8"),
        ("580.65.06", "13.0"),
        ("418.87", None),
        (None, None),
        ("x", None),
    ],
)
def test_the_newest_cuda_of_a_driver(driver, cuda):
    assert newest_cuda(driver) == cuda


@pytest.mark.parametrize(
    ("name", "capability"),
    [
        ("NVIDIA GB200", "10.0"),
        ("NVIDIA H200", "9.0"),
        ("NVIDIA A100-SXM4-80GB", "8.0"),
        ("NVIDIA A10G", "8.6"),
        ("NVIDIA L4", "8.9"),
        ("NVIDIA GeForce RTX 5090", "12.0"),
        ("Tesla T4", "7.5"),
        ("Tesla V100-SXM2-16GB", "7.0"),
        ("NVIDIA RTX A6000", "8.6"),
        ("NVIDIA RTX 6000 Ada Generation", "8.9"),
        ("Quadro M4000", None),
    ],
)
def test_compute_capability_by_name(name, capability):
    assert capability_of(name) == capability
