"""`trueup attention explain` on its command line: what it answers, and what it says to wrong input."""

import json
import subprocess
import sys

import pytest

from trueup.cli import main


def asked(capsys, *arguments: str, code: int = 0) -> str:
    assert main(["attention", "explain", *arguments]) == code
    return capsys.readouterr().out


def answer(capsys, *arguments: str, code: int = 0) -> dict:
    return json.loads(asked(capsys, *arguments, "--format", "json", code=code))


def test_a_call_on_a_cpu(capsys):
    printed = asked(capsys, "--shape", "2,32,4096,128", "--gpu", "cpu")
    assert printed.startswith("trueup: sdpa-flash-cpu takes the call\n")


@pytest.mark.parametrize(
    ("arguments", "takes"),
    [
        (("--gpu", "h100", "--torch", "2.13"), "sdpa-cudnn"),
        (("--gpu", "h100", "--torch", "2.8"), "sdpa-flash"),
        (("--gpu", "h100", "--torch", "2.5.0"), "sdpa-cudnn"),
        (("--gpu", "h100", "--torch", "2.5.1"), "sdpa-flash"),
        (("--gpu", "h100", "--torch", "2.13", "--dropout", "0.1"), "sdpa-flash"),
        (("--gpu", "h100", "--torch", "2.13", "--dropout", "0.125"), "sdpa-cudnn"),
        (("--gpu", "h100", "--torch", "2.11", "--dropout", "0.1"), "sdpa-cudnn"),
        (("--gpu", "a100"), "sdpa-flash"),
        (("--gpu", "a100", "--mask", "padding"), "sdpa-mem-efficient"),
        (("--gpu", "a100", "--dtype", "fp32"), "sdpa-mem-efficient"),
        (("--gpu", "a100", "--dtype", "float64"), "sdpa-math"),
        (("--gpu", "t4"), "sdpa-math"),
        (("--gpu", "t4", "--dtype", "fp16"), "sdpa-mem-efficient"),
        (("--gpu", "a100", "--kv-heads", "8", "--enable-gqa"), "sdpa-flash"),
        (("--gpu", "a100", "--kv-heads", "8", "--enable-gqa", "--mask", "padding"), "sdpa-math"),
        (("--gpu", "a100", "--disable", "flash", "--disable", "efficient"), "sdpa-math"),
        (("--gpu", "h100", "--torch", "2.13", "--deterministic"), "sdpa-flash"),
        (("--gpu", "a100", "--strided"), "sdpa-math"),
        (("--gpu", "a100", "--entry", "varlen_attn", "--mask", "document"), "varlen-attn"),
        (("--gpu", "a100", "--entry", "flex", "--mask", "window=128", "--softcap"), "flex"),
        (("--gpu", "t4", "--entry", "flex", "--dtype", "fp16"), "flex"),
        (("--gpu", "t4", "--entry", "flex"), "flex-eager"),
        (("--gpu", "a100", "--entry", "hf-sdpa", "--mask", "all-ones"), "sdpa-flash"),
        (("--gpu", "a100", "--entry", "hf-eager"), "eager"),
    ],
    ids=" ".join,
)
def test_the_kernel_of_a_gpu_that_is_named(capsys, arguments: tuple[str, ...], takes: str):
    assert answer(capsys, "--shape", "2,32,512,128", *arguments)["takes"] == takes


def test_a_mask_that_hides_nothing_is_named_with_what_to_do(capsys):
    printed = asked(capsys, "--shape", "2,32,512,128", "--mask", "all-ones", "--gpu", "a100")
    assert "sdpa-mem-efficient takes the call" in printed
    better = printed.partition("better    sdpa-flash\n")[2]
    assert better.startswith("    do      drop the all-ones mask\n")


def test_fewer_heads_of_keys_without_the_flag_fail_and_say_so(capsys):
    found = answer(capsys, "--shape", "2,32,512,128", "--kv-heads", "8", "--gpu", "a100", code=1)
    assert found["takes"] is None
    assert found["error"].startswith("sdpa-math raises an error: heads")
    assert found["better"][0] == {"kernel": "sdpa-flash", "changes": ["pass enable_gqa=True"], "through": ""}


