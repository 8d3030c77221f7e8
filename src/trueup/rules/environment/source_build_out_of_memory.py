"""Compilers of a source build were ended for lack of host memory."""

from __future__ import annotations

from trueup.rules.definition import LogText, Rule, Sighting
from trueup.rules.environment_facts import said, variable
from trueup.rules.expression import Expression
from trueup.rules.log_facts import is_build, mentions
from trueup.schema.environment import Environment
from trueup.schema.finding import Evidence, Remedy
from trueup.schema.log import Log

KILLED = r"(?m)(?:^|: |\d )Killed(?P<program>[^\n]*)$"
COMPILERS = Expression(r"\b(?:nvcc|cicc|ptxas|cudafe\+\+|cc1plus|cc1|g\+\+|gcc|c\+\+|ninja|setup\.py|pip)(?!\w)")
TRAINING = Expression(r"\b(?:torchrun|accelerate|deepspeed|train\w*\.py)\b|python3? (?!setup\.py|-m pip|-m build)\S")
SIGNAL = r"\bsignal 9\b|Killed signal terminated program|Killed \(program|SIGKILL|exit (?:code|status) 137"


def detect_log(log: Log) -> Sighting | None:
    """The kernel's or the shell's word, next to a compiler; the word alone proves nothing."""
    building = is_build(log)
    for seen in mentions(log, f"{KILLED}|{SIGNAL}"):
        line = seen.evidence(log)
        program = str(line.value)
        of_compiler = bool(COMPILERS.search(program)) or seen.failure.kind == "build"
        if TRAINING.search(program) and not of_compiler:
            continue
        if not (building or of_compiler or seen.found.group().strip() == "Killed"):
            continue
        return Sighting(
            message="A compiler of the build was killed; the machine or the container had no memory left."
            if building or of_compiler
            else "Something was killed; if it was a build, the compilers had no memory left.",
            evidence=(line,),
            confidence="established" if of_compiler else "likely" if building else "possible",
            failure=seen.failure,
        )
    return None


BYTES_PER_JOB = 5 * 1000**3


def detect_in_environment(environment: Environment) -> Sighting | None:
    jobs = variable(environment, "MAX_JOBS")
    memory = environment.limits.get("memory_bytes")
    if jobs is None or not jobs.value.isdigit() or not isinstance(memory, int):
        return None
    fitting = max(1, memory // BYTES_PER_JOB)
    if int(jobs.value) <= fitting:
        return None
    return Sighting(
        message=(
            f"MAX_JOBS={jobs.value} compilers at once need about {int(jobs.value) * BYTES_PER_JOB / 1e9:.0f} GB; "
            f"{memory / 1e9:.0f} GB are there."
        ),
        evidence=(said(jobs), Evidence(what="memory of this machine or container, in bytes", value=memory)),
        confidence="possible",
        severity="note",
        remedies=(Remedy(id="fewer-build-jobs", kind="env-var", automatic=False, how=f"export MAX_JOBS={fitting}"),),
    )


RULE = Rule(
    id="environment/source-build-out-of-memory",
    title="Parallel nvcc jobs exhaust host memory during build",
    layers=("environment", "memory"),
    severity="error",
    silent="",
    cause=(
        "One nvcc job of flash-attn needs several GB of host memory, and ninja starts as many as there are cores. In "
        "a container the limit of the cgroup counts, not the memory of the host."
    ),
    remedies=(
        Remedy(
            id="limit-build-jobs",
            kind="env-var",
            automatic=True,
            how="MAX_JOBS=4 NVCC_THREADS=1 pip install --no-build-isolation PACKAGE, with MAX_JOBS about free memory "
            "/ 5 GB",
        ),
        Remedy(
            id="limit-build-architectures",
            kind="env-var",
            automatic=False,
            how='FLASH_ATTN_CUDA_ARCHS=90 (flash-attn) or TORCH_CUDA_ARCH_LIST="9.0" for the GPU that is used',
        ),
        Remedy(
            id="show-fitting-wheel",
            kind="install",
            automatic=False,
            how="trueup doctor --for PACKAGE: a ready wheel needs no compiler",
        ),
    ),
    caution="The word Killed alone proves nothing: it must come from a build. A job that trains is killed for other "
    "reasons.",
    sources=("https://github.com/Dao-AILab/flash-attention/issues/347",),
    log=(
        LogText(text="died due to signal 9 (Kill signal)", versions="nvcc about cicc, ptxas and cudafe++"),
        LogText(text="fatal error: Killed signal terminated program", versions="g++ 9 or newer"),
        LogText(text="internal compiler error: Killed (program", versions="g++ 8 or older"),
        LogText(text="cc1plus: out of memory allocating", versions="g++"),
        LogText(text="virtual memory exhausted: Cannot allocate memory", versions="g++"),
    ),
    from_log=detect_log,
    from_environment=detect_in_environment,
)
