"""What the files of a job in the working folder say: weights, classes to wrap, the project's own configuration."""

import json
import os

import pytest
from hand_made import machine, write

from trueup.environment.layer_classes import layer_classes
from trueup.environment.project import project_settings
from trueup.environment.settings import settings
from trueup.environment.weights import weights
from trueup.schema.environment import Package, Setting

torch = pytest.importorskip("torch")


def saved(model, path):
    from safetensors.torch import save_file

    path.parent.mkdir(parents=True, exist_ok=True)
    save_file({name: tensor.clone() for name, tensor in model.state_dict().items()}, path, metadata={"format": "pt"})


def test_names_of_a_compiled_module_in_a_weight_file(tmp_path):
    """As torch and safetensors write them: the wrapper adds its name, compiling in place does not."""
    pytest.importorskip("safetensors")
    host = machine(tmp_path)
    block, in_place = torch.nn.Linear(2, 2), torch.nn.Linear(2, 2)
    in_place.compile()
    saved(torch.nn.Sequential(torch.compile(block), torch.nn.ReLU()), host.folder / "checkpoint-10/model.safetensors")
    saved(in_place, host.folder / "model.safetensors")
    assert weights(host) == {
        str(host.folder / "model.safetensors"): {"tensors": 2, "of_compiled_module": None},
        str(host.folder / "checkpoint-10/model.safetensors"): {
            "tensors": 2,
            "of_compiled_module": "0._orig_mod.bias",
        },
    }


@pytest.mark.parametrize(
    "content",
    [b"", b"\x08", b"\xff" * 64, (1 << 60).to_bytes(8, "little") + b"{}", (4).to_bytes(8, "little") + b"{\xff\x00"],
    ids=["empty", "cut", "noise", "huge length", "no JSON"],
)
def test_a_damaged_weight_file_proves_nothing(tmp_path, content):
    host = machine(tmp_path)
    (host.folder / "model.safetensors").write_bytes(content)
    (host.folder / "adapter.safetensors").mkdir()
    assert weights(host) == {}


def asked(*names):
    return [Setting(name="fsdp_config.fsdp_transformer_layer_cls_to_wrap", value=",".join(names), source="f.yaml")]


def installed_folders():
    return [os.path.dirname(os.path.dirname(torch.__file__))]


@pytest.fixture
def looked_up(tmp_path):
    pytest.importorskip("transformers")
    host = machine(tmp_path, HOME=str(tmp_path / "home"))

    def look_up(*names, **packages):
        from pathlib import Path

        return layer_classes(asked(*names), map(Path, installed_folders()), packages, host)

    look_up.host = host
    return look_up


def test_classes_that_are_defined(looked_up):
    write(looked_up.host.folder, {"code/model.py": "import torch\n\nclass OwnBlock(torch.nn.Module):\n    pass\n"})
    write(
        looked_up.host.home / ".cache/huggingface/modules/transformers_modules/a/b",
        {"modeling_remote.py": "class RemoteBlock(object): pass\n"},
    )
    found = looked_up("LlamaDecoderLayer", "T5Block", "TransformerEncoderLayer", "OwnBlock", "RemoteBlock")
    assert [facts["defined_in"] is not None for facts in found.values()] == [True] * 5
    assert found["LlamaDecoderLayer"]["defined_in"].endswith("llama/modeling_llama.py")


def test_classes_of_another_package(looked_up):
    found = looked_up("LoraModel", peft=Package(name="peft", version="1", requires=("torch>=1.13",)))
    assert found["LoraModel"]["defined_in"].endswith(".py")


def test_a_class_that_nothing_defines(looked_up):
    found = looked_up("LLaMADecoderLayer", " MistralDecoderLayer", "Nowhere")
    assert found["LLaMADecoderLayer"] == {"defined_in": None, "alike": ["LlamaDecoderLayer"]}
    assert found[" MistralDecoderLayer"]["defined_in"] is not None
    assert found["Nowhere"]["defined_in"] is None


def test_nothing_is_looked_up_without_transformers(tmp_path):
    assert layer_classes(asked("LlamaDecoderLayer"), [tmp_path], {}, machine(tmp_path)) == {}


def test_accelerate_takes_blanks_as_part_of_a_name(monkeypatch):
    """Why `A, B` is an error: accelerate itself parts the list, and finds no class with that name."""
    pytest.importorskip("accelerate")
    from accelerate.utils import FullyShardedDataParallelPlugin

    monkeypatch.setenv("FSDP_AUTO_WRAP_POLICY", "TRANSFORMER_BASED_WRAP")
    monkeypatch.setenv("FSDP_TRANSFORMER_CLS_TO_WRAP", "ReLU, Linear")
    monkeypatch.setenv("FSDP_VERSION", "2")
    plugin = FullyShardedDataParallelPlugin()
    with pytest.raises(ValueError, match=r"class  Linear in the model"):
        plugin.set_auto_wrap_policy(torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.ReLU()))


def test_what_the_configuration_of_a_model_says(tmp_path):
    host = machine(tmp_path)
    quantised = {"load_in_4bit": True, "bnb_4bit_quant_storage": "uint8", "token": "hf_secret"}
    config = {"model_type": "llama", "torch_dtype": "bfloat16", "quantization_config": quantised}
    (host.folder / "config.json").write_text(json.dumps(config))
    (host.folder / "other.json").write_text('{"dtype": "float16"}')
    said = {setting.name: setting.value for setting in settings(host)[0]}
    assert said == {
        "model.dtype": "bfloat16",
        "model.quantization_config.load_in_4bit": "true",
        "model.quantization_config.bnb_4bit_quant_storage": "uint8",
        "model.quantization_config.token": "***",
    }


PROJECT = """
[project]
name = "job"
dependencies = ["torch>=2.6", "Flash_Attn>=2.7", "own @ https://host/own.whl"]
[tool.uv]
no-build-isolation-package = ["flash-attn"]
[tool.uv.sources]
torch = { index = "cpu" }
[tool.uv.extra-build-dependencies]
flash-attn = ["torch"]
"""


def test_what_a_project_of_uv_says(tmp_path):
    host = machine(tmp_path)
    (host.folder / "pyproject.toml").write_text(PROJECT)
    notes: list[str] = []
    assert {setting.name: setting.value for setting in project_settings(host, notes)} == {
        "uv.dependencies": "torch,flash-attn",
        "uv.sources": "torch",
        "uv.no-build-isolation-package": "flash-attn",
        "uv.extra-build-dependencies": "flash-attn",
    }
    assert notes == []


def test_a_project_that_uv_does_not_manage_says_nothing(tmp_path):
    host = machine(tmp_path)
    (host.folder / "pyproject.toml").write_text('[project]\ndependencies = ["flash-attn"]\n')
    assert list(project_settings(host, [])) == []


@pytest.mark.parametrize(
    "text", ["[tool.uv\n", "[tool.uv]\nsources = 3\n[project]\ndependencies = {a = 1}\n", "\0[tool.uv"]
)
def test_a_damaged_project_is_told_or_left_out(tmp_path, text):
    host = machine(tmp_path)
    (host.folder / "pyproject.toml").write_text(text)
    notes: list[str] = []
    assert list(project_settings(host, notes)) == []
    assert all("pyproject.toml was not read" in note for note in notes)