def test_each_thing_that_is_missing_has_its_source(capsys):
    found = answer(capsys, "--shape", "2,32,512,320", "--dtype", "fp32", "--mask", "float", "--gpu", "t4")
    lacks = [lack for each in found["candidates"] for lack in each["lacks"]]
    assert len(lacks) > 20
    assert all(lack["source"] and lack["of"] and lack["evidence"] in ("run", "read") for lack in lacks)


def test_what_a_library_makes_of_the_call_is_told(capsys):
    found = answer(
        capsys, "--shape", "2,32,512,128", "--kv-heads", "8", "--entry", "hf-sdpa", "--mask", "padding", "--gpu", "cpu"
    )
    assert "keys and values (2, 8, 512, 128)" in found["call"]
    assert "keys and values (2, 32, 512, 128)" in found["given"]


def test_a_flash_attention_that_is_not_installed_names_what_would_run_instead(capsys):
    found = answer(capsys, "--shape", "2,32,512,128", "--entry", "flash_attention_2", "--gpu", "a100", code=1)
    assert found["fallback"]["requested"] == "flash-attn-2"
    assert found["fallback"]["actual"] == "sdpa-flash"
    assert "flash-attn" in found["fallback"]["reason"]


def test_a_model_is_shown_to_another_attention_of_its_library_not_to_arguments_that_it_does_not_pass(capsys):
    call = ("--shape", "2,64,512,64", "--kv-heads", "8", "--gpu", "h100")
    found = answer(capsys, *call, "--entry", "flash_attention_2", code=1)
    assert found["better"][0] == {"kernel": "sdpa-cudnn", "changes": [], "through": 'attn_implementation="sdpa"'}
    assert len({each["through"] for each in found["better"]}) == len(found["better"])
    found = answer(capsys, *call, "--entry", "hf-sdpa", "--sinks", code=1)
    (better,) = found["better"]
    assert better == {"kernel": "flex", "changes": [], "through": 'attn_implementation="flex_attention"'}


def test_what_would_serve_if_it_were_installed_is_told_from_what_would_not(capsys):
    printed = asked(capsys, "--shape", "2,64,512,64", "--sinks", "--gpu", "h100", code=1)
    (serving,) = [line for line in printed.splitlines() if line.startswith("  if installed")]
    assert "kernels-community/vllm-flash-attn3" in serving
    assert "flash-attn-2" not in serving


def test_the_answer_is_written_beside_what_is_printed(capsys, tmp_path):
    file = tmp_path / "new" / "answer.json"
    asked(capsys, "--shape", "2,4,8,16", "--gpu", "cpu", "--json", str(file))
    assert json.loads(file.read_text())["takes"] == "sdpa-flash-cpu"


def test_what_was_measured_here_ranks_before_what_is_assumed(capsys, tmp_path, monkeypatch):
    from trueup.attention.bench.running import device_name
    from trueup.attention.bench.saved import key_of

    monkeypatch.chdir(tmp_path)
    device = device_name(None, "cpu")  # as the benchmark names it
    call = {"dtype": "bf16", "head_size": 16, "length": 8, "mask": "none", "grouped": False, "backward": False}
    file = tmp_path / ".trueup" / "attention.json"
    file.parent.mkdir()
    order = ["sdpa-math", "sdpa-flash-cpu"]
    file.write_text(json.dumps({"version": 1, "measured": {key_of(device, **call): {"order": order}}}))
    found = answer(capsys, "--shape", "2,4,8,16", "--no-grad")
    assert found["ranked_by"] == "measurement"
    assert found["better"][0]["kernel"] == "sdpa-math"
    assert found["better"][0]["changes"] == ["sdpa_kernel([SDPBackend.MATH]) around it"]
    assert answer(capsys, "--shape", "2,4,8,64", "--no-grad")["ranked_by"] == "generation"


