"""What configuration asks of the stack: environment variables, and the files of accelerate, DeepSpeed and the model."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from trueup.environment.host import Host, names_in, text_of, without_credentials
from trueup.environment.project import project_settings
from trueup.environment.yaml_subset import BeyondSubset, flattened
from trueup.schema.environment import Setting

PREFIXES = (
    "ACCELERATE_", "FSDP_", "TORCH", "PYTORCH_", "NCCL_", "RCCL_", "GLOO_", "UCX_", "TRITON_", "HF_", "TRANSFORMERS_",
    "CUDA_", "CUDNN_", "NVIDIA_", "NVTE_", "FLASH_ATT", "XFORMERS_", "BNB_", "DS_", "DEEPSPEED_", "VLLM_", "SGLANG_",
    "VERL_", "AOT_", "PEFT_", "MEGATRON_", "SLURM_", "OMPI_COMM_", "PMI_", "PIP_", "UV_", "HIP_", "ROCM_", "ROCR_",
)  # fmt: skip
NAMES = frozenset((
    "MAX_JOBS", "NVCC_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "LD_LIBRARY_PATH", "LD_PRELOAD", "LIBRARY_PATH",
    "PYTHONPATH", "PYTHONHOME", "PYTHONNOUSERSITE", "PYTHONUSERBASE", "MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE",
    "RANK", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "NODE_RANK", "CC", "CXX", "CUDAHOSTCXX", "XDG_CACHE_HOME", "TMPDIR",
    "CONDA_PREFIX", "VIRTUAL_ENV", "TOKENIZERS_PARALLELISM", "WANDB_MODE", "PDSH_RCMD_TYPE",
))  # fmt: skip
SECRET = re.compile(r"(?:^|_)(?:TOKEN|KEY|SECRET|PASS(?:WORD)?|PASSWD|CREDENTIALS?|AUTH|PAT)(?:$|_)", re.IGNORECASE)
HIDDEN = "***"

DEEPSPEED_KEYS = frozenset({"zero_optimization", "train_micro_batch_size_per_gpu", "train_batch_size"})
ATTENTION_KEYS = ("attn_implementation", "_attn_implementation", "_attn_implementation_internal")
DTYPE_KEYS = ("dtype", "torch_dtype")
MODEL_KEYS = ("model_type", "quantization_config")
"""Without one of them a file with a dtype is no configuration of a model."""
MOST_FILES = 40
"""Files looked into in the working folder, which may be the folder of a data set."""


def settings(host: Host) -> tuple[tuple[Setting, ...], tuple[str, ...]]:
    """All settings that touch the stack, and the files that could not be read."""
    notes: list[str] = []
    found = [*variables(host), *accelerate_settings(host, notes), *folder_settings(host, notes)]
    found += project_settings(host, notes)
    return tuple(found), tuple(notes)


def variables(host: Host) -> Iterator[Setting]:
    """Environment variables by name; the value of a secret is never kept."""
    for name, value in sorted(host.variables.items()):
        if name in NAMES or name.startswith(PREFIXES):
            yield Setting(name=name, value=_shown(name, value), source="environment")


def accelerate_file(host: Host) -> Path | None:
    """The file that `accelerate launch` reads when it is given none, as accelerate 1.x looks for it."""
    cache = host.variables.get("XDG_CACHE_HOME") or "~/.cache"
    home = host.expanded(host.variables.get("HF_HOME") or f"{cache}/huggingface")
    for name in ("default_config.yaml", "default_config.json"):
        if (home / "accelerate" / name).is_file():
            return home / "accelerate" / name
    return None


def accelerate_settings(host: Host, notes: list[str]) -> Iterator[Setting]:
    """`distributed_type`, `fsdp_config.fsdp_version`, … of the default configuration of accelerate."""
    path = accelerate_file(host)
    text = None if path is None else text_of(path)
    if path is None or text is None:
        return
    try:
        values = flattened(text) if path.suffix == ".yaml" else _flattened_json(msgspec.json.decode(text))
    except (BeyondSubset, msgspec.DecodeError) as error:
        notes.append(f"{path} was not read: {error}")
        return
    for name, value in values.items():
        yield Setting(name=name, value=_shown(name, value), source=str(path))


def folder_settings(host: Host, notes: list[str]) -> Iterator[Setting]:
    """DeepSpeed configurations in the working folder, and the attention that a model's configuration there asks for."""
    names = [name for name in names_in(host.folder) if name.endswith(".json")][:MOST_FILES]
    for name in names:
        path = host.folder / name
        text = text_of(path) if path.is_file() else None
        if text is None or not _may_matter(text):
            continue
        try:
            said = msgspec.json.decode(text)
        except msgspec.DecodeError as error:
            notes.append(f"{path} was not read: {error}")
            continue
        if not isinstance(said, dict):
            continue
        if DEEPSPEED_KEYS & said.keys():
            for key, value in _flattened_json(said).items():
                yield Setting(name=f"deepspeed.{key}", value=_shown(key, value), source=str(path))
        yield from _model_settings(said, path)


def _model_settings(said: dict[str, Any], path: Path) -> Iterator[Setting]:
    """Attention, dtype of the stored weights and quantisation, of a model's `config.json`."""
    for key in ATTENTION_KEYS:
        if isinstance(said.get(key), str):
            yield Setting(name="model.attn_implementation", value=said[key], source=str(path))
    if not any(key in said for key in MODEL_KEYS):
        return
    dtype = next((said[key] for key in DTYPE_KEYS if isinstance(said.get(key), str)), None)
    if dtype is not None:
        yield Setting(name="model.dtype", value=dtype.removeprefix("torch."), source=str(path))
    if isinstance(said.get("quantization_config"), dict):
        for key, value in _flattened_json(said["quantization_config"]).items():
            yield Setting(name=f"model.quantization_config.{key}", value=_shown(key, value), source=str(path))


def _shown(name: str, value: str) -> str:
    return HIDDEN if SECRET.search(name) and value else without_credentials(value)


def _may_matter(text: str) -> bool:
    return any(f'"{key}"' in text for key in (*DEEPSPEED_KEYS, *ATTENTION_KEYS, *MODEL_KEYS))


def _flattened_json(value: Any, name: str = "") -> dict[str, str]:
    if isinstance(value, dict):
        found: dict[str, str] = {}
        for key, item in value.items():
            found |= _flattened_json(item, f"{name}.{key}" if name else str(key))
        return found
    if isinstance(value, list):
        return {name: ",".join(str(item) for item in value)}
    return {name: "" if value is None else str(value).lower() if isinstance(value, bool) else str(value)}
