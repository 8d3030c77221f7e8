"""Versions and variables of the job, as its processes told them."""

from __future__ import annotations

from typing import Any

from trueup.runs.merging.job import Job
from trueup.runs.merging.values import items, mapping, text
from trueup.runs.redaction import redacted_variables, without_home


def merged_environment(job: Job) -> dict[str, Any]:
    """`python`, `executable`, `torch`, `packages`, `variables` of the lead rank, else of a launcher."""
    log = job.lead.log if job.lead else next(iter(job.launchers), None)
    if log is None:
        return {}
    libraries = {str(event.get("name")): event for event in log.of("library")}
    found: dict[str, Any] = {
        "python": text(log.process.get("python")),
        "executable": without_home(text(log.process.get("executable")) or "") or None,
        "torch": text(libraries["torch"].get("version")) if "torch" in libraries else None,
        "build": dict(mapping(libraries["torch"].get("detail"))) if "torch" in libraries else None,
        "packages": {
            name.replace("_", "-"): str(event["version"]) for name, event in libraries.items() if event.get("version")
        },
        "devices": [str(name) for name in items(job.last_of_lead("model").get("devices"))] or None,
        "variables": redacted_variables(mapping(log.process.get("variables"))),
    }
    return {name: value for name, value in found.items() if value is not None}