@pytest.mark.parametrize("written", ["(2, 4, 8, 16)", "torch.Size([2, 4, 8, 16])", "2x4x8x16", "[2,4,8,16]"])
def test_a_shape_is_taken_as_python_prints_it(capsys, written: str):
    assert answer(capsys, "--shape", written, "--gpu", "cpu")["call"].startswith("queries (2, 4, 8, 16), ")


@pytest.mark.parametrize(
    ("written", "dtype"),
    [("torch.bfloat16", "bf16"), ("Half", "fp16"), ("torch.float8_e4m3fn", "fp8"), ("float", "fp32")],
)
def test_a_dtype_is_taken_as_torch_names_it(capsys, written: str, dtype: str):
    code = 1 if dtype == "fp8" else 0
    assert f" {dtype}, " in answer(capsys, "--shape", "2,4,8,16", "--dtype", written, "--gpu", "cpu", code=code)["call"]


def test_the_flag_for_causal_beside_a_cache_is_told_to_hide_it(capsys):
    """Held against torch: the one query sees the first key alone."""
    shape = ("--shape", "1,1,1,16", "--kv-length", "9", "--gpu", "cpu", "--no-grad")
    assert (
        "is_causal counts from the first key: of 9 the last query sees 1"
        in answer(capsys, *shape, "--mask", "causal")["why"]
    )
    assert "is_causal" not in answer(capsys, *shape)["why"]
    torch = pytest.importorskip("torch")
    query, key, value = torch.randn(1, 1, 1, 16), torch.randn(1, 1, 9, 16), torch.randn(1, 1, 9, 16)
    attention = torch.nn.functional.scaled_dot_product_attention
    assert torch.allclose(attention(query, key, value, is_causal=True), value[:, :, :1])


def test_one_dimension_is_refused_in_words(capsys):
    found = answer(capsys, "--shape", "128", "--gpu", "h100", code=1)
    assert "dimensions: 1, needs 2 or more" in found["error"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "missing option '--shape'"),
        (("--shape", "2,x"), "give numbers with commas"),
        (("--shape", "2,-4,8,16"), "is no shape"),
        (("--shape", "2,4,8,16", "--gpu", "nonsense"), "no NVIDIA GPU called nonsense"),
        (("--shape", "2,4,8,16", "--mask", "windows"), "is none of"),
        (("--shape", "2,4,8,16", "--mask", "window=0"), "is none of"),
        (("--shape", "2,4,8,16", "--mask", "causal=3"), "is none of"),
        (("--shape", "2,4,8,16", "--mask", "window=\u00b2"), "is none of"),
        (("--shape", "2,4,8,16", "--dtype", "int8"), "'int8'"),
        (("--shape", "2,4,8,16", "--dropout", "1.5"), "is no probability"),
        (("--shape", "2,4,8,16", "--entry", "sage"), "is none of sdpa, "),
        (("--shape", "2,4,8,16", "--torch", "new"), "is no release of torch"),
        (("--shape", "8,16", "--kv-heads", "2"), "3 dimensions or more"),
        (("--shape", "2,4,8,16", "--kv-shape", "2,4,8"), "has 3 dimensions and --shape 4"),
        (("--shape", "2,4,8,16", "--kv-shape", "2,4,8,16", "--kv-heads", "2"), "--kv-shape says all"),
        (("--shape", "2,4,8,16", "--python", "/nowhere/python"), "there is no /nowhere/python"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_wrong_input_is_said_in_a_line(capsys, arguments: tuple[str, ...], message: str):
    assert main(["attention", "explain", *arguments]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert message in printed.err
    assert "Traceback" not in printed.err


def test_it_imports_no_torch():
    code = (
        "import sys; from trueup.cli import main; "
        "main(['attention', 'explain', '--shape', '2,4,8,16', '--gpu', 'h100', '--format', 'json']); "
        "sys.exit(any(name in sys.modules for name in ('torch', 'transformers')))"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=60).returncode == 0
