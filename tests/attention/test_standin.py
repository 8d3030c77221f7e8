"""flash-attn on CPU: its own Python layer over our extension computes, refuses and traces as the real one does."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from standin_source import FUNCTIONS, messages

from trueup.attention.cpu.building import CannotBuild, built_extension
from trueup.attention.cpu.packages import flash_attn_on_cpu

pytestmark = [pytest.mark.network, pytest.mark.timeout(900)]
JOBS = Path(__file__).with_name("jobs")
OPAQUE, OPERATORS = ("2.5.9.post1", "2.6.3"), ("2.7.4.post1", "2.8.3")
VERSIONS = (*OPAQUE, *OPERATORS)
FP16, BF16 = 1.5e-3, 1e-2
"""Of the largest value: rounding of the result and of what the backward takes from the forward."""


@pytest.fixture(scope="module")
def observed(flash_attn_packages):
    """What was observed under a version of flash-attn: a function of the version and the observation's name."""
    known: dict[tuple[str, str], dict] = {}

    def of(version: str, name: str) -> dict:
        if (version, name) not in known:
            names = ["numbers", "errors"] if name in ("numbers", "errors") else [name]
            found = json.loads(run_job(flash_attn_packages(version), "standin.py", *names))
            assert found["version"] == found["played"] == version
            known.update({(version, each): found[each] for each in names})
        return known[version, name]

    return of


