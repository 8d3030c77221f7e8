"""What is installed: extensions, toolkits, compilers, drivers, requirements."""

from healthy_environment import (
    CPU_ONLY,
    FLASH,
    accelerate,
    extension,
    folder,
    gpu,
    package,
    packages,
    tool,
    variable,
)
from rule_case import negative, positive

ERROR = "c10::Error::Error(c10::SourceLocation, std::string)"
SET_DEVICE = "c10::cuda::SetDevice(signed char)"
LAPTOP = {f"!{key}": value for key, value in CPU_ONLY.items()}


def laptop(**changes):
    """The machine without a GPU, with changes."""
    return {**LAPTOP, **changes}


def flash(**changes):
    """Only flash-attn's module, changed."""
    return {"extensions": [extension(FLASH, "flash-attn", **changes)]}


def vllm(pin="torch==2.7.1"):
    return {"packages": packages(package("vllm", "0.10.0", pin))}


UV = "/job/pyproject.toml"


def build(headers="/tmp/pip-build-env-x1_/overlay/lib/python3.11/site-packages"):
    """flash-attn's module misses symbols, and was compiled with the torch in this folder."""
    return {**flash(built_for_torch=">=2.3,<2.8", missing_symbols=[SET_DEVICE]), "torch_headers": {FLASH: headers}}


def uv_project(**settings):
    """A project of uv without flash-attn installed; `no_build_isolation="true"` for a key of [tool.uv]."""
    values = {"dependencies": "torch,flash-attn,transformers", **settings}
    lines = [{"name": f"uv.{key.replace('_', '-')}", "value": value, "source": UV} for key, value in values.items()]
    return {"+settings": lines, "packages": {"flash-attn": ...}, "!extensions": []}


