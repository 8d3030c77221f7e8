"""What goes to a machine that does not see our disk, and what comes back from there."""

from __future__ import annotations

import io
import os
import tarfile
from pathlib import Path

from trueup.runs.executors.executor import ExecutorError
from trueup.runs.executors.starting import package_root
from trueup.runs.executors.task import Task
from trueup.runs.probe import make_probe

SKIPPED = "__pycache__"


def shipment(task: Task) -> dict[str, bytes]:
    """Tar files of trueup itself and of the working folder, copied as for a run on this machine.

    Raises ProbeError for a folder that is too large, and where the copy was to hold links.
    """
    if task.links:
        raise ExecutorError("--links needs a disk that all machines share: links lead to files of this one")
    probe = make_probe(Path(task.source), Path(task.out) / "shipped")
    try:
        tree = _packed(probe.folder, probe.folder.name)
    finally:
        probe.remove()
    return {"trueup": _packed(package_root() / "trueup", "trueup"), "tree": tree}


def unpack(files: bytes, out: Path) -> None:
    """The folder of a run that was made elsewhere; `tree` is not in it any more."""
    out.mkdir(parents=True, exist_ok=True)
    if files:
        with tarfile.open(fileobj=io.BytesIO(files)) as archive:
            archive.extraction_filter = getattr(tarfile, "data_filter", None)  # None: a Python that knows no filters
            archive.extractall(out)


def _packed(folder: Path, name: str) -> bytes:
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w:gz", compresslevel=1) as archive:
        archive.add(folder, arcname=name, filter=_wanted)
    return content.getvalue()


def _wanted(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
    return None if os.path.basename(member.name) == SKIPPED else member