def run_job(packages: Path, job: str, *arguments: str) -> str:
    environment = {**os.environ, "PYTHONPATH": str(packages)}
    environment.pop("TRUEUP_STANDIN_CAPABILITY", None)
    line = [sys.executable, "-W", "ignore", JOBS / job, *arguments]
    done = subprocess.run(line, capture_output=True, text=True, timeout=600, env=environment, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    return done.stdout


@pytest.mark.parametrize("version", VERSIONS)
def test_results_and_gradients_are_those_of_float64(observed, version):
    numbers = dict(observed(version, "numbers"))
    rate, repeats = numbers.pop("dropout rate"), numbers.pop("dropout repeats")
    left_out, outside = numbers.pop("rows that max_seqlen_q leaves out"), numbers.pop("cu_seqlens out of q")
    softcap = [case for case in numbers if "softcap" in case]
    assert len(numbers) >= 48
    assert bool(softcap) == (version not in ("2.5.9.post1",))
    for case, errors in numbers.items():
        assert max(errors.values()) < (FP16 if case.startswith("float16") else BF16), (case, errors)
        assert errors.get("lse", 0) < 1e-5, (case, errors)
    # 1 in 256 steps: of 0.7, floor(0.7 * 255) + 1 values of a byte are kept
    assert rate["kept"] == pytest.approx(179 / 256, abs=0.01)
    assert repeats == {"same": True, "again": False}
    # 2.5 writes logsumexps into max_seqlen_q places: what is behind 100 rows has none
    assert left_out == dict.fromkeys(("first", "last"), 100 if version == "2.5.9.post1" else 128)
    assert outside["words"].startswith("CUDA error: an illegal memory access was encountered")


def checks(version: str, source: str) -> dict[str, list[str]]:
    """The messages that a CPU playing CUDA can show, in order."""
    found = messages(source)
    for each in found.values():
        if version in OPERATORS:  # a foreign device is found while switching to it, before any check
            each.insert(0, "CUDAGuardImpl initialized with non-CUDA DeviceType: meta")
            each.remove("q must be on CUDA")
    return found


NEVER = {
    # what is asked before excludes it
    "bfloat16 is only supported on Ampere GPUs or newer",
    "rotary_cos must have shape (seqlen_ro, params.rotary_dim / 2)",
    # the sizes are those of q itself; a q of other dimensions fails before
    "q must have shape (total_q, num_heads, head_size)",
    "q must have shape (total_q, num_heads, head_size_og)",
    "q must have shape (batch_size, seqlen_q, num_heads, head_size)",
    "q must have shape (batch_size, seqlen_q, num_heads, head_size_og)",
}
NEVER_HERE = {
    "fwd": {"num_splits > 128 not supported"},
    "varlen_fwd": {"num_splits > 128 not supported"},
    "fwd_kvcache": {"Expected p_dropout < 1.f to be true, but got false."},
}


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("version", VERSIONS)
def test_every_check_of_the_real_extension_is_made_in_its_words(observed, flash_attn_checks, version, function):
    expected = checks(version, flash_attn_checks(version))[function]
    shown = observed(version, "errors")[function]["single"]
    assert shown["nothing"] == ""
    assert {text for text in shown.values() if text and not text.startswith("CPU stand-in: ")} <= set(expected)
    assert set(expected) - set(shown.values()) <= NEVER | NEVER_HERE.get(function, set())


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("version", VERSIONS)
def test_of_two_faults_the_one_that_the_real_extension_meets_first_is_told(
    observed, flash_attn_checks, version, function
):
    expected = checks(version, flash_attn_checks(version))[function]
    errors = observed(version, "errors")[function]
    assert len(errors["pairs"]) >= 90
    for one, other, text in errors["pairs"]:
        first = min(expected.index(errors["single"][fault]) for fault in (one, other))
        assert text == expected[first], (one, other)


@pytest.mark.parametrize("version", VERSIONS)
def test_generations_of_gpus_are_told_apart(observed, version):
    errors = observed(version, "errors")
    for function in FUNCTIONS:
        shown = errors[function]["single"]
        served = {gpu for gpu in ("7.5", "8.0", "9.0", "10.0") if not shown[f"GPU {gpu}"]}
        assert served == ({"8.0", "9.0"} if version in OPAQUE else {"8.0", "9.0", "10.0"})
    for function in ("bwd", "varlen_bwd"):
        shown = errors[function]["single"]
        cases = [(dim, p) for dim in (224, 256) for p in (0.0, 0.1)]
        refused = {case for case in cases if shown["heads of {}, dropout {}, GPU 8.6".format(*case)]}
        assert refused == {(224, 0.1), (256, 0.1)} | ({(224, 0.0)} if version == "2.5.9.post1" else set())
        words = shown["heads of 256, dropout 0.1, GPU 8.6"]
        # the real one has no check since 2.7.3, and no kernel either
        assert words.startswith("CPU stand-in: ") == (version in OPERATORS), words


KILLS = """
import torch
from flash_attn import flash_attn_func

def tensor(heads):
    return torch.ones(1, 4, heads, 32, dtype=torch.bfloat16)

print(torch.equal(flash_attn_func(*map(tensor, (2, 2, 2)), -0.1), tensor(2)))
try:
    flash_attn_func(*map(tensor, (2, 0, 0)))
except RuntimeError as error:
    print(error)
"""


@pytest.mark.parametrize("version", [OPAQUE[1], OPERATORS[1]])
def test_numbers_that_make_no_sense_do_not_kill_the_process(flash_attn_packages, version):
    """Dropout below 0 is none for the kernels; no heads of keys is a division by zero for the real extension."""
    line = [sys.executable, "-W", "ignore", "-c", KILLS]
    environment = {**os.environ, "PYTHONPATH": str(flash_attn_packages(version))}
    done = subprocess.run(line, capture_output=True, text=True, timeout=120, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    same, refused = done.stdout.splitlines()[:2]
    assert same == "True"
    assert refused.startswith("CPU stand-in: k has no heads")


@pytest.mark.parametrize("version", [pytest.param(OPAQUE[0], marks=pytest.mark.slow), OPAQUE[1]])
def test_dynamo_breaks_its_graph_at_the_extension_of_old_versions(observed, version):
    for name, seen in observed(version, "dynamo").items():
        function = "fwd" if name == "dense" else "varlen_fwd"
        assert (seen["graphs"], seen["breaks"], seen["equal"]) == (2, 1, True), name
        for words in (*seen["reasons"], seen["fullgraph"]):
            assert "Attempted to call function marked as skipped" in words
            assert "Dynamo does not know how to trace the builtin `flash_attn_2_cuda." in words
            assert f".{function}.`" in words


@pytest.mark.parametrize("version", [pytest.param(OPERATORS[0], marks=pytest.mark.slow), OPERATORS[1]])
def test_dynamo_keeps_the_operators_of_new_versions_in_one_graph(observed, version):
    seen = observed(version, "dynamo")
    for name in ("dense", "varlen"):
        assert seen[name] == {"graphs": 1, "breaks": 0, "reasons": [], "fullgraph": "", "equal": True}
    # One tensor for both cu_seqlens, as self-attention has them: Dynamo of torch 2.13 refuses it
    both = seen["varlen_with_one_cu_seqlens"]
    assert both["breaks"] > 0
    assert "duplicate tensor input" in both["fullgraph"]
    assert both["equal"]


@pytest.mark.slow
@pytest.mark.parametrize("version", OPERATORS)
def test_operators_hold_under_opcheck_inductor_and_checkpointing(observed, version):
    seen = observed(version, "operators")
    assert len(seen["opcheck"]) == 4
    for operator, verdicts in seen["opcheck"].items():
        assert set(verdicts.values()) == {"SUCCESS"}, (operator, verdicts)
    assert seen["inductor"]
    assert seen["checkpoint"]


@pytest.mark.parametrize("version", [OPAQUE[1], pytest.param(OPERATORS[1], marks=pytest.mark.slow)])
def test_transformers_trains_with_flash_attention_2(flash_attn_packages, version):
    found = json.loads(run_job(flash_attn_packages(version), "standin_huggingface.py"))
    assert found["refused before"].startswith("FlashAttention2 has been toggled on, but it cannot be used")
    assert found["kernel"] == version
    for inputs in ("plain", "padded"):
        errors = found["errors"][inputs]
        assert errors["flash_attention_2"] == pytest.approx(errors["eager"], rel=0.3)
        assert errors["flash_attention_2"] < 0.02
    assert not found["cuda taken for available"]


def test_only_allocations_are_seen_of_the_computation(flash_attn_packages):
    """Neither profilers nor dispatch modes nor autocast meet an operator that a GPU kernel would not show."""
    found = json.loads(run_job(flash_attn_packages(OPAQUE[1]), "standin_seen.py"))
    allocations = ("aten::empty", "aten::zeros", "aten::zero_", "aten::as_strided", "aten::detach", "detach")
    assert found["profiled"]
    assert not [name for name in found["profiled"] if not name.startswith(allocations)]
    assert not [name for name in found["dispatched"] if not name.startswith(allocations)]
    assert found["equal under autocast"]


def test_processes_that_want_a_build_at_once_make_one(tmp_path):
    compiler, built = tmp_path / "g++", tmp_path / "built"
    compiler.write_text(
        f'#!/bin/sh\necho build >> {built}\nsleep 1\nwhile [ "$1" != -o ]; do shift; done\ntouch "$2"\n'
    )
    compiler.chmod(0o755)
    code = "import sys, pathlib; from trueup.attention.cpu.building import built_extension as built; "
    line = [sys.executable, "-c", code + "print(built(pathlib.Path(sys.argv[1])))", str(tmp_path / "builds")]
    environment = {**os.environ, "CXX": str(compiler)}
    running = [subprocess.Popen(line, env=environment, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    places = {process.communicate(timeout=300)[0] for process in running}
    assert len(places) == 1
    assert Path(places.pop().strip()).exists()
    assert built.read_text() == "build\n"


def test_a_missing_compiler_is_said(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    with pytest.raises(CannotBuild, match="needs a C\\+\\+ compiler: no g\\+\\+, c\\+\\+ or clang\\+\\+ on PATH"):
        built_extension(tmp_path / "builds")


def test_what_does_not_compile_is_shown(tmp_path, monkeypatch):
    monkeypatch.setenv("CXX", "false")
    with pytest.raises(CannotBuild, match="did not compile\n\\$ false -std"):
        built_extension(tmp_path / "builds")


def test_a_folder_that_is_no_source_of_flash_attn_is_refused(tmp_path):
    with pytest.raises(ValueError, match="no source distribution of flash-attn 2"):
        flash_attn_on_cpu(tmp_path, tmp_path / "packages")
