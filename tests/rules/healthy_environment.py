"""A machine with two H100 and all of the stack on it, in which everything fits; with the noise of real ones."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from trueup.schema.environment import Environment

SITE = "/env/lib/python3.11/site-packages"
GPU = "NVIDIA H100 80GB HBM3"


def package(name: str, version: str, *requires: str, **rest: Any) -> dict[str, Any]:
    return {"name": name, "version": version, "requires": requires, "location": SITE, "installer": "pip", **rest}


def packages(*each: dict[str, Any]) -> dict[str, Any]:
    return {one["name"]: one for one in each}


def gpu(index: int = 0, name: str = GPU, capability: str = "9.0", **rest: Any) -> dict[str, Any]:
    total = 85_520_809_984
    return {"index": index, "name": name, "compute_capability": capability, "memory_bytes": total, **rest}


def tool(name: str, version: str | None = None, path: str | None = None) -> dict[str, Any]:
    return {"name": name, "version": version, "path": path or f"/usr/bin/{name}"}


def variable(name: str, value: str) -> dict[str, Any]:
    return {"name": name, "value": value, "source": "environment"}


def accelerate(**values: str) -> list[dict[str, Any]]:
    """Lines of accelerate's configuration; `fsdp_config__fsdp_version` for a key of a section."""
    file = "/home/u/.cache/huggingface/accelerate/default_config.yaml"
    return [{"name": name.replace("__", "."), "value": value, "source": file} for name, value in values.items()]


def extension(file: str, package: str, **rest: Any) -> dict[str, Any]:
    defaults = {"string_abi": "cxx11", "python_tag": "cp311", "machine": "x86_64", "built_for_torch": ">=2.8,<2.10"}
    architectures = ("sm_80", "sm_90", "compute_90")
    return {"file": file, "package": package, "gpu_architectures": architectures, **defaults, **rest}


def folder(path: str, **rest: Any) -> dict[str, Any]:
    facts = {"set_by": "default", "exists": True, "writable": True, "filesystem": "ext4", "network": False}
    return {"path": path, **facts, "read_only": False, "noexec": False, "free_bytes": 10**12, **rest}


FLASH = "flash_attn_2_cuda.cpython-311-x86_64-linux-gnu.so"

