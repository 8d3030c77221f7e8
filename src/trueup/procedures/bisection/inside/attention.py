"""Attention: the kernel with which it fails, and those with which it passes."""

from __future__ import annotations

from collections.abc import Iterator

from trueup.procedures.bisection.inside.asking import forced, latest, outcomes
from trueup.procedures.bisection.trials import Trials
from trueup.schema.bisection import Attempt, Narrowed
from trueup.schema.record import Record

ON_CPU = ("flash", "math")
ON_GPU = ("flash", "mem_efficient", "cudnn", "math")
"""Kernels of scaled_dot_product_attention, each of which can be left alone."""
OWN_CHOICE = "transformers"
"""Package whose models have hand-written attention, too."""
PLAIN = ("sdpa-math", "eager")
"""Kernels of a job that has no other."""


def most(record: Record) -> int:
    """Runs that the question may cost."""
    return len(candidates(record))


def narrow(trials: Trials, base: Attempt, record: Record) -> Iterator[Narrowed]:
    """Leave the job one kernel after the other."""
    names = candidates(record)
    asked = [forced(base, "attention", name) for name in names]
    told = dict(zip(names, outcomes(trials, asked, "attention"), strict=True))
    own = own_kernels(latest(trials, base, record))
    fails = [name for name in names if told[name] == "fails"]
    passes = [name for name in names if told[name] == "passes"]
    odd = [name for name in names if told[name] == "unresolved"]
    if not passes and not fails:
        return
    evidence = "; ".join(
        f"{how} with attention={'|'.join(which)}"
        for how, which in (("fails", fails), ("passes", passes), ("ends otherwise or changes nothing", odd))
        if which
    )
    answer = _answer(own, fails, passes)
    yield Narrowed(layer="attention", what="kernel", answer=answer, evidence=evidence)


def candidates(record: Record) -> tuple[str, ...]:
    """The values of `--set attention` that can run where the job ran."""
    kernels = ON_GPU if _has_gpu(record) else ON_CPU
    packages = record.environment.get("packages") or {}
    return (*kernels, *(("eager", "sdpa") if OWN_CHOICE in packages else ()))


def own_kernels(record: Record) -> tuple[str, ...]:
    """The kernels that the job took, as the record names them, but for the plain ones."""
    names = tuple(kernel.name for kernel in record.actual.attention.kernels)
    return tuple(name for name in names if name not in PLAIN) or names


def _answer(own: tuple[str, ...], fails: list[str], passes: list[str]) -> str:
    kernel = ", ".join(own) or ", ".join(fails) or "the kernel of the job"
    if fails and passes:
        return f"{kernel}; fails with {', '.join(fails)}, not with {', '.join(passes)}"
    return kernel if passes else f"any kernel: {', '.join(fails)}"


def _has_gpu(record: Record) -> bool:
    """By the devices of the model; where it failed before one was seen, by the build of torch."""
    devices = record.environment.get("devices")
    return "cuda" in str(devices) if devices else "+cpu" not in str(record.environment.get("torch"))
