"""The facts of an environment in words: one line a subject."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from trueup.reports.quantities import count, size
from trueup.schema.environment import Environment, Gpu, Tool

ATTENTION = (
    "flash-attn", "flash-attn-3", "flash-attn-4", "fa3-fwd", "vllm-flash-attn", "xformers", "transformer-engine",
    "apex", "sageattention", "flashinfer-python", "liger-kernel", "kernels", "natten", "flash-linear-attention",
    "causal-conv1d", "mamba-ssm",
)  # fmt: skip
COMPILERS = ("triton", "pytorch-triton", "triton-rocm", "pytorch-triton-rocm", "torchao", "bitsandbytes", "torchvision",
             "torchaudio", "torchtitan")  # fmt: skip
STACK = (
    "transformers", "accelerate", "peft", "trl", "lightning", "pytorch-lightning", "deepspeed", "vllm", "sglang",
    "verl", "megatron-core", "datasets", "safetensors", "huggingface-hub", "ray", "unsloth", "axolotl", "numpy",
)  # fmt: skip
NVIDIA = ("nvidia-cudnn-", "nvidia-nccl-", "nvidia-cublas", "nvidia-cuda-runtime", "nvidia-cuda-nvcc")
TOOLS = ("nvcc", "cuda toolkit", "CXX", "CC", "g++", "gcc", "clang++", "ninja", "cmake", "glibc", "libstdc++")
CACHES = ("inductor cache", "triton cache", "torch extensions", "hugging face cache")
MOST_SETTINGS = 12


def in_words(facts: Environment) -> str:
    """`Python 3.11.7, torch 2.13.0+cpu, no GPU`."""
    parts = [f"Python {facts.python or 'of unknown version'}"]
    parts.append(f"torch {torch_version(facts)}" if torch_version(facts) else "no torch")
    parts.append(gpus_in_words(facts.gpus) or "no GPU")
    return ", ".join(parts)


def torch_version(facts: Environment) -> str | None:
    """What torch says of itself, else what its metadata says."""
    if facts.torch is not None:
        return facts.torch.version
    return facts.packages["torch"].version if "torch" in facts.packages else None


def lines(facts: Environment) -> Iterator[tuple[str, str]]:
    """(subject, text); a subject about which there is nothing to say is left out."""
    for label, text in (
        ("python", _python(facts)),
        ("torch", _torch(facts)),
        ("gpu", _gpu(facts)),
        ("attention", _versions(facts, ATTENTION)),
        ("kernels", _versions(facts, COMPILERS)),
        ("libraries", _versions(facts, STACK)),
        ("nvidia", _nvidia(facts)),
        ("extensions", _extensions(facts)),
        ("tools", ", ".join(_tool(facts.tools[name]) for name in TOOLS if name in facts.tools)),
        ("machine", _machine(facts)),
        (
            "caches",
            "; ".join(_folder(facts, name) for name in CACHES if torch_version(facts) and name in facts.folders),
        ),
        ("settings", _settings(facts)),
        ("ports", ", ".join(f"{port} {'taken' if taken else 'free'}" for port, taken in facts.ports.items())),
    ):
        if text:
            yield label, text


def gpus_in_words(gpus: Iterable[Gpu]) -> str:
    """`2 × NVIDIA H100 80GB HBM3`."""
    numbers: dict[str, int] = {}
    for gpu in gpus:
        numbers[gpu.name] = numbers.get(gpu.name, 0) + 1
    return ", ".join(f"{number} × {name}" for name, number in numbers.items())


def _python(facts: Environment) -> str:
    abi = f" ({facts.python_tag})" if facts.python_tag else ""
    place = facts.executable or facts.prefix or "an unknown place"
    chosen = f", chosen by {facts.chosen_by}" if facts.chosen_by else ""
    return f"{facts.python or 'unknown version'}{abi} at {place}{chosen}; {count(len(facts.packages), 'package')}"


def _torch(facts: Environment) -> str:
    torch = facts.torch
    if torch is None:
        version = torch_version(facts)
        return f"{version}, but its own files cannot be read" if version else "not installed"
    build = f"CUDA {torch.cuda}" if torch.cuda else f"ROCm {torch.hip}" if torch.hip else "CPU only"
    parts = [torch.version, f"built for {build}"]
    if torch.string_abi:
        parts.append(f"{torch.string_abi} string ABI")
    if torch.gpu_architectures:
        parts.append(" ".join(torch.gpu_architectures))
    return ", ".join(parts)


def _gpu(facts: Environment) -> str:
    if not facts.gpus and not facts.driver:
        return "none"
    parts = []
    if facts.gpus:
        capabilities = sorted({gpu.compute_capability for gpu in facts.gpus if gpu.compute_capability})
        memory = sorted({gpu.memory_bytes for gpu in facts.gpus if gpu.memory_bytes})
        parts.append(gpus_in_words(facts.gpus))
        parts += [f"compute capability {' and '.join(capabilities)}"] if capabilities else []
        parts += [" and ".join(map(size, memory))] if memory else []
        parts += ["MIG on"] if any(gpu.mig for gpu in facts.gpus) else []
    parts.append(f"driver {facts.driver or 'unknown'}")
    if facts.driver_cuda:
        parts.append(f"for CUDA up to {facts.driver_cuda}")
    return ", ".join(parts)


def _versions(facts: Environment, names: Iterable[str]) -> str:
    return ", ".join(f"{name} {facts.packages[name].version}" for name in names if name in facts.packages)


def _nvidia(facts: Environment) -> str:
    return _versions(facts, [name for name in facts.packages if name.startswith(NVIDIA)])


def _extensions(facts: Environment) -> str:
    if not facts.extensions:
        return ""
    broken = sum(
        bool(each.missing_symbols or each.missing_libraries or each.missing_versions) for each in facts.extensions
    )
    return f"{count(len(facts.extensions), 'compiled module')} that need torch, {broken or 'none'} with parts missing"


def _tool(tool: Tool) -> str:
    return f"{tool.name} {tool.version}" if tool.version else tool.name


def _machine(facts: Environment) -> str:
    limits = facts.limits
    parts = [facts.platform or "", facts.machine or ""]
    if limits.get("memory_bytes"):
        parts.append(f"{size(limits['memory_bytes'])} memory")
    cpus = limits.get("container_cpus") or limits.get("cpus")
    if cpus:
        parts.append(f"{cpus:g} CPUs")
    if limits.get("shm_bytes"):
        parts.append(f"{size(limits['shm_bytes'])} in /dev/shm")
    if limits.get("container"):
        parts.append(f"in {limits['container']}")
    return ", ".join(part for part in parts if part)


def _folder(facts: Environment, name: str) -> str:
    folder = facts.folders[name]
    about = [str(folder["filesystem"])] if folder.get("filesystem") else []
    if folder.get("free_bytes") is not None:
        about.append(f"{size(folder['free_bytes'])} free")
    about += [
        word
        for word, key in (("network", "network"), ("read only", "read_only"), ("noexec", "noexec"))
        if folder.get(key)
    ]
    about += ["not writable"] if folder.get("writable") is False else []
    return f"{name} {folder.get('path')}" + (f" ({', '.join(about)})" if about else "")


def _settings(facts: Environment) -> str:
    shown = [f"{each.name}={each.value}" for each in facts.settings if each.source == "environment"]
    files = dict.fromkeys(each.source for each in facts.settings if each.source != "environment")
    text = ", ".join(shown[:MOST_SETTINGS])
    if len(shown) > MOST_SETTINGS:
        text += f" and {len(shown) - MOST_SETTINGS} more"
    return "; ".join(part for part in (text, ", ".join(f"read {file}" for file in files)) if part)
