"""Variables and configuration files that touch the stack."""

import subprocess
import sys

import pytest
import yaml
from hand_made import machine

from trueup.environment.settings import settings
from trueup.environment.yaml_subset import BeyondSubset, flattened

ACCELERATE = """\
compute_environment: LOCAL_MACHINE
debug: false
distributed_type: FSDP
downcast_bf16: 'no'
enable_cpu_affinity: false
dynamo_config:
  dynamo_backend: INDUCTOR
  dynamo_use_dynamic: false
fsdp_config:
  fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP
  fsdp_transformer_layer_cls_to_wrap: LlamaDecoderLayer,MixtralBlock
  fsdp_version: 2   # sharded per parameter
gpu_ids: all
machine_rank: 0
main_process_port: 29501
main_training_function: "main"
parallelism_config: {}
rdzv_backend: static
same_network: true
tpu_env: []
tpu_use_cluster: false
"""
DEEPSPEED = '{"zero_optimization": {"stage": 3, "offload_optimizer": {"device": "cpu"}}, "bf16": {"enabled": true}}'


def values(tmp_path, files=None, **variables):
    found, notes = settings(machine(tmp_path, files, **variables))
    return {setting.name: setting.value for setting in found}, list(notes)


def leaves(value, name=""):
    if isinstance(value, dict):
        for key, item in value.items():
            yield from leaves(item, f"{name}.{key}" if name else key)
    elif value not in ({}, []):
        yield name, value


def test_the_file_of_accelerate_is_read_as_a_yaml_library_reads_it():
    by_library = {
        name: str(value).lower() if isinstance(value, bool) else str(value)
        for name, value in leaves(yaml.safe_load(ACCELERATE))
    }
    assert {name: value for name, value in flattened(ACCELERATE).items() if value} == by_library


WRITE = """
from accelerate.commands.config.config_args import ClusterConfig
fsdp = {"fsdp_version": 2, "fsdp_auto_wrap_policy": "TRANSFORMER_BASED_WRAP", "fsdp_offload_params": False}
ClusterConfig(
    compute_environment="LOCAL_MACHINE", distributed_type="FSDP", mixed_precision="bf16", use_cpu=False, debug=False,
    num_processes=8, machine_rank=0, num_machines=2, main_process_ip="10.0.0.1", main_process_port=29501,
    fsdp_config=fsdp, dynamo_config={"dynamo_backend": "INDUCTOR"},
).to_yaml_file(%r)
"""


def test_a_file_that_accelerate_writes(tmp_path):
    file = tmp_path / "default_config.yaml"
    subprocess.run([sys.executable, "-c", WRITE % str(file)], check=True, capture_output=True, timeout=120)
    text = file.read_text()
    by_library = dict(leaves(yaml.safe_load(text)))
    found = flattened(text)
    assert found["fsdp_config.fsdp_version"] == "2"
    assert {name: value for name, value in found.items() if value} == {
        name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in by_library.items()
    }


def test_lists_are_joined():
    text = "a:\n- x\n- y\nb:\n  - 1\n  c: 2\nd: [p, 'q']\ne:\n"
    assert flattened(text.replace("  c: 2\n", "")) == {"a": "x,y", "b": "1", "d": "p,q"}


@pytest.mark.parametrize(
    "text", ["a: &anchor 1", "a: |\n  text", "? complex", "a: {b: 1}", "\ta: 1", 'a: "open', "just text"]
)
def test_more_than_the_subset_is_refused_and_not_guessed(text):
    with pytest.raises(BeyondSubset, match=r"line \d"):
        flattened(text)


def test_accelerate_is_found_in_the_home_folder(tmp_path):
    found, notes = values(tmp_path, {"home/.cache/huggingface/accelerate/default_config.yaml": ACCELERATE})
    assert notes == []
    assert found["distributed_type"] == "FSDP"
    assert found["fsdp_config.fsdp_version"] == "2"


@pytest.mark.parametrize(("variable", "folder"), [("HF_HOME", "hub"), ("XDG_CACHE_HOME", "cache")])
def test_accelerate_is_found_where_a_variable_says(tmp_path, variable, folder):
    place = "hub" if variable == "HF_HOME" else "cache/huggingface"
    files = {f"{place}/accelerate/default_config.json": '{"num_processes": 4, "use_cpu": true, "gpu_ids": null}'}
    found, _ = values(tmp_path, files, **{variable: str(tmp_path / folder)})
    assert (found["num_processes"], found["use_cpu"], found["gpu_ids"]) == ("4", "true", "")


@pytest.mark.parametrize("text", ["a: &x 1\n", "{", "\x00\x01"])
def test_a_file_of_accelerate_that_cannot_be_read_is_told(tmp_path, text):
    name = "default_config.json" if text == "{" else "default_config.yaml"
    found, notes = values(tmp_path, {f"home/.cache/huggingface/accelerate/{name}": text})
    assert found == {}
    assert "was not read" in notes[0]


def test_deepspeed_and_model_in_the_working_folder(tmp_path):
    files = {
        "job/ds_zero3.json": DEEPSPEED,
        "job/config.json": '{"_attn_implementation": "eager"}',
        "job/data.json": "[1]",
    }
    found, notes = values(tmp_path, files)
    assert found == {
        "deepspeed.zero_optimization.stage": "3",
        "deepspeed.zero_optimization.offload_optimizer.device": "cpu",
        "deepspeed.bf16.enabled": "true",
        "model.attn_implementation": "eager",
    }
    assert notes == []


def test_a_broken_configuration_of_deepspeed_is_told(tmp_path):
    found, notes = values(
        tmp_path, {"job/ds.json": '{"zero_optimization": {"stage": 3,}}', "job/other.json": "{broken"}
    )
    assert found == {}
    assert len(notes) == 1
    assert "ds.json was not read" in notes[0]


def test_variables_of_the_stack_and_no_others(tmp_path):
    found, _ = values(
        tmp_path, NCCL_DEBUG="INFO", TORCHINDUCTOR_CACHE_DIR="/x", EDITOR="vi", PYTORCH_CUDA_ALLOC_CONF="a:b"
    )
    assert set(found) == {"NCCL_DEBUG", "TORCHINDUCTOR_CACHE_DIR", "PYTORCH_CUDA_ALLOC_CONF"}


@pytest.mark.parametrize("name", ["HF_TOKEN", "HF_HUB_TOKEN", "UV_INDEX_PASSWORD", "NCCL_SECRET_KEY"])
def test_a_secret_is_never_kept(tmp_path, name):
    found, _ = values(tmp_path, **{name: "sesame"})
    assert found == {name: "***"}


def test_a_url_keeps_no_credentials(tmp_path):
    found, _ = values(tmp_path, PIP_INDEX_URL="https://someone:sesame@example.org/simple")
    assert found == {"PIP_INDEX_URL": "https://example.org/simple"}
