"""Two ranks were given the same GPU."""

from __future__ import annotations

from trueup.rules.definition import LogText, Rule, Sighting
from trueup.rules.environment_facts import configured, local_processes, machines, said, visible_gpus
from trueup.rules.facts import is_on
from trueup.rules.log_facts import mention
from trueup.schema.environment import Environment
from trueup.schema.finding import Evidence, Remedy
from trueup.schema.log import Log

DUPLICATE = r"Duplicate GPU detected ?: ?rank (?P<one>\d+) and rank (?P<other>\d+) both on CUDA device (?P<bus>\w+)"
MIG = r"(?<![A-Za-z])(?:MIG|mig)(?![a-z])"


def detect_log(log: Log) -> Sighting | None:
    seen = mention(log, DUPLICATE)
    if seen is None or mention(log, MIG):
        return None
    ranks = tuple(sorted((int(seen.found["one"]), int(seen.found["other"]))))
    return Sighting(
        message=f"Ranks {ranks[0]} and {ranks[1]} use the same GPU ({seen.found['bus']}).",
        evidence=(seen.evidence(log), Evidence(what="GPU used twice", value=seen.found["bus"], ranks=ranks)),
        failure=seen.failure,
    )


def detect_in_environment(environment: Environment) -> Sighting | None:
    started, on_cpu = local_processes(environment), configured(environment, "use_cpu")
    visible = visible_gpus(environment)
    if started is None or not environment.gpus or (on_cpu is not None and is_on(on_cpu.value)):
        return None
    here, wanted = started
    if visible == 0 or here <= visible:
        return None
    chosen = [each for each in environment.settings if each.name == "CUDA_VISIBLE_DEVICES"]
    return Sighting(
        message=f"{here} processes will be started on this machine, whose visible GPUs are {visible}.",
        evidence=(
            said(wanted, "processes"),
            Evidence(what="GPUs visible", value=visible),
            *(said(each) for each in chosen),
        ),
        remedies=(
            Remedy(
                id="as-many-processes-as-gpus",
                kind="config-edit",
                automatic=False,
                how=f"--num_processes {visible * machines(environment)} (torchrun: --nproc-per-node {visible})",
            ),
        ),
    )


RULE = Rule(
    id="launcher/duplicate-gpu-assignment",
    title="Two ranks were given the same GPU",
    layers=("launcher", "environment", "trainer"),
    severity="error",
    silent="",
    cause=(
        "There are more processes than visible GPUs, or the device is not chosen by the local rank before the first "
        "collective: no set_device, the global rank as index, or a scheduler that hands one device to two workers."
    ),
    remedies=(
        Remedy(
            id="set-device-by-local-rank",
            kind="code",
            automatic=False,
            how='torch.cuda.set_device(int(os.environ["LOCAL_RANK"])) before init_process_group (SLURM_LOCALID under '
            "srun)",
        ),
        Remedy(
            id="processes-as-gpus",
            kind="config-edit",
            automatic=False,
            how="torchrun --nproc-per-node=gpu (accelerate: --num_processes), equal to the GPUs that "
            "CUDA_VISIBLE_DEVICES shows",
        ),
    ),
    caution="On MIG slices of one card the same text is a limit of NCCL.",
    sources=(
        "https://github.com/NVIDIA/Megatron-LM/issues/661",
        "https://github.com/clessig/atmorep/issues/77",
    ),
    log=(
        LogText(text="Duplicate GPU detected", versions="NCCL 2.4 or newer", not_with=("MIG",)),
        LogText(
            text="ncclInvalidUsage: This usually reflects invalid usage of NCCL library",
            strength="supporting",
            versions="torch 1.13 or newer",
            not_with=("MIG",),
        ),
        LogText(text="invalid device ordinal", strength="supporting", versions="torch any, more ranks than GPUs"),
    ),
    from_log=detect_log,
    from_environment=detect_in_environment,
)
