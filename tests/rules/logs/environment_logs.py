"""What builds, installers, loaders and compilers print, in the wordings of their releases."""
# ruff: noqa: E501  (lines stand as they are printed)

from text_case import negative, positive
from traces import traceback

SITE = "/opt/conda/lib/python3.11/site-packages"

ABI = "environment/extension-cxx11-abi-mismatch"
RELEASE = "environment/extension-torch-version-mismatch"
HOST = "environment/host-runtime-library-too-old"
ISOLATION = "environment/build-isolation-hides-torch"
NO_CODE = "environment/gpu-architecture-not-built-in"
OLD_DRIVER = "environment/driver-too-old-for-cuda"
NO_CUDA = "environment/cpu-only-torch-beside-gpu"
LIBRARY = "environment/extension-library-missing"
TORCH_FIRST = "environment/extension-imported-before-torch"
NO_TOOLKIT = "environment/cuda-toolkit-missing"
TOOLKIT = "environment/cuda-toolkit-version-mismatch"
BUILD_MEMORY = "environment/source-build-out-of-memory"
ARCHITECTURE = "environment/nvcc-unsupported-gpu-architecture"
MOVED = "environment/dependency-resolution-replaces-torch"
NO_WHEEL = "environment/no-prebuilt-wheel-for-torch"
COMPILER = "environment/cxx-compiler-missing-or-too-old"
LIBCUDA = "environment/libcuda-not-linkable"
PTXAS = "environment/ptxas-older-than-gpu"
CACHE = "environment/compile-cache-directory-unusable"
FLASH = "environment/attention-package-missing"
TOGGLED = "has been toggled on, but it cannot be used due to the following error:"

