"""What settings, the container and other processes make of the next launch."""

from environment_cases import laptop
from healthy_environment import GPU, accelerate, folder, gpu, package, packages, variable
from rule_case import Case, negative, positive

FSDP = {"distributed_type": "FSDP", "num_processes": "2"}
COMPILE = {"dynamo_config__dynamo_backend": "INDUCTOR", "dynamo_config__dynamo_use_dynamic": "true"}


def configured(**values):
    """Nothing but this configuration of accelerate."""
    return {"settings": accelerate(**values)}


def nfs(path):
    return folder(path, filesystem="nfs4", network=True)


def wraps(written="LlamaDecoderLayer", defined_in=None, alike=(), **rest):
    """FSDP over this class, as the configuration writes it and as it was found."""
    config = configured(**FSDP, fsdp_config__fsdp_transformer_layer_cls_to_wrap=written, **rest)
    return {**config, "layer_classes": {written: {"defined_in": defined_in, "alike": list(alike)}}}


def model(**values):
    """Keys of the `config.json` of a model in the working folder."""
    return [
        {"name": f"model.{key.replace('__', '.')}", "value": value, "source": CONFIG} for key, value in values.items()
    ]


def scaled(dtype, **rest):
    """accelerate set to fp16 beside weights of this dtype, with transformers 5 and without peft."""
    settings = [*accelerate(mixed_precision="fp16", distributed_type="MULTI_GPU", **rest), *model(dtype=dtype)]
    library = package("transformers", "5.2.0")
    return {"settings": settings, "packages": {"peft": ..., "transformers": library}}


def regional(release, version="2", **values):
    """FSDP and compile per block with this release of accelerate."""
    settings = accelerate(**FSDP, **COMPILE, fsdp_config__fsdp_version=version, **values)
    return {"settings": settings, "packages": {"accelerate": package("accelerate", release)}}


CONFIG = "/job/config.json"
LLAMA = "/env/lib/python3.11/site-packages/transformers/models/llama/modeling_llama.py"
IN_8_BIT = {"quantization_config__load_in_8bit": "true"}
IN_4_BIT = {"quantization_config__load_in_4bit": "true"}

