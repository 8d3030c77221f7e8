"""A compiled module that links to torch was imported before torch, which brings the libraries."""

from __future__ import annotations

from trueup.rules.definition import LogText, Rule, Sighting
from trueup.rules.log_facts import mentions
from trueup.schema.finding import Remedy
from trueup.schema.log import Log

LIBRARY = r"lib(?:torch|torch_cpu|torch_python|c10|shm)\.so: cannot open shared"
"""Libraries of every build of torch: the loader knows them by name as soon as torch is imported."""


def detect_log(log: Log) -> Sighting | None:
    for seen in mentions(log, LIBRARY):
        frames = (*seen.failure.frames, *seen.part.failure.frames)
        if any("/torch/__init__.py" in each.file for each in frames):
            continue
        library = seen.found.group().partition(":")[0]
        return Sighting(
            message=f"A compiled module that needs {library} was imported before torch.",
            evidence=(seen.evidence(log),),
            confidence="likely",
            failure=seen.failure,
        )
    return None


RULE = Rule(
    id="environment/extension-imported-before-torch",
    title="A compiled module is imported before torch",
    layers=("environment",),
    severity="error",
    silent="",
    cause=(
        "The module links to libraries that lie in torch's own folder, where the loader does not look. They are found "
        "once torch has been imported: an import sorter that puts the module first is enough."
    ),
    remedies=(
        Remedy(
            id="import-torch-first",
            kind="in-process",
            automatic=True,
            how="import torch before the compiled module, with `# isort: split` between them where imports are sorted",
        ),
        Remedy(
            id="link-with-rpath",
            kind="install",
            automatic=False,
            how="link the module with -Wl,-rpath,$(python -c 'import torch; print(torch.__path__[0])')/lib",
        ),
    ),
    caution="Where torch is not installed, or not in this interpreter, the same is printed.",
    sources=(
        "https://github.com/facebookresearch/pytorch3d/issues/1484",
        "https://github.com/ROCm/vllm/pull/46",
    ),
    log=(
        LogText(
            text="ImportError: libc10.so: cannot open shared object file: No such file or directory",
            versions="the dynamic loader; all releases of torch",
        ),
    ),
    from_log=detect_log,
)