CASES = (
    # -- attention-package-missing
    *(
        positive(
            FLASH,
            f"transformers 5, FlashAttention {version}",
            f"""
            Traceback (most recent call last):
              File "/home/me/train.py", line 3, in <module>
                m = t.LlamaForCausalLM(c)
              File "/v/lib/python3.11/site-packages/transformers/modeling_utils.py", line 1558, in _flash_attn_import_error
                raise ImportError(
            ImportError: FlashAttention{version} {TOGGLED} the package for FlashAttention{version} doesn't seem to be installed.
            """,
            "established",
        )
        for version in (2, 3, 4)
    ),
    positive(
        FLASH,
        "transformers 4, last line only",
        f"ImportError: FlashAttention2 {TOGGLED} the package flash_attn seems to be not installed. Please refer to the "
        "documentation of https://huggingface.co/docs/transformers/perf_infer_gpu_one#flashattention-2 to install Flash Attention 2.",
    ),
    positive(
        FLASH,
        "transformers 4.5x, FlashAttention 3, of a rank",
        f"[rank1]: ImportError: FlashAttention3 {TOGGLED} the package flash_attn_3 seems to be not installed.",
    ),
    positive(
        FLASH,
        "imported by the program",
        """
        Traceback (most recent call last):
          File "/home/me/train.py", line 1, in <module>
            from flash_attn import flash_attn_func
        ModuleNotFoundError: No module named 'flash_attn'
        """,
    ),
    positive(
        FLASH,
        "a model's own code",
        "ImportError: This modeling file requires the following packages that were not found in your environment: "
        "einops, flash_attn. Run `pip install einops flash_attn`",
    ),
    negative(
        FLASH,
        "caught, and another error comes of it",
        """
        Traceback (most recent call last):
          File "/home/me/model.py", line 2, in <module>
            import flash_attn
        ModuleNotFoundError: No module named 'flash_attn'

        During handling of the above exception, another exception occurred:

        Traceback (most recent call last):
          File "/home/me/model.py", line 4, in <module>
            raise ValueError("batch is empty")
        ValueError: batch is empty
        """,
    ),
    *(
        negative(
            FLASH,
            f"caught and printed, and the program {went}",
            f"""
            Traceback (most recent call last):
              File "/home/me/model.py", line 2, in <module>
                import flash_attn
            ModuleNotFoundError: No module named 'flash_attn'
            step 1 loss 2.31
            step 2 loss 2.30
            step 3 loss 2.29
            step 4 loss 2.28
            {last}
            """,
        )
        for went, last in (("went on", "saved"), ("failed later", "ValueError: batch is empty"))
    ),
    negative(
        FLASH, "the extension of an installed package", "ModuleNotFoundError: No module named 'flash_attn_2_cuda'"
    ),
    negative(FLASH, "a part that another release has", "ModuleNotFoundError: No module named 'flash_attn.losses'"),
    negative(
        FLASH,
        "too old",
        f"ImportError: FlashAttention2 {TOGGLED} FlashAttention2 requires at least version `2.3.3`.",
    ),
    negative(FLASH, "a notice", "WARNING: No module named 'flash_attn'; using torch's attention instead"),
    negative(
        FLASH,
        "there, and does not load",
        """
        Traceback (most recent call last):
          File "/opt/v/lib/python3.10/site-packages/flash_attn/flash_attn_interface.py", line 10, in <module>
            import flash_attn_2_cuda as flash_attn_cuda
        ImportError: /opt/v/lib/python3.10/site-packages/flash_attn_2_cuda.so: undefined symbol: _ZN3c105ErrorC2ENS_14SourceLocationESs
        """,
        ABI,
    ),
    # -- extension-cxx11-abi-mismatch
    positive(
        ABI,
        "old extension, quoted by a library that imports it",
        """
        Traceback (most recent call last):
          File "/opt/env/lib/python3.10/site-packages/transformers/utils/import_utils.py", line 1967, in _get_module
            return importlib.import_module("." + module_name, self.__name__)
          File "/opt/env/lib/python3.10/site-packages/flash_attn/flash_attn_interface.py", line 10, in <module>
            import flash_attn_2_cuda as flash_attn_cuda
        ImportError: /opt/env/lib/python3.10/site-packages/flash_attn_2_cuda.cpython-310-x86_64-linux-gnu.so: undefined symbol: _ZN3c105ErrorC2ENS_14SourceLocationESs

        The above exception was the direct cause of the following exception:

        Traceback (most recent call last):
          File "/home/me/train.py", line 7, in <module>
            from transformers import LlamaForCausalLM
        RuntimeError: Failed to import transformers.models.llama.modeling_llama because of the following error (look up to see its traceback):
        /opt/env/lib/python3.10/site-packages/flash_attn_2_cuda.cpython-310-x86_64-linux-gnu.so: undefined symbol: _ZN3c105ErrorC2ENS_14SourceLocationESs
        """,
        "established",
    ),
    positive(
        ABI,
        "new extension on an old torch, last line only",
        "ImportError: flash_attn_2_cuda.cpython-311-x86_64-linux-gnu.so: undefined symbol: "
        "_ZN3c106detail14torchCheckFailEPKcS2_jRKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE",
    ),
    positive(
        ABI,
        "another function with a string, another package",
        "OSError: /venv/lib/python3.12/site-packages/torchaudio/lib/libtorchaudio.so: undefined symbol: "
        "_ZN3c1017RegisterOperators13registerSchemaERKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE",
    ),
    positive(
        ABI,
        "a function that returns a string",
        "ImportError: /x/site-packages/torch_scatter/_scatter_cuda.so: undefined symbol: _ZNK5torch8autograd4Node4nameB5cxx11Ev",
    ),
    positive(
        ABI,
        "constructor C1, quoted in Markdown",
        """
        > ```
        > ImportError: /usr/local/lib/python3.10/dist-packages/xformers/_C.so: undefined symbol: _ZN3c105ErrorC1ENS_14SourceLocationESs
        > ```
        """,
    ),
    positive(ABI, "the symbol alone", "_ZN3c105ErrorC2ENS_14SourceLocationESs"),
    positive(ABI, "a name that is cut", "undefined symbol: _ZN3c105ErrorC2ENS_14SourceLocationE...", "likely"),
    negative(
        ABI,
        "a signature without a string",
        "ImportError: /x/site-packages/flash_attn_2_cuda.so: undefined symbol: _ZN3c104cuda9SetDeviceEi",
        instead=RELEASE,
    ),
    negative(
        ABI,
        "a symbol of another library",
        "ImportError: /x/site-packages/cv2.abi3.so: undefined symbol: _ZN2cv6imreadERKNSt7__cxx1112basic_stringIcE",
    ),
    # -- extension-torch-version-mismatch
    positive(
        RELEASE,
        "CPU-only torch or an older one",
        "ImportError: /venv/lib/python3.8/site-packages/flash_attn_2_cuda.cpython-38-x86_64-linux-gnu.so: undefined symbol: "
        "_ZN3c104cuda20CUDACachingAllocator9allocatorE",
    ),
    positive(
        RELEASE,
        "operators whose signatures changed",
        "OSError: /venv/site-packages/torchvision/_C.so: undefined symbol: "
        "_ZN2at4_ops5zeros4callEN3c108ArrayRefINS2_6SymIntEEENS2_8optionalINS2_10ScalarTypeEEE",
    ),
    positive(
        RELEASE,
        "built for torch 2.10",
        "ImportError: /v/site-packages/flash_attn_2_cuda.so: undefined symbol: _ZN3c104cuda29c10_cuda_check_implementationEiPKcS2_jb",
        "established",
    ),
    positive(
        RELEASE,
        "the library of another CUDA",
        """
        Traceback (most recent call last):
          File "train.py", line 3, in <module>
            from flash_attn import flash_attn_func
          File "/venv/lib/python3.10/site-packages/flash_attn/flash_attn_interface.py", line 10, in <module>
            import flash_attn_2_cuda as flash_attn_cuda
        ImportError: libcudart.so.11.0: cannot open shared object file: No such file or directory
        """,
        "likely",
    ),
    positive(RELEASE, "torchvision did not load", "RuntimeError: operator torchvision::nms does not exist"),
    positive(
        RELEASE,
        "xformers says both versions",
        """
        WARNING[XFORMERS]: xFormers can't load C++/CUDA extensions. xFormers was built for:
            PyTorch 2.1.0+cu121 with CUDA 1201 (you have 2.2.0+cu118)
            Python  3.10.13 (you have 3.10.13)
          Please reinstall xformers (see https://github.com/facebookresearch/xformers#installing-xformers)
        """,
    ),
    negative(
        RELEASE,
        "torch itself is broken",
        "ImportError: /venv/lib/python3.11/site-packages/torch/lib/libtorch_cuda.so: undefined symbol: ncclCommRegister",
    ),
    negative(
        RELEASE,
        "a library of nobody in the stack",
        "ImportError: libGL.so.1: cannot open shared object file: No such file or directory",
    ),
    # -- host-runtime-library-too-old
    positive(
        HOST,
        "glibc",
        "ImportError: /lib/x86_64-linux-gnu/libc.so.6: version `GLIBC_2.34' not found (required by "
        "/opt/lib/python3.10/site-packages/flash_attn_2_cuda.cpython-310-x86_64-linux-gnu.so)",
        "established",
    ),
    positive(
        HOST,
        "libstdc++, another quotation mark",
        "ImportError: /usr/lib64/libstdc++.so.6: version 'GLIBCXX_3.4.29' not found (required by /v/site-packages/vllm/_C.abi3.so)",
    ),
    positive(HOST, "C++ runtime, cut", "/lib64/libstdc++.so.6: version `CXXABI_1.3.13' not found"),
    negative(
        HOST,
        "a symbol version of another library",
        "ImportError: libssl.so.10: version `OPENSSL_1.1' not found (required by /x/y.so)",
    ),
    # -- build-isolation-hides-torch
    positive(
        ISOLATION,
        "pip",
        """
        Collecting flash-attn
          Using cached flash_attn-2.7.4.post1.tar.gz (6.0 MB)
          Getting requirements to build wheel ... error
          error: subprocess-exited-with-error

          × Getting requirements to build wheel did not run successfully.
          │ exit code: 1
          ╰─> [20 lines of output]
              Traceback (most recent call last):
                File "/v/lib/python3.10/site-packages/pip/_vendor/pyproject_hooks/_in_process/_in_process.py", line 389, in <module>
                  main()
                File "/tmp/pip-build-env-dk1/overlay/lib/python3.10/site-packages/setuptools/build_meta.py", line 334, in get_requires_for_build_wheel
                  return self._get_build_requires(config_settings, requirements=[])
                File "<string>", line 22, in <module>
              ModuleNotFoundError: No module named 'torch'
              [end of output]

          note: This error originates from a subprocess, and is likely not a problem with pip.
        error: subprocess-exited-with-error
        """,
        "established",
    ),
    positive(
        ISOLATION,
        "uv",
        """
          × Failed to build `flash-attn==2.8.3`
          ├─▶ The build backend returned an error
          ╰─▶ Call to `setuptools.build_meta:__legacy__.build_wheel` failed (exit status: 1)

              [stderr]
              Traceback (most recent call last):
                File "<string>", line 14, in <module>
                File "/home/user/.cache/uv/builds-v0/.tmpLuk3/lib/python3.12/site-packages/setuptools/build_meta.py", line 331, in get_requires_for_build_wheel
                  return self._get_build_requires(config_settings, requirements=[])
                File "<string>", line 22, in <module>
              ModuleNotFoundError: No module named 'torch'

              hint: This error likely indicates that `flash-attn@2.8.3` depends on `torch`, but doesn't declare it as a build dependency. If
              `flash-attn` is a first-party package, consider adding `torch` to its `build-system.requires`. Otherwise, `uv pip install torch`
              into the environment and re-run with `--no-build-isolation`.
        """,
    ),
    positive(
        ISOLATION,
        "only the hint, another package",
        "hint: This error likely indicates that `causal-conv1d@1.5.0` depends on `torch`, but doesn't declare it as a build dependency.",
    ),
    positive(
        ISOLATION,
        "packaging is hidden as well",
        """
          × python setup.py egg_info did not run successfully.
          │ exit code: 1
          ╰─> [6 lines of output]
              Traceback (most recent call last):
                File "<string>", line 2, in <module>
                File "<pip-setuptools-caller>", line 34, in <module>
                File "/tmp/pip-install-x1/flash-attn_abc/setup.py", line 9, in <module>
                  from packaging.version import parse, Version
              ModuleNotFoundError: No module named 'packaging'
              [end of output]
        error: metadata-generation-failed
        """,
    ),
    positive(
        ISOLATION,
        "pip, whose last line is cut off",
        """
          × Getting requirements to build wheel did not run successfully.
          │ exit code: 1
          ╰─> [20 lines of output]
              Traceback (most recent call last):
                File "<string>", line 19, in <module>
              ModuleNotFoundError: No module named 'torch'
              [end of output]
        """,
    ),
    negative(
        ISOLATION,
        "a script without torch",
        """
        Traceback (most recent call last):
          File "/home/me/train.py", line 1, in <module>
            import torch
        ModuleNotFoundError: No module named 'torch'
        """,
    ),
    # -- cuda-toolkit-missing
    positive(
        NO_TOOLKIT,
        "torch's extension builder",
        """
        Traceback (most recent call last):
          File "/tmp/pip-install-1/flash-attn_2/setup.py", line 198, in <module>
            CUDAExtension(
          File "/v/lib/python3.12/site-packages/torch/utils/cpp_extension.py", line 2428, in _join_cuda_home
            raise OSError('CUDA_HOME environment variable is not set. '
        OSError: CUDA_HOME environment variable is not set. Please set it to your CUDA install root.
        """,
        "established",
    ),
    positive(
        NO_TOOLKIT,
        "apex",
        "RuntimeError: --cuda_ext was requested, but nvcc was not found.  Are you sure your environment has nvcc available?",
    ),
    positive(NO_TOOLKIT, "a wrong CUDA_HOME", "error: [Errno 2] No such file or directory: '/usr/local/cuda/bin/nvcc'"),
    positive(
        NO_TOOLKIT, "shell", "/bin/sh: 1: /usr/local/cuda/bin/nvcc: not found\nninja: build stopped: subcommand failed."
    ),
    positive(
        NO_TOOLKIT,
        "deepspeed",
        "deepspeed.ops.op_builder.builder.MissingCUDAException: CUDA_HOME does not exist, unable to compile CUDA op(s)",
    ),
    positive(NO_TOOLKIT, "old setup.py", "NameError: name 'bare_metal_version' is not defined"),
    positive(
        NO_TOOLKIT,
        "torch 2.13",
        "RuntimeError: CUDA was not found on the system, please set the CUDA_HOME or the CUDA_PATH\n"
        "environment variable or add NVCC to your system PATH. The extension compilation will fail.",
    ),
    negative(
        NO_TOOLKIT,
        "a warning of a machine without a GPU",
        "No CUDA runtime is found, using CUDA_HOME='/usr/local/cuda'\nstep 1 loss 2.3\nstep 2 loss 2.2",
    ),
    # -- cuda-toolkit-version-mismatch
    positive(
        TOOLKIT,
        "torch 2.13 joins two words",
        "RuntimeError: ('The detected CUDA version (%s) mismatches the version that was used to compilePyTorch (%s). "
        "Please make sure to use the same CUDA versions.', '12.4', '13.0')",
    ),
    positive(
        TOOLKIT,
        "first line only",
        "RuntimeError: The detected CUDA version (11.8) mismatches the version that was used to compile",
    ),
    positive(
        TOOLKIT,
        "apex",
        "RuntimeError: Cuda extensions are being compiled with a version of Cuda that does not match the version used to "
        "compile Pytorch binaries.  Pytorch binaries were compiled with Cuda 12.1.",
    ),
    positive(
        TOOLKIT,
        "deepspeed",
        "deepspeed.ops.op_builder.builder.CUDAMismatchException: >- DeepSpeed Op Builder: Installed CUDA version 12.4 does not "
        "match the version torch was compiled with 11.8, unable to compile cuda/cpp extensions without a matching cuda version.",
    ),
    negative(
        TOOLKIT,
        "minor versions",
        "UserWarning: The detected CUDA version (12.2) has a minor version mismatch with the version that was used to compile "
        "PyTorch (12.1). Most likely this shouldn't be a problem.",
    ),
    # -- source-build-out-of-memory
    positive(
        BUILD_MEMORY,
        "nvcc tells of cicc",
        "nvcc error   : 'cicc' died due to signal 9 (Kill signal)\nninja: build stopped: subcommand failed.",
        "established",
    ),
    positive(
        BUILD_MEMORY,
        "g++",
        "g++: fatal error: Killed signal terminated program cc1plus\ncompilation terminated.",
        "established",
    ),
    positive(
        BUILD_MEMORY,
        "in the output of ninja",
        """
        Building wheel for flash-attn (setup.py) ...
        [3/73] /usr/local/cuda/bin/nvcc --generate-dependencies-with-compile -c csrc/flash_attn/src/flash_bwd_hdim128_bf16_sm80.cu
        Killed
        ninja: build stopped: subcommand failed.
        """,
    ),
    positive(BUILD_MEMORY, "the word alone is a possibility", "Killed", "possible"),
    negative(BUILD_MEMORY, "training was killed", "run.sh: line 3: 24511 Killed    python train.py --config big.yaml"),
    # -- nvcc-unsupported-gpu-architecture
    positive(ARCHITECTURE, "Hopper", "nvcc fatal   : Unsupported gpu architecture 'compute_90a'", "established"),
    positive(
        ARCHITECTURE,
        "in a JIT build",
        "RuntimeError: Error building extension 'fused_adam': [1/3] /usr/bin/nvcc -gencode=arch=compute_89,code=sm_89 -c a.cu\n"
        "nvcc fatal   : Unsupported gpu architecture 'compute_89'\nninja: build stopped: subcommand failed.",
    ),
    positive(ARCHITECTURE, "torch does not know it", "ValueError: Unknown CUDA arch (12.0a) or GPU not supported"),
    negative(
        ARCHITECTURE,
        "a binary without the architecture",
        "RuntimeError: CUDA error: no kernel image is available for execution on the device",
        instead=NO_CODE,
    ),
    # -- gpu-architecture-not-built-in
    positive(
        NO_CODE,
        "the warning of torch",
        """
        /v/lib/python3.11/site-packages/torch/cuda/__init__.py:235: UserWarning:
        NVIDIA GeForce RTX 5090 with CUDA capability sm_120 is not compatible with the current PyTorch installation.
        The current PyTorch install supports CUDA capabilities sm_50 sm_60 sm_70 sm_75 sm_80 sm_86 sm_90.
        """,
    ),
    positive(
        NO_CODE,
        "another library",
        "Error no kernel image is available for execution on the device at line 167 in file /src/csrc/ops.cu",
        "established",
    ),
    negative(
        NO_CODE,
        "a kernel that does not fit for another reason",
        "RuntimeError: CUDA error: too many resources requested for launch",
    ),
    # -- driver-too-old-for-cuda
    positive(
        OLD_DRIVER,
        "torch says so",
        "RuntimeError: The NVIDIA driver on your system is too old (found version 11040). Please update your GPU driver by "
        "downloading and installing a new version from the URL: http://www.nvidia.com/Download/index.aspx",
        "established",
    ),
    positive(
        OLD_DRIVER,
        "an extension of a newer toolkit",
        "torch.AcceleratorError: CUDA error: the provided PTX was compiled with an unsupported toolchain.",
    ),
    negative(
        OLD_DRIVER,
        "no driver",
        "RuntimeError: Found no NVIDIA driver on your system. Please check that you have an NVIDIA GPU and installed a driver",
    ),
    # -- cpu-only-torch-beside-gpu
    positive(NO_CUDA, "a script asks for a GPU", "AssertionError: Torch not compiled with CUDA enabled", "established"),
    negative(NO_CUDA, "no GPU", "RuntimeError: No CUDA GPUs are available"),
    # -- extension-library-missing
    positive(
        LIBRARY,
        "nothing tells whose it is",
        "ImportError: libcudart.so.11.0: cannot open shared object file: No such file or directory",
        "possible",
    ),
    negative(LIBRARY, "another library", "ImportError: libGL.so.1: cannot open shared object file: No such file"),
    # -- extension-imported-before-torch
    positive(
        TORCH_FIRST,
        "a library of every torch",
        "ImportError: libc10.so: cannot open shared object file: No such file or directory",
        "likely",
    ),
    positive(
        TORCH_FIRST,
        "an extension's own package",
        traceback(
            ("train.py", "from pytorch3d import _C"),
            error="ImportError: libtorch_cpu.so: cannot open shared object file: No such file or directory",
        ),
        "likely",
    ),
    negative(
        TORCH_FIRST,
        "a library that torch does not bring",
        "ImportError: libtorchlike.so: cannot open shared object file: No such file or directory",
    ),
    negative(
        TORCH_FIRST,
        "torch itself does not load",
        traceback(
            (f"{SITE}/torch/__init__.py", "from torch._C import *"),
            error="ImportError: libtorch_cpu.so: cannot open shared object file: No such file or directory",
        ),
    ),
    # -- dependency-resolution-replaces-torch
    positive(
        MOVED,
        "pip with both versions",
        """
        Collecting vllm==0.6.3
        Collecting torch==2.4.0 (from vllm==0.6.3)
        Installing collected packages: torch, vllm
          Attempting uninstall: torch
            Found existing installation: torch 2.5.1
            Uninstalling torch-2.5.1:
              Successfully uninstalled torch-2.5.1
        Successfully installed torch-2.4.0 vllm-0.6.3
        """,
        "established",
    ),
    positive(
        MOVED,
        "the resolver complains",
        "ERROR: pip's dependency resolver does not currently take into account all the packages that are installed. This "
        "behaviour is the source of the following dependency conflicts.\n"
        "vllm 0.8.5 requires torch==2.6.0, but you have torch 2.7.0 which is incompatible.",
    ),
    positive(MOVED, "one line", "  Attempting uninstall: torch"),
    negative(
        MOVED,
        "the same version again",
        """
          Attempting uninstall: torch
            Found existing installation: torch 2.6.0
            Uninstalling torch-2.6.0:
              Successfully uninstalled torch-2.6.0
        Successfully installed torch-2.6.0
        """,
    ),
    negative(
        MOVED,
        "another package",
        "  Attempting uninstall: torchvision\n    Found existing installation: torchvision 0.20.0\nSuccessfully installed torchvision-0.21.0",
    ),
    negative(
        MOVED,
        "asked for",
        """
        $ pip install -U torch
        Collecting torch
          Downloading torch-2.8.0-cp311-cp311-manylinux_2_28_x86_64.whl (888.1 MB)
          Attempting uninstall: torch
            Found existing installation: torch 2.7.0
            Uninstalling torch-2.7.0:
              Successfully uninstalled torch-2.7.0
        Successfully installed torch-2.8.0
        """,
    ),
    # -- no-prebuilt-wheel-for-torch
    positive(
        NO_WHEEL,
        "setup.py of flash-attn",
        """
        running bdist_wheel
        Guessing wheel URL:  https://github.com/Dao-AILab/flash-attention/releases/download/v2.8.3/flash_attn-2.8.3+cu13torch2.12cxx11abiTRUE-cp312-cp312-linux_x86_64.whl
        Precompiled wheel not found. Building from source...
        """,
        "likely",
    ),
    negative(
        NO_WHEEL,
        "a wheel is found",
        "Guessing wheel URL:  https://github.com/Dao-AILab/flash-attention/releases/download/v2.8.3/flash_attn-2.8.3+cu12torch2.8cxx11abiTRUE-cp312-cp312-linux_x86_64.whl\n"
        "Raw wheel path flash_attn-2.8.3-cp312-cp312-linux_x86_64.whl\nSuccessfully built flash-attn",
    ),
    # -- cxx-compiler-missing-or-too-old
    positive(
        COMPILER,
        "Inductor",
        "torch._inductor.exc.InductorError: InvalidCxxCompiler: No working C++ compiler found in "
        "torch._inductor.config.cpp.cxx: (None, 'g++')",
    ),
    positive(
        COMPILER,
        "Triton",
        "torch._inductor.exc.InductorError: RuntimeError: Failed to find C compiler. Please specify via CC environment variable "
        "or set triton.knobs.build.impl.",
    ),
    positive(COMPILER, "Windows", "RuntimeError: Compiler: cl is not found."),
    positive(
        COMPILER,
        "an old gcc",
        """
        torch._inductor.exc.CppCompileError: C++ compile error

        Command:
        g++ /tmp/torchinductor_me/x/cabc.cpp -shared -fPIC -Wall -std=c++17 -O3

        Output:
        In file included from /usr/include/c++/7/vector:69:0,
        /usr/include/c++/7/bits/stl_vector.h: error: no matching function
        gcc version 7.5.0 (Ubuntu 7.5.0-3ubuntu1~18.04)
        """,
    ),
    positive(
        COMPILER,
        "an old toolset in the command",
        """
        torch._inductor.exc.CppCompileError: C++ compile error
        Command:
        /opt/rh/devtoolset-7/root/usr/bin/g++ -std=c++17 x.cpp
        Output: error: 'optional' is not a member of 'std'
        """,
    ),
    positive(COMPILER, "an option it does not know", "g++: error: unrecognized command line option '-std=c++20'"),
    negative(
        COMPILER,
        "a step that does not compile",
        "INFO: gcc (GCC) 7.3.0 was used to build python\nstep 1 loss 2.0",
    ),
    # -- libcuda-not-linkable
    positive(
        LIBCUDA,
        "newer binutils",
        "/usr/bin/ld: cannot find -lcuda: No such file or directory\ncollect2: error: ld returned 1 exit status\n"
        "torch._dynamo.exc.BackendCompilerFailed: backend='inductor' raised:\n"
        "CalledProcessError: Command '['/usr/bin/gcc', '/tmp/tmp9/main.c', '-O3', '-shared', '-fPIC', '-lcuda']' returned non-zero exit status 1.",
    ),
    positive(
        LIBCUDA,
        "Triton's assertion",
        "AssertionError: libcuda.so cannot found!\nPossible files are located at ['/usr/local/nvidia/lib64/libcuda.so.1']."
        "Please create a symlink of libcuda.so to any of the file.",
    ),
    negative(
        LIBCUDA, "another library", "/usr/bin/ld: cannot find -lcudart\ncollect2: error: ld returned 1 exit status"
    ),
    # -- ptxas-older-than-gpu
    positive(
        PTXAS,
        "Triton 3.1 on Blackwell",
        "RuntimeError: Internal Triton PTX codegen error: \nptxas fatal   : Value 'sm_120' is not defined for option 'gpu-name'",
        "established",
    ),
    positive(
        PTXAS,
        "PTX newer than the assembler",
        "triton.runtime.errors.PTXASError: PTXAS error: Internal Triton PTX codegen error\n`ptxas` stderr:\n"
        "ptxas /tmp/tmp1.ptx, line 5; fatal   : Unsupported .version 8.7; current version is '8.4'",
    ),
    negative(
        PTXAS,
        "the GPU is older than the assembler",
        "ptxas fatal   : Value 'sm_35' is not defined for option 'gpu-name'",
    ),
    # -- compile-cache-directory-unusable
    positive(
        CACHE,
        "noexec",
        "ImportError: /tmp/torchinductor_root/triton/0/ABC/cuda_utils.so: failed to map segment from shared object",
        "established",
    ),
    positive(
        CACHE,
        "a path that leads through a file (torch 2.13)",
        """
        Traceback (most recent call last):
          File "/v/lib/python3.11/site-packages/torch/_inductor/runtime/cache_dir_utils.py", line 20, in cache_dir
            os.makedirs(cache_dir, exist_ok=True)
          File "<frozen os>", line 225, in makedirs
        NotADirectoryError: [Errno 20] Not a directory: '/data/file/cache'
        """,
        "established",
    ),
    negative(
        CACHE,
        "a missing file of the program",
        """
        Traceback (most recent call last):
          File "/home/me/train.py", line 3, in <module>
            os.makedirs(out)
        FileNotFoundError: [Errno 2] No such file or directory: '/proc/out'
        """,
    ),
    positive(CACHE, "home of any uid", "PermissionError: [Errno 13] Permission denied: '/.triton'"),
    positive(
        CACHE,
        "Inductor's folder of another user",
        "torch._dynamo.exc.BackendCompilerFailed: backend='inductor' raised:\n"
        "PermissionError: [Errno 13] Permission denied: '/tmp/torchinductor_alice/fxgraph/qz'",
    ),
    positive(
        CACHE,
        "a user id without a name",
        """
        Traceback (most recent call last):
          File "/v/lib/python3.11/site-packages/torch/_inductor/runtime/cache_dir_utils.py", line 29, in default_cache_dir
            sanitized_username = re.sub(r'[\\\\\\\\/:*?"<>|]', "_", getpass.getuser())
          File "/usr/lib/python3.11/getpass.py", line 169, in getuser
            return pwd.getpwuid(os.getuid())[0]
        KeyError: 'getpwuid(): uid not found: 10042'
        """,
        "established",
    ),
    negative(
        CACHE,
        "another folder",
        "PermissionError: [Errno 13] Permission denied: '/data/imagenet/train'",
    ),
    negative(
        CACHE,
        "no memory to map",
        "ImportError: /x/libgomp.so.1: failed to map segment from shared object: Cannot allocate memory",
    ),
)