HEALTHY: dict[str, Any] = {
    "python": "3.11.7",
    "python_tag": "cp311",
    "executable": "/env/bin/python",
    "prefix": "/env",
    "platform": "Linux 6.8.0, Ubuntu 22.04.5 LTS",
    "machine": "x86_64",
    "torch": {
        "version": "2.8.0+cu128",
        "cuda": "12.8",
        "string_abi": "cxx11",
        "gpu_architectures": ["sm_75", "sm_80", "sm_86", "sm_90", "sm_100", "sm_120"],
    },
    "packages": packages(
        package("pip", "25.0"),
        package("torch", "2.8.0+cu128", "triton==3.4.0", "nvidia-nccl-cu12==2.27.3", "sympy>=1.13.3"),
        package("triton", "3.4.0"),
        package("nvidia-nccl-cu12", "2.27.3"),
        package("sympy", "1.14.0"),
        package("torchvision", "0.23.0+cu128", "torch==2.8.0", "numpy"),
        package("numpy", "2.2.6"),
        package("flash-attn", "2.8.3", "torch", "einops"),
        package("einops", "0.8.1"),
        package("transformers", "4.57.1", "tokenizers<=0.23.0,>=0.22.0", "flash-attn>=3; python_version < '3'"),
        package("tokenizers", "0.22.1"),
        package("accelerate", "1.10.0", "torch>=2.0.0", "numpy<3.0.0,>=1.17"),
        package("peft", "0.17.0", "torch>=1.13.0", "transformers", "accelerate>=0.21.0"),
        package("bitsandbytes", "0.47.0", "torch<3,>=2.2"),
        package("deepspeed", "0.17.5", "torch", "numpy"),
        package("xformers", "0.0.32", "torch==2.8.0", "numpy"),
    ),
    "extensions": [
        extension(FLASH, "flash-attn"),
        extension("torchvision/_C.so", "torchvision", python_tag=None, gpu_architectures=("sm_50", "sm_90", "sm_120")),
        extension("xformers/_C.so", "xformers", python_tag=None),
        extension("stable/_C.abi3.so", "stable", python_tag="abi3", stable_abi=True, gpu_architectures=()),
    ],
    "gpus": [gpu(0, memory_used_bytes=600 << 20), gpu(1)],
    "driver": "570.124.06",
    "driver_cuda": "12.8",
    "tools": {
        "g++": tool("g++", "11"),
        "gcc": tool("gcc", "11"),
        "nvcc": tool("nvcc", "12.8", "/usr/local/cuda-12.8/bin/nvcc"),
        "cuda toolkit": tool("cuda toolkit", "12.8", "/usr/local/cuda-12.8"),
        "glibc": tool("glibc", "2.35", "/lib/x86_64-linux-gnu/libc.so.6"),
        "libstdc++": tool("libstdc++", "3.4.30"),
        "libcuda.so.1": tool("libcuda.so.1", None, "/lib/x86_64-linux-gnu/libcuda.so.1"),
        "library that triton links": tool("libcuda.so.1", None, f"{SITE}/triton/backends/nvidia/driver.py"),
        "triton ptxas": tool("triton ptxas", "12.8", f"{SITE}/triton/backends/nvidia/bin/ptxas"),
    },
    "settings": [
        variable("NCCL_DEBUG", "WARN"),
        variable("NCCL_SOCKET_IFNAME", "eth,ib"),
        variable("HF_TOKEN", "***"),
        *accelerate(
            compute_environment="LOCAL_MACHINE",
            distributed_type="MULTI_GPU",
            num_processes="2",
            num_machines="1",
            mixed_precision="bf16",
            use_cpu="false",
        ),
    ],
    "folders": {
        "inductor cache": folder("/tmp/torchinductor_u"),
        "triton cache": folder("/home/u/.triton/cache"),
        "torch extensions": folder("/home/u/.cache/torch_extensions"),
        "hugging face cache": folder("/home/u/.cache/huggingface"),
        "tmp": folder("/tmp"),
        "shm": folder("/dev/shm", filesystem="tmpfs"),
    },
    "limits": {"memory_bytes": 10**12, "cpus": 64, "shm_bytes": 10**11, "container": "docker", "open_files": 65536},
    "interfaces": ["docker0", "eth0", "ib0", "lo"],
    "ports": {"29500": False},
}

CPU_ONLY: dict[str, Any] = {
    "torch": {"version": "2.8.0+cpu", "cuda": None, "string_abi": "cxx11", "gpu_architectures": []},
    "gpus": [],
    "driver": None,
    "tools": {"g++": tool("g++", "12"), "gcc": tool("gcc", "12")},
    "extensions": [],
    "packages": packages(package("torch", "2.8.0+cpu", "sympy"), package("sympy", "1.14.0"), package("pip", "25.0")),
    "settings": [],
    "limits": {"memory_bytes": 10**10, "shm_bytes": 10**10},
}
"""What the healthy machine is replaced by for a laptop or a runner of a CI: each key as a whole."""


def environment(change: Mapping[str, Any]) -> Environment:
    """The healthy environment with changes: mappings are merged, `+key` appends, `!key` replaces as a whole."""
    return msgspec.convert(merged(HEALTHY, change), Environment)


def merged(base: Mapping[str, Any], change: Mapping[str, Any]) -> dict[str, Any]:
    result = dict(base)
    for key, value in change.items():
        if key.startswith("+"):
            result[key[1:]] = [*result.get(key[1:], ()), *value]
        elif key.startswith("!"):
            result[key[1:]] = value
        elif isinstance(value, Mapping) and isinstance(result.get(key), Mapping):
            result[key] = merged(result[key], value)
        else:
            result[key] = value
    return {key: value for key, value in result.items() if value is not ...}
