"""Driver and GPUs, from the driver's files and from nvidia-smi."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec

from trueup.environment import nvidia_smi
from trueup.environment.host import Host, names_in
from trueup.environment.nvidia_smi import FIELDS, Question
from trueup.schema.environment import Gpu

DRIVER = re.compile(r"\b(\d{3,}\.\d+(?:\.\d+)?)\b")
DRIVER_FILES = "/proc/driver/nvidia"

NEWEST_CUDA = {
    450: "11.0", 455: "11.1", 460: "11.2", 465: "11.3", 470: "11.4", 495: "11.5", 510: "11.6", 515: "11.7",
    520: "11.8", 525: "12.0", 530: "12.1", 535: "12.2", 545: "12.3", 550: "12.4", 555: "12.5", 560: "12.6",
    565: "12.7", 570: "12.8", 575: "12.9", 580: "13.0", 590: "13.1",
}  # fmt: skip
"""Driver branch → CUDA of its release: https://docs.nvidia.com/cuda/cuda-toolkit-release-notes/ (drivers table)."""

CAPABILITIES = (
    (r"GB300|B300", "10.3"), (r"GB200|B200|B100", "10.0"), (r"GB10\b|DGX Spark", "12.1"), (r"Thor\b", "11.0"),
    (r"H100|H200|H800|H20\b|GH200", "9.0"), (r"Orin\b", "8.7"),
    (r"RTX 50\d0|RTX PRO \d+", "12.0"), (r"RTX 40\d0|L40S?|L4\b|L20\b|RTX \d{4} Ada|Ada Generation", "8.9"),
    (r"RTX 30\d0|A40\b|A10\b|A10G|A16\b|A2\b|RTX A\d{4}", "8.6"), (r"A100|A800|A30\b", "8.0"),
    (r"T4\b|RTX 20\d0|GTX 16\d0|Quadro RTX|TITAN RTX", "7.5"), (r"V100|TITAN V", "7.0"),
    (r"P40\b|P4\b|GTX 10\d0|TITAN X", "6.1"), (r"P100", "6.0"),
)  # fmt: skip
"""Name → compute capability for drivers that do not tell it: https://developer.nvidia.com/cuda-gpus"""


class Search(msgspec.Struct):
    """A look for GPUs that has been started; `found()` ends it."""

    host: Host
    smi: Path | None = None
    question: Question | None = None
    notes: list[str] = []

    def found(self) -> tuple[str | None, tuple[Gpu, ...]]:
        """Driver version and GPUs. Without an answer of nvidia-smi, what the driver's files tell."""
        driver = _driver_from_files(self.host)
        gpus = self._from_tool()
        if gpus is None:
            gpus = _from_files(self.host, driver)
        return driver or next((gpu.driver for gpu in gpus if gpu.driver), None), gpus

    def _from_tool(self) -> tuple[Gpu, ...] | None:
        if self.smi is None or self.question is None:
            return None
        fields: tuple[str, ...] = FIELDS
        text, complaint = self.question.answer()
        if text is None and "compute_cap" in complaint:
            fields = FIELDS[:-1]
            text, complaint = self._ask(nvidia_smi.ask_for_gpus(self.smi, fields))
        if text is None:
            self.notes.append(complaint)
            return None
        gpus = tuple(_gpu(row) for row in nvidia_smi.rows(text, fields))
        if any(gpu.mig for gpu in gpus):
            gpus = self._with_slices(gpus)
        return gpus

    def _with_slices(self, gpus: tuple[Gpu, ...]) -> tuple[Gpu, ...]:
        assert self.smi is not None, "slices are asked for after an answer only"
        text, complaint = self._ask(nvidia_smi.ask(self.smi, "-L"))
        if text is None:
            self.notes.append(complaint)
            return gpus
        of_gpu = nvidia_smi.slices(text)
        return tuple(msgspec.structs.replace(gpu, slices=of_gpu.get(gpu.uuid or "", ())) for gpu in gpus)

    @staticmethod
    def _ask(question: Question | str) -> tuple[str | None, str]:
        return (None, question) if isinstance(question, str) else question.answer()


def search(host: Host, environment: Path) -> Search:
    """Start looking; the tool answers while other files are read."""
    started = Search(host, nvidia_smi.tool(host, not_in=environment))
    if started.smi is not None:
        question = nvidia_smi.ask_for_gpus(started.smi)
        if isinstance(question, str):
            started.notes.append(question)
        else:
            started.question = question
    return started


def newest_cuda(driver: str | None) -> str | None:
    """The newest CUDA that a driver was released with, as nvidia-smi prints it; None for an unknown branch."""
    branch = int(driver.partition(".")[0]) if driver and driver.partition(".")[0].isdigit() else 0
    known = [known for known in NEWEST_CUDA if known <= branch]
    return NEWEST_CUDA[max(known)] if known else None


def capability_of(name: str) -> str | None:
    """Compute capability by the name of the GPU."""
    return next((capability for pattern, capability in CAPABILITIES if re.search(pattern, name, re.IGNORECASE)), None)


def _gpu(row: dict[str, str]) -> Gpu:
    mig = row.get("mig.mode.current")
    return Gpu(
        index=int(row["index"]) if row.get("index", "").isdigit() else 0,
        name=row.get("name", "unknown"),
        memory_bytes=_mebibytes(row.get("memory.total")),
        memory_used_bytes=_mebibytes(row.get("memory.used")),
        compute_capability=row.get("compute_cap") or capability_of(row.get("name", "")),
        driver=row.get("driver_version"),
        mig=None if mig is None else mig == "Enabled",
        uuid=row.get("uuid"),
    )


def _mebibytes(text: str | None) -> int | None:
    return int(text) << 20 if text and text.isdigit() else None


def _driver_from_files(host: Host) -> str | None:
    """`NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue Mar  5 …`"""
    for file in (f"{DRIVER_FILES}/version", "/sys/module/nvidia/version"):
        found = DRIVER.search(host.text(file) or "")
        if found:
            return found[1]
    return None


def _from_files(host: Host, driver: str | None) -> tuple[Gpu, ...]:
    gpus = []
    for number, bus in enumerate(names_in(host.path(f"{DRIVER_FILES}/gpus"))):
        text = host.text(f"{DRIVER_FILES}/gpus/{bus}/information") or ""
        said = {key.strip(): value.strip() for key, _, value in (line.partition(":") for line in text.splitlines())}
        name = said.get("Model", "unknown")
        gpus.append(
            Gpu(
                index=number,
                name=name,
                compute_capability=capability_of(name),
                driver=driver,
                uuid=said.get("GPU UUID") or None,
            )
        )
    return tuple(gpus)