CASES = [
    positive(
        "sharding/wrap-layer-class-not-found",
        "a name in the wrong case",
        wraps("LLaMADecoderLayer", alike=["LlamaDecoderLayer"]),
        severity="error",
        confidence="likely",
    ),
    positive(
        "sharding/wrap-layer-class-not-found",
        "a list with blanks",
        wraps(" MistralDecoderLayer", defined_in=LLAMA),
        severity="error",
        confidence="likely",
    ),
    positive(
        "sharding/wrap-layer-class-not-found",
        "a class that may be in code that was not found",
        wraps("MyBlock", alike=["MoeBlock"]),
        severity="note",
        confidence="possible",
    ),
    negative("sharding/wrap-layer-class-not-found", "a class of transformers", wraps(defined_in=LLAMA)),
    negative(
        "sharding/wrap-layer-class-not-found",
        "a policy that does not look at classes",
        wraps("Lost", fsdp_config__fsdp_auto_wrap_policy="SIZE_BASED_WRAP"),
    ),
    positive(
        "sharding/fsdp1-integer-quantized-storage",
        "8-bit weights and FSDP1 by name",
        {"settings": [*accelerate(**FSDP, fsdp_config__fsdp_version="1"), *model(**IN_8_BIT)]},
        confidence="possible",
    ),
    positive(
        "sharding/fsdp1-integer-quantized-storage",
        "4-bit weights with storage in uint8, and FSDP of a version that is not named",
        {"settings": [*accelerate(**FSDP), *model(**IN_4_BIT, quantization_config__bnb_4bit_quant_storage="uint8")]},
        severity="note",
        confidence="possible",
    ),
    negative(
        "sharding/fsdp1-integer-quantized-storage",
        "4-bit weights with storage in bfloat16",
        {"settings": [*accelerate(**FSDP), *model(**IN_4_BIT, quantization_config__bnb_4bit_quant_storage="bfloat16")]},
    ),
    negative(
        "sharding/fsdp1-integer-quantized-storage",
        "FSDP2",
        {"settings": [*accelerate(**FSDP, fsdp_config__fsdp_version="2"), *model(**IN_8_BIT)]},
    ),
    positive(
        "compile/orig-mod-prefix-in-checkpoint",
        "in a file that from_pretrained reads",
        {"weights": {"/job/model.safetensors": {"tensors": 9, "of_compiled_module": "_orig_mod.lm_head.weight"}}},
        confidence="likely",
    ),
    positive(
        "compile/orig-mod-prefix-in-checkpoint",
        "in a file of the job's own, which may load it into a compiled module",
        {"weights": {"/job/last.safetensors": {"tensors": 9, "of_compiled_module": "_orig_mod.lm_head.weight"}}},
        severity="note",
        confidence="possible",
    ),
    negative(
        "compile/orig-mod-prefix-in-checkpoint",
        "plain names",
        {"weights": {"/job/model.safetensors": {"tensors": 9, "of_compiled_module": None}}},
    ),
    positive(
        "precision/gradscaler-fp16-parameters",
        "fp16 weights and fp16",
        scaled("float16"),
        severity="note",
        confidence="possible",
    ),
    negative("precision/gradscaler-fp16-parameters", "float32 weights", scaled("float32")),
    positive(
        "precision/gradscaler-with-bf16",
        "bf16 weights and fp16",
        scaled("bfloat16"),
        severity="note",
        confidence="possible",
    ),
    negative(
        "precision/gradscaler-with-bf16",
        "adapters, which peft makes in float32",
        {**scaled("bfloat16"), "packages": {"transformers": package("transformers", "5.2.0")}},
    ),
    negative(
        "precision/gradscaler-with-bf16",
        "transformers 4 loads in float32",
        {**scaled("bfloat16"), "packages": {"peft": ...}},
    ),
    positive(
        "attention/eager-implementation-requested",
        "in a model's configuration",
        {"+settings": [{"name": "model.attn_implementation", "value": "eager", "source": "/job/config.json"}]},
        confidence="likely",
    ),
    negative(
        "attention/eager-implementation-requested",
        "sdpa in a model's configuration",
        {"+settings": [{"name": "model.attn_implementation", "value": "sdpa", "source": "/job/config.json"}]},
    ),
    positive(
        "compile/pybind-kernel-graph-break",
        "an old flash-attn and compile",
        {**configured(**COMPILE), "packages": {"flash-attn": {"version": "2.6.3"}}},
        confidence="likely",
    ),
    negative(
        "compile/pybind-kernel-graph-break",
        "an old flash-attn and no compile",
        {"packages": {"flash-attn": {"version": "2.6.3"}}},
    ),
    positive(
        "compile/regional-compile-bypasses-fsdp-hooks",
        "as the wizard writes it",
        regional("1.13.0", dynamo_config__dynamo_use_regional_compilation="true"),
        confidence="likely",
    ),
    positive(
        "compile/regional-compile-bypasses-fsdp-hooks",
        "as the plugin reads it",
        regional("1.13.0", dynamo_config__use_regional_compilation="true"),
        confidence="likely",
    ),
    negative(
        "compile/regional-compile-bypasses-fsdp-hooks",
        "accelerate 1.15 compiles in place",
        regional("1.15.0", dynamo_config__dynamo_use_regional_compilation="true"),
    ),
    negative(
        "compile/regional-compile-bypasses-fsdp-hooks",
        "the whole model is compiled",
        regional("1.13.0", dynamo_config__dynamo_use_regional_compilation="false"),
    ),
    negative(
        "compile/regional-compile-bypasses-fsdp-hooks",
        "FSDP1",
        regional("1.13.0", version="1", dynamo_config__dynamo_use_regional_compilation="true"),
    ),
    positive(
        "compile/fsdp1-flattened-parameters",
        "in accelerate's file",
        configured(**FSDP, **COMPILE, fsdp_config__fsdp_use_orig_params="false", fsdp_config__fsdp_version="1"),
        severity="warning",
        confidence="likely",
        also=("note sharding/fsdp1-nonuniform-requires-grad",),
    ),
    negative(
        "compile/fsdp1-flattened-parameters",
        "FSDP2 has no such option",
        configured(**FSDP, **COMPILE, fsdp_config__fsdp_use_orig_params="false", fsdp_config__fsdp_version="2"),
    ),
    positive(
        "compile/triton-dtype-unsupported",
        "bf16 on Turing",
        {
            **configured(**COMPILE, mixed_precision="bf16"),
            "gpus": [gpu(0, "Tesla T4", "7.5")],
            "packages": {"flash-attn": ...},
            "extensions": [],
        },
        severity="warning",
        confidence="likely",
    ),
    negative("compile/triton-dtype-unsupported", "bf16 on Hopper", configured(**COMPILE, mixed_precision="bf16")),
    positive(
        "compile/cache-race-between-ranks",
        "all ranks on one network folder",
        {"folders": {"inductor cache": nfs("/home/u/inductor")}},
        confidence="possible",
    ),
    positive(
        "compile/cache-race-between-ranks",
        "one process on a network folder",
        {"folders": {"inductor cache": nfs("/home/u/inductor")}, "settings": []},
        severity="note",
        confidence="possible",
    ),
    negative(
        "compile/cache-race-between-ranks", "data on a network folder", {"folders": {"hugging face cache": nfs("/hf")}}
    ),
    positive(
        "compile/accelerate-launch-forces-static-shapes",
        "compile without dynamic shapes",
        configured(dynamo_config__dynamo_backend="INDUCTOR"),
        severity="note",
        confidence="possible",
    ),
    negative("compile/accelerate-launch-forces-static-shapes", "compile with dynamic shapes", configured(**COMPILE)),
    negative(
        "compile/accelerate-launch-forces-static-shapes", "compile off", configured(dynamo_config__dynamo_backend="NO")
    ),
    positive(
        "adapter/quantized-model-compile-refused",
        "an old bitsandbytes and compile",
        {**configured(**COMPILE), "packages": {"bitsandbytes": {"version": "0.45.5"}}},
        severity="note",
        confidence="possible",
    ),
    negative("adapter/quantized-model-compile-refused", "a new bitsandbytes and compile", configured(**COMPILE)),
    positive(
        "sharding/fsdp1-nonuniform-requires-grad",
        "flattened parameters and peft",
        configured(**FSDP, fsdp_config__fsdp_use_orig_params="false"),
        severity="note",
        confidence="possible",
    ),
    negative(
        "sharding/fsdp1-nonuniform-requires-grad",
        "flattened parameters without peft",
        {**configured(**FSDP, fsdp_config__fsdp_use_orig_params="false"), "packages": {"peft": ...}},
    ),
    positive(
        "sharding/no-wrap-policy-single-unit",
        "NO_WRAP in the file",
        configured(**FSDP, fsdp_config__fsdp_auto_wrap_policy="NO_WRAP"),
        confidence="likely",
    ),
    positive(
        "sharding/no-wrap-policy-single-unit",
        "NO_WRAP in variables",
        {"settings": [variable("ACCELERATE_USE_FSDP", "true"), variable("FSDP_AUTO_WRAP_POLICY", "NO_WRAP")]},
        confidence="likely",
    ),
    negative(
        "sharding/no-wrap-policy-single-unit",
        "the policy of a configuration that does not shard",
        configured(distributed_type="MULTI_GPU", num_processes="2", fsdp_config__fsdp_auto_wrap_policy="NO_WRAP"),
    ),
    positive(
        "sharding/fsdp-plugin-ignored-on-cpu",
        "the CPU is forced",
        configured(distributed_type="FSDP", use_cpu="true"),
        confidence="likely",
    ),
    positive(
        "sharding/fsdp-plugin-ignored-on-cpu",
        "no GPU where the configuration is read",
        laptop(
            **{
                "!packages": packages(package("torch", "2.8.0+cpu"), package("accelerate", "1.10.0", "torch>=2")),
                "!settings": accelerate(distributed_type="FSDP"),
            }
        ),
        severity="note",
        confidence="possible",
    ),
    negative("sharding/fsdp-plugin-ignored-on-cpu", "GPUs to shard over", configured(**FSDP)),
    positive(
        "launcher/debug-detail-barrier-false-positive",
        "DETAIL with torch 2.6",
        {
            "+settings": [variable("TORCH_DISTRIBUTED_DEBUG", "DETAIL")],
            "torch": {"version": "2.6.0+cu124"},
            "packages": {"torch": {"version": "2.6.0+cu124", "requires": []}, "torchvision": ..., "xformers": ...},
        },
        severity="note",
        confidence="possible",
    ),
    negative(
        "launcher/debug-detail-barrier-false-positive",
        "DETAIL with another torch",
        {"+settings": [variable("TORCH_DISTRIBUTED_DEBUG", "DETAIL")]},
    ),
    positive(
        "launcher/duplicate-gpu-assignment",
        "more processes than GPUs",
        configured(distributed_type="MULTI_GPU", num_processes="8"),
        severity="error",
    ),
    positive(
        "launcher/duplicate-gpu-assignment",
        "more processes than visible GPUs",
        {"+settings": [variable("CUDA_VISIBLE_DEVICES", "1")]},
        severity="error",
    ),
    negative(
        "launcher/duplicate-gpu-assignment",
        "the processes of four machines",
        {**configured(distributed_type="MULTI_GPU", num_processes="8", num_machines="4"), "interfaces": ["eth0", "lo"]},
    ),
    negative(
        "launcher/duplicate-gpu-assignment",
        "the total of a job that spans an unknown number of machines",
        {"settings": [variable("WORLD_SIZE", "16")]},
    ),
    positive(
        "launcher/duplicate-gpu-assignment",
        "torchrun's own count for this machine",
        {"settings": [variable("LOCAL_WORLD_SIZE", "4")]},
        severity="error",
    ),
    negative(
        "launcher/duplicate-gpu-assignment",
        "processes on the CPU",
        configured(
            distributed_type="MULTI_CPU", num_processes="8", use_cpu="true", mpirun_config__mpirun_hostfile="hosts"
        ),
    ),
    positive(
        "launcher/mig-device-ordinal",
        "slices for two processes",
        {"gpus": [gpu(0, mig=True, slices=["MIG-a"]), gpu(1)]},
        confidence="likely",
    ),
    negative(
        "launcher/mig-device-ordinal",
        "one process on a slice",
        {"gpus": [gpu(0, mig=True, slices=["MIG-a"])], "settings": []},
    ),
    Case(
        "launcher/nccl-on-mig-slices",
        "two processes on slices of one card",
        {"gpus": [gpu(0, mig=True, slices=["MIG-a", "MIG-b"]), gpu(1)]},
        ("warning launcher/mig-device-ordinal", "warning launcher/nccl-on-mig-slices"),
        "likely",
    ),
    negative("launcher/nccl-on-mig-slices", "whole cards", {}),
    positive(
        "launcher/master-port-in-use",
        "the port that is set",
        {"+settings": [variable("MASTER_PORT", "29501")], "!ports": {"29501": True}},
        severity="warning",
    ),
    positive("launcher/master-port-in-use", "the default port", {"ports": {"29500": True}}, severity="note"),
    negative(
        "launcher/master-port-in-use",
        "a free port",
        {"+settings": [variable("MASTER_PORT", "29501")], "!ports": {"29501": False}},
    ),
    positive(
        "launcher/container-shared-memory-too-small",
        "Docker's own size and two GPUs",
        {"limits": {"shm_bytes": 64 * 1024**2}},
        severity="warning",
        confidence="likely",
    ),
    positive(
        "launcher/container-shared-memory-too-small",
        "Docker's own size and no GPU",
        laptop(**{"!limits": {"shm_bytes": 64 * 1024**2, "container": "docker"}}),
        severity="note",
        confidence="possible",
    ),
    negative("launcher/container-shared-memory-too-small", "enough of it", {"limits": {"shm_bytes": 8 * 1024**3}}),
    positive(
        "launcher/nccl-wrong-network-interface",
        "an interface that is not there",
        {"settings": [variable("NCCL_SOCKET_IFNAME", "ens5")]},
        severity="warning",
    ),
    positive(
        "launcher/nccl-wrong-network-interface",
        "several machines and a bridge",
        configured(num_machines="2"),
        severity="note",
        confidence="possible",
    ),
    negative(
        "launcher/nccl-wrong-network-interface",
        "all but the bridge",
        {"settings": [variable("NCCL_SOCKET_IFNAME", "^docker,lo")]},
    ),
    negative(
        "launcher/nccl-wrong-network-interface", "exactly one", {"settings": [variable("NCCL_SOCKET_IFNAME", "=eth0")]}
    ),
    positive(
        "launcher/cpu-flag-runs-single-process",
        "processes on the CPU without MPI",
        configured(distributed_type="MULTI_CPU", num_processes="4", use_cpu="true"),
        confidence="likely",
    ),
    negative(
        "launcher/cpu-flag-runs-single-process",
        "with a host file of MPI",
        configured(
            distributed_type="MULTI_CPU", num_processes="4", use_cpu="true", mpirun_config__mpirun_hostfile="hosts"
        ),
    ),
    positive(
        "trainer/fsdp-plugin-argument-overwritten",
        "the release that does",
        {**configured(**FSDP), "packages": {"accelerate": {"version": "0.33.0"}}},
        severity="note",
        confidence="possible",
    ),
    negative("trainer/fsdp-plugin-argument-overwritten", "a later release", configured(**FSDP)),
    positive(
        "memory/gpu-shared-with-other-processes",
        "half of a card is taken",
        {"gpus": [gpu(0, memory_used_bytes=43 << 30), gpu(1)]},
        confidence="likely",
    ),
    negative(
        "memory/gpu-shared-with-other-processes",
        "a display",
        {"gpus": [gpu(0, GPU, memory_used_bytes=1 << 30), gpu(1)]},
    ),
    positive(
        "memory/full-model-loaded-on-every-rank",
        "memory-efficient loading is off",
        configured(**FSDP, fsdp_config__fsdp_cpu_ram_efficient_loading="false"),
        severity="note",
        confidence="likely",
    ),
    negative(
        "memory/full-model-loaded-on-every-rank",
        "memory-efficient loading is on",
        configured(**FSDP, fsdp_config__fsdp_cpu_ram_efficient_loading="true"),
    ),
    positive(
        "memory/ram-efficient-loading-materializes-weights",
        "a transformers that fills them",
        {
            **configured(**FSDP, fsdp_config__fsdp_cpu_ram_efficient_loading="true"),
            "packages": {"transformers": {"version": "5.0.0", "requires": []}},
        },
        severity="note",
        confidence="possible",
    ),
    negative(
        "memory/ram-efficient-loading-materializes-weights",
        "a later transformers",
        {
            **configured(**FSDP, fsdp_config__fsdp_cpu_ram_efficient_loading="true"),
            "packages": {"transformers": {"version": "5.24.0", "requires": []}},
        },
    ),
]
