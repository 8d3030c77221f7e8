"""Kernels of the Hugging Face hub: builds of kernels that are known, loaded by the package `kernels`."""

from __future__ import annotations

from dataclasses import dataclass, replace

from trueup.attention import limits
from trueup.attention.constraints import Constraint
from trueup.attention.kernel import Kernel
from trueup.attention.knowledge.flash_attn import FLASH_2, FLASH_3, FLASH_4, RELEASES
from trueup.attention.knowledge.sources import installed

TABLE = "transformers/modeling_flash_attention_utils.py"


@dataclass(frozen=True, slots=True)
class Build:
    """A repository of the hub."""

    repository: str
    of: Kernel
    stands_in_for: str = ""
    """The `attn_implementation` that transformers answers with it where the package is missing."""
    sinks: bool = False
    """Whether this build takes attention sinks (`s_aux`)."""


BUILDS = (
    Build("kernels-community/flash-attn2", FLASH_2, "flash_attention_2"),
    Build("kernels-community/flash-attn3", FLASH_3),
    Build("kernels-community/vllm-flash-attn3", FLASH_3, "flash_attention_3", sinks=True),
    Build("kernels-community/flash-attn4", FLASH_4, "flash_attention_4", sinks=True),
)


def _kernel(build: Build) -> Kernel:
    def kept(constraint: Constraint) -> bool:
        if constraint.about == "package" or constraint in RELEASES:
            return False
        return not (build.sinks and constraint.about == "attention sinks")

    package = limits.package(
        installed(TABLE, 62, "transformers 5.24"),
        "kernels",
        how="pip install kernels; it loads compiled code at run time",
    )
    return replace(
        build.of,
        name=build.repository,
        title=f"{build.of.title.partition(' (')[0]} from the hub",
        package="kernels",
        constraints=(package, *filter(kept, build.of.constraints)),
        compiled=(build.of.compiled[-1],) if build.of is FLASH_4 else (build.of.compiled[0],),
    )


KERNELS = tuple(map(_kernel, BUILDS))