CASES = [
    # Builds that see another torch
    *(
        positive(
            "environment/build-isolation-hides-torch",
            f"compiled in an isolated build of {tool}",
            build(headers),
            severity="error",
            also=("error environment/extension-torch-version-mismatch",),
        )
        for tool, headers in (
            ("pip", "/tmp/pip-build-env-x1_/overlay/lib/python3.11/site-packages"),
            ("uv", "/home/u/.cache/uv/builds-v0/.tmpQ1/lib/python3.11/site-packages"),
        )
    ),
    negative(
        "environment/build-isolation-hides-torch",
        "compiled by its publisher for another torch",
        build("/__w/_temp/conda_environment_1/lib/python3.10/site-packages"),
        instead=("error environment/extension-torch-version-mismatch",),
    ),
    negative(
        "environment/build-isolation-hides-torch",
        "compiled in an isolated build, and all fits",
        {"torch_headers": build()["torch_headers"]},
    ),
    positive(
        "environment/build-isolation-hides-torch",
        "a project of uv that depends on flash-attn and says nothing of its build",
        uv_project(),
        confidence="likely",
    ),
    *(
        negative("environment/build-isolation-hides-torch", f"a project of uv with {key}", uv_project(**{key: value}))
        for key, value in (
            ("no_build_isolation_package", "flash-attn"),
            ("no_build_isolation", "true"),
            ("extra_build_dependencies", "flash-attn"),
            ("sources", "flash-attn,torch"),
        )
    ),
    # Extensions against torch
    positive(
        "environment/extension-cxx11-abi-mismatch",
        "an old wheel of flash-attn",
        flash(string_abi="old", missing_symbols=[ERROR]),
        severity="error",
    ),
    negative(
        "environment/extension-cxx11-abi-mismatch",
        "the old ABI, and nothing is missing",
        flash(string_abi="old"),
    ),
    positive(
        "environment/extension-torch-version-mismatch",
        "same ABI, another release",
        flash(built_for_torch=">=2.3,<2.8", missing_symbols=[SET_DEVICE]),
        severity="error",
    ),
    positive(
        "environment/extension-torch-version-mismatch",
        "by the name of a wheel whose modules were not seen",
        {
            "extensions": [],
            "packages": {"flash-attn": {"origin": "https://h/flash_attn-2.8.3%2Bcu12torch2.7cxx11abiTRUE-cp311.whl"}},
        },
        confidence="likely",
    ),
    negative(
        "environment/extension-torch-version-mismatch",
        "the name says another torch, and all symbols are there",
        {"packages": {"flash-attn": {"version": "2.8.3+cu128torch2.7"}}},
    ),
    negative(
        "environment/extension-torch-version-mismatch",
        "a module for another Python that is never loaded, beside the right one",
        {
            "+extensions": [
                extension(FLASH.replace("311", "310"), "flash-attn", python_tag="cp310", missing_symbols=["x"])
            ]
        },
    ),
    positive(
        "environment/cuda-extension-on-cpu-torch",
        "flash-attn beside a CPU torch",
        laptop(
            packages=packages(package("flash-attn", "2.8.3", "torch")),
            extensions=[
                extension(FLASH, "flash-attn", missing_symbols=[SET_DEVICE], missing_cuda_symbols=[SET_DEVICE])
            ],
        ),
    ),
    negative(
        "environment/cuda-extension-on-cpu-torch",
        "an extension without CUDA code beside a CPU torch",
        laptop(extensions=[extension("torchvision/_C.so", "torchvision", gpu_architectures=())]),
    ),
    positive(
        "environment/cuda-extension-on-cpu-torch",
        "torchao goes on without its CUDA modules",
        laptop(
            packages=packages(package("torchao", "0.18.0")),
            extensions=[extension("torchao/_C.abi3.so", "torchao", missing_libraries=["libc10_cuda.so"])],
        ),
        severity="note",
    ),
    positive(
        "environment/extension-library-missing",
        "built for CUDA 11",
        flash(missing_libraries=["libcudart.so.11.0"]),
        severity="error",
    ),
    negative(
        "environment/extension-library-missing",
        "one of several modules for several releases of FFmpeg",
        {
            "extensions": [
                extension("torchcodec/core4.so", "torchcodec", python_tag=None, missing_libraries=["libavutil.so.56"])
            ]
        },
    ),
    positive(
        "environment/extension-for-other-python",
        "a folder that was copied from Python 3.10",
        {"extensions": [extension(FLASH.replace("311", "310"), "flash-attn", python_tag="cp310")]},
        severity="error",
    ),
    positive(
        "environment/extension-for-other-python",
        "an Arm module on an x86 machine",
        flash(machine="aarch64"),
        severity="error",
    ),
    negative(
        "environment/extension-for-other-python",
        "torchao brings one module that serves its oldest Python only",
        {
            "extensions": [
                extension("torchao/_C.abi3.so", "torchao", python_tag="abi3"),
                extension("torchao/_C_mxfp8.cpython-310-x86_64-linux-gnu.so", "torchao", python_tag="cp310"),
            ]
        },
    ),
    positive(
        "environment/extension-torch-version-mismatch",
        "xformers goes on without its kernels, slower",
        {"extensions": [extension("xformers/_C.so", "xformers", python_tag=None, missing_symbols=[SET_DEVICE])]},
    ),
    negative(
        "environment/extension-for-other-python",
        "modules of several Pythons side by side",
        {
            "extensions": [
                extension(FLASH.replace("311", each), "flash-attn", python_tag=f"cp{each}") for each in ("310", "311")
            ]
        },
    ),
    positive(
        "environment/host-runtime-library-too-old",
        "a wheel of a newer distribution",
        {**flash(missing_versions=["GLIBC_2.32"]), "tools": {"glibc": tool("glibc", "2.31")}},
        severity="error",
    ),
    negative(
        "environment/host-runtime-library-too-old",
        "an old glibc that nothing minds",
        {"tools": {"glibc": tool("glibc", "2.31")}},
    ),
    # GPUs against binaries
    positive(
        "environment/gpu-architecture-not-built-in",
        "torch without code for a new card",
        {
            "gpus": [gpu(0, "NVIDIA GeForce RTX 5090", "12.0")],
            "torch": {"gpu_architectures": ["sm_80", "sm_90"]},
            "extensions": [],
            "settings": [],
        },
        severity="error",
    ),
    positive(
        "environment/gpu-architecture-not-built-in",
        "an extension without code for this card",
        {"extensions": [extension("custom/_C.so", "custom", gpu_architectures=("sm_75",))]},
        confidence="likely",
    ),
    negative(
        "environment/gpu-architecture-not-built-in",
        "code of the same major version runs",
        {
            "gpus": [gpu(0, "NVIDIA A10", "8.6")],
            "extensions": [extension("custom/_C.so", "custom", gpu_architectures=("sm_80",))],
            "settings": [],
        },
    ),
    negative(
        "environment/gpu-architecture-not-built-in",
        "intermediate code is translated",
        {"extensions": [extension("custom/_C.so", "custom", gpu_architectures=("compute_70",))]},
    ),
    positive(
        "attention/bundled-flash-rejects-newer-gpu",
        "an old xformers on a new card",
        {
            "gpus": [gpu(0, "NVIDIA GeForce RTX 5090", "12.0")],
            "extensions": [extension("xformers/_C.so", "xformers", gpu_architectures=("sm_80", "sm_90a"))],
            "settings": [],
        },
        severity="error",
        confidence="likely",
    ),
    negative(
        "attention/bundled-flash-rejects-newer-gpu",
        "an architecture that nobody could read",
        flash(gpu_architectures=()),
    ),
    positive(
        "attention/flash-gpu-architecture-too-old",
        "flash-attn on Turing",
        {"gpus": [gpu(0, "Tesla T4", "7.5")], "settings": [], "extensions": []},
        severity="error",
    ),
    negative(
        "attention/flash-gpu-architecture-too-old",
        "Turing without flash-attn",
        {"gpus": [gpu(0, "Tesla T4", "7.5")], "packages": {"flash-attn": ...}, "settings": [], "extensions": []},
    ),
    positive(
        "attention/flash-backward-head-dim-limit",
        "flash-attn 1 on a card with little shared memory",
        {
            "gpus": [gpu(0, "NVIDIA A10", "8.6")],
            "packages": {"flash-attn": {"version": "1.0.9"}},
            "settings": [],
            "extensions": [],
        },
        severity="note",
        confidence="possible",
    ),
    negative(
        "attention/flash-backward-head-dim-limit",
        "flash-attn 1 on an A100",
        {
            "gpus": [gpu(0, "A100", "8.0")],
            "packages": {"flash-attn": {"version": "1.0.9"}},
            "settings": [],
            "extensions": [],
        },
    ),
    # Torch against the machine
    positive(
        "environment/driver-too-old-for-cuda",
        "CUDA 13 on a driver of CUDA 12",
        {"torch": {"cuda": "13.0"}, "tools": {"cuda toolkit": tool("cuda toolkit", "13.0")}},
        severity="error",
    ),
    negative(
        "environment/driver-too-old-for-cuda", "a newer minor version on an older driver", {"driver": "535.104.05"}
    ),
    negative(
        "environment/driver-too-old-for-cuda",
        "the forward compatibility package",
        {
            "torch": {"cuda": "13.0"},
            "tools": {
                "cuda toolkit": tool("cuda toolkit", "13.0"),
                "libcuda.so.1": tool("libcuda.so.1", None, "/usr/local/cuda/compat/libcuda.so.1"),
            },
        },
    ),
    positive(
        "environment/cpu-only-torch-beside-gpu",
        "the CPU wheel on a GPU machine",
        {**laptop(), "!gpus": [gpu()], "!driver": "570.124.06"},
    ),
    negative("environment/cpu-only-torch-beside-gpu", "the CPU wheel on a laptop", laptop()),
    # Requirements
    positive(
        "environment/dependency-resolution-replaces-torch",
        "vllm pins another torch",
        vllm(),
        severity="error",
    ),
    positive(
        "environment/dependency-resolution-replaces-torch",
        "the root of a mismatch",
        {**vllm("torch<2.8"), **flash(missing_symbols=[SET_DEVICE])},
        severity="error",
        also=("error environment/extension-torch-version-mismatch",),
    ),
    negative(
        "environment/dependency-resolution-replaces-torch", "a pin that holds for a local build", vllm("torch==2.8.0")
    ),
    negative(
        "environment/dependency-resolution-replaces-torch",
        "a pin for another platform",
        vllm("torch==2.7.1; sys_platform == 'darwin' or python_version < '3.10'"),
    ),
    positive(
        "environment/installed-versions-conflict",
        "an older transformers than trl needs",
        {"packages": packages(package("trl", "0.24.0", "transformers>=4.58"))},
    ),
    positive(
        "environment/installed-versions-conflict",
        "installed without its dependencies",
        {"packages": {"einops": ...}},
    ),
    negative(
        "environment/installed-versions-conflict",
        "a conflict between packages of no concern",
        {"packages": packages(package("jupyter", "1.0", "notebook>7"), package("notebook", "6.0"))},
    ),
    negative(
        "environment/installed-versions-conflict",
        "conda names its packages in its own way",
        {"packages": {"einops": ..., "numpy": {"installer": "conda"}}},
    ),
    positive(
        "environment/no-prebuilt-wheel-for-torch",
        "FlashAttention asked for on a torch without wheels",
        {
            "torch": {"version": "2.13.0+cu128"},
            "!packages": packages(package("torch", "2.13.0+cu128")),
            "extensions": [],
            "settings": [
                {"name": "model.attn_implementation", "value": "flash_attention_2", "source": "/job/config.json"}
            ],
        },
        confidence="likely",
    ),
    negative(
        "environment/no-prebuilt-wheel-for-torch",
        "nobody asks for it",
        {
            "torch": {"version": "2.13.0+cu128"},
            "!packages": packages(package("torch", "2.13.0+cu128")),
            "extensions": [],
            "settings": [],
        },
    ),
    # Building
    positive(
        "environment/cuda-toolkit-missing",
        "deepspeed without nvcc",
        {"tools": {"nvcc": ..., "cuda toolkit": ...}},
        confidence="likely",
    ),
    negative(
        "environment/cuda-toolkit-missing",
        "nothing installed needs nvcc",
        {"tools": {"nvcc": ..., "cuda toolkit": ...}, "packages": {"deepspeed": ...}},
    ),
    negative("environment/cuda-toolkit-missing", "a machine without GPU and CUDA", laptop()),
    positive(
        "environment/cuda-toolkit-version-mismatch",
        "nvcc of another major version, and deepspeed to use it",
        {"tools": {"cuda toolkit": tool("cuda toolkit", "11.8")}},
    ),
    positive(
        "environment/cuda-toolkit-version-mismatch",
        "nvcc of another major version that nobody uses",
        {"tools": {"cuda toolkit": tool("cuda toolkit", "13.0")}, "packages": {"deepspeed": ...}},
        severity="note",
    ),
    negative(
        "environment/cuda-toolkit-version-mismatch",
        "another minor version",
        {"tools": {"cuda toolkit": tool("cuda toolkit", "12.4")}},
    ),
    positive(
        "environment/nvcc-unsupported-gpu-architecture",
        "an nvcc that predates the card",
        {
            "gpus": [gpu(0, "NVIDIA B200", "10.0")],
            "tools": {"cuda toolkit": tool("cuda toolkit", "12.4")},
            "extensions": [],
            "settings": [],
        },
        severity="warning",
    ),
    positive(
        "environment/nvcc-unsupported-gpu-architecture",
        "an architecture asked for that nvcc does not know",
        {
            "tools": {"cuda toolkit": tool("cuda toolkit", "12.4")},
            "settings": [variable("TORCH_CUDA_ARCH_LIST", "9.0a;12.0+PTX")],
        },
    ),
    negative(
        "environment/nvcc-unsupported-gpu-architecture",
        "an architecture asked for that nvcc knows",
        {
            "tools": {"cuda toolkit": tool("cuda toolkit", "12.4")},
            "settings": [variable("TORCH_CUDA_ARCH_LIST", "8.0 9.0a")],
        },
    ),
    positive(
        "environment/source-build-out-of-memory",
        "more compilers than memory",
        {"+settings": [variable("MAX_JOBS", "64")], "limits": {"memory_bytes": 64 * 10**9}},
        severity="note",
        confidence="possible",
    ),
    negative("environment/source-build-out-of-memory", "enough memory", {"+settings": [variable("MAX_JOBS", "64")]}),
    positive(
        "environment/cxx-compiler-missing-or-too-old",
        "no compiler, and compile asked for",
        {
            "tools": {"g++": ...},
            "+settings": accelerate(dynamo_config__dynamo_backend="INDUCTOR", dynamo_config__dynamo_use_dynamic="true"),
        },
    ),
    positive(
        "environment/cxx-compiler-missing-or-too-old",
        "gcc 8 on a machine that may never compile",
        {"tools": {"g++": tool("g++", "8.5.0")}},
        severity="note",
    ),
    positive(
        "environment/cxx-compiler-missing-or-too-old",
        "CXX names what is not there",
        {"+settings": [variable("CXX", "g++-14")]},
        severity="note",
    ),
    negative(
        "environment/cxx-compiler-missing-or-too-old",
        "an old g++, and CXX names a new one",
        {"tools": {"g++": tool("g++", "8"), "CXX": tool("g++-12", "12")}, "+settings": [variable("CXX", "g++-12")]},
    ),
    negative(
        "environment/cxx-compiler-missing-or-too-old",
        "no torch to compile with",
        {"torch": None, "!packages": {}, "extensions": [], "tools": {"g++": ...}},
    ),
    # Triton and Inductor
    positive(
        "environment/libcuda-not-linkable",
        "a container that mounts the driver where the loader does not look",
        {
            "tools": {
                "libcuda.so.1": ...,
                "libcuda.so.1 outside of the loader's cache": tool(
                    "libcuda.so.1", None, "/usr/local/nvidia/lib64/libcuda.so.1"
                ),
            }
        },
        severity="error",
        confidence="likely",
    ),
    positive(
        "environment/libcuda-not-linkable",
        "an older Triton that links the name for developers",
        {"tools": {"library that triton links": tool("libcuda.so")}},
        severity="error",
        confidence="likely",
    ),
    negative(
        "environment/libcuda-not-linkable",
        "the folder is told to Triton",
        {
            "+settings": [variable("TRITON_LIBCUDA_PATH", "/usr/local/nvidia/lib64")],
            "tools": {
                "libcuda.so.1": ...,
                "libcuda.so.1 outside of the loader's cache": tool(
                    "libcuda.so.1", None, "/usr/local/nvidia/lib64/libcuda.so.1"
                ),
            },
        },
    ),
    negative(
        "environment/libcuda-not-linkable", "no driver at all", laptop(packages=packages(package("triton", "3.4.0")))
    ),
    positive(
        "environment/ptxas-older-than-gpu",
        "the assembler of Triton predates the card",
        {
            "gpus": [gpu(0, "NVIDIA GB10", "12.1")],
            "extensions": [],
            "settings": [],
            "tools": {"cuda toolkit": tool("cuda toolkit", "12.9")},
        },
        severity="error",
    ),
    negative(
        "environment/ptxas-older-than-gpu",
        "a second assembler for Blackwell",
        {
            "gpus": [gpu(0, "NVIDIA GB10", "12.1")],
            "extensions": [],
            "settings": [],
            "tools": {
                "triton ptxas-blackwell": tool("triton ptxas-blackwell", "12.9"),
                "cuda toolkit": tool("cuda toolkit", "12.9"),
            },
        },
    ),
    negative(
        "environment/ptxas-older-than-gpu",
        "another assembler was chosen",
        {
            "gpus": [gpu(0, "NVIDIA GB10", "12.1")],
            "extensions": [],
            "settings": [variable("TRITON_PTXAS_PATH", "/usr/local/cuda-12.9/bin/ptxas")],
            "tools": {"cuda toolkit": tool("cuda toolkit", "12.9")},
        },
    ),
    positive(
        "environment/compile-cache-directory-unusable",
        "a home folder without permission",
        {"folders": {"triton cache": folder("/.triton/cache", exists=False, writable=False, nearest="/")}},
        severity="warning",
    ),
    positive(
        "environment/compile-cache-directory-unusable",
        "a temporary folder from which nothing is loaded",
        {"folders": {"inductor cache": folder("/tmp/torchinductor_u", noexec=True)}},
        severity="warning",
    ),
    negative(
        "environment/compile-cache-directory-unusable",
        "another folder is read-only",
        {"folders": {"hugging face cache": folder("/data/hf", read_only=True, writable=False)}},
    ),
]
