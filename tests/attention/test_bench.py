"""The attention benchmark: what it measures is the attention that was asked for, and its numbers are what they say."""

import inspect
import json
import time

import pytest
import torch

from trueup.attention.bench import memory, roofline, running, trying, ways
from trueup.attention.bench.case import MASKS, CaseError, allowed, case_of, density
from trueup.attention.bench.running import NoDevice, bench, here
from trueup.attention.bench.saved import measured_order, save
from trueup.attention.bench.statistics import timing
from trueup.attention.bench.time_limit import OutOfTime, time_limit
from trueup.attention.order import next_best
from trueup.reports import attention_bench as report


@pytest.fixture(autouse=True)
def _small_peaks(monkeypatch):
    monkeypatch.setattr(roofline, "MATRIX", {"cpu": 256})
    monkeypatch.setattr(roofline, "COPIED", {"cpu": 1 << 22})


@pytest.mark.parametrize(
    ("shape", "options", "said"),
    [
        ("4,32,2048", {}, "is no shape"),
        ("4,32,0,128", {}, "above 0"),
        ("a,b,c,d", {}, "is no shape"),
        ("1,8,64,16", {"kv_heads": 3}, "8 heads cannot share 3"),
        ("1,8,64,16", {"mask": "sliding"}, "choose from none, causal"),
        ("1,8,64,16", {"mask": "window=0"}, "above 0"),
        ("1,8,64,16", {"mask": "causal=3"}, "only window=TOKENS"),
        ("1,8,64,16", {"kv_length": 32}, "as many keys as queries"),
        ("1,8,4,16", {"mask": "document=5"}, "does not hold 5 documents"),
    ],
)
def test_what_cannot_be_measured_is_said(shape, options, said):
    with pytest.raises(CaseError, match=said):
        case_of(shape, **options)


@pytest.mark.parametrize("mask", [*MASKS, "window=7", "document=3"])
def test_the_density_is_the_share_of_scores_that_the_mask_keeps(mask):
    case = case_of("3,2,50,8", mask=mask)
    may = allowed(case, torch, "cpu")
    assert density(case) == pytest.approx(1.0 if may is None else may.expand(3, 1, 50, 50).double().mean().item())


@pytest.mark.parametrize("mask", [*MASKS, "window=7"])
def test_every_kernel_computes_the_attention_that_was_asked_for(mask):
    found = bench(case_of("2,4,40,16", kv_heads=2, dtype="fp32", mask=mask), modes=(), repeat=1, budget=600)
    rows = {row.kernel: row for row in found.rows}
    assert set(rows) == {"sdpa-flash-cpu", "sdpa-math", "eager", "flex-eager"}
    assert max(row.error for row in found.rows) < 2e-6
    trained = [row for row in found.rows if row.backward is not None]
    assert {row.kernel for row in trained} == {"sdpa-flash-cpu", "sdpa-math", "eager"}
    assert max(row.gradient_error for row in trained) < 2e-6
    assert found.rows[-1].kernel == "flex-eager"  # has no backward pass on a CPU, so it comes last
    assert "backward" in rows["flex-eager"].without_backward


def test_a_wrong_result_would_show():
    case = case_of("1,2,40,16", dtype="fp32", backward=False)
    other = case_of("1,2,40,16", dtype="fp32", mask="window=39", backward=False)
    given = (torch.randn(1, 2, 40, 16), torch.randn(1, 2, 40, 16), torch.randn(1, 2, 40, 16), torch.ones(1, 2, 40, 16))
    exact = trying.Reference(case, torch, "cpu", given, False)
    way = next(way for way in running.ways("cpu", ()) if way.kernel == "eager")
    assert exact.error(way.make(case, torch, "cpu")(*given[:3])) < 1e-6
    assert exact.error(way.make(other, torch, "cpu")(*given[:3])) > 1e-3  # one score of 820 too few


def test_times_memory_and_order():
    found = bench(
        case_of("1,4,512,32", kv_heads=4, dtype="fp32"), modes=(), repeat=7, kernels=("sdpa-flash-cpu", "eager")
    )
    flash, eager = found.rows
    assert (flash.kernel, eager.kernel) == ("sdpa-flash-cpu", "eager")
    assert found.order == ("sdpa-flash-cpu", "eager")
    for row in found.rows:
        assert row.both.samples == found.rounds == 7
        assert 0 < row.both.low <= row.both.median <= row.both.high
        assert row.forward.median < row.both.median
        assert row.roofline > 0
    assert found.rows[0].relative.median == 1
    assert found.rows[0] in found.equals
    scores = 4 * 512 * 512 * 4
    assert eager.peak_bytes > 2 * scores > scores > flash.peak_bytes
    assert found.roofline.flops == pytest.approx(3.5 * 4 * 4 * 512 * 512 * 32 * 513 / 1024)
    assert found.roofline.bytes == 3 * 4 * (4 * 512 * 32) * 4


def test_what_cannot_serve_is_listed_with_its_reason():
    found = bench(case_of("1,2,32,16", dtype="fp32"), modes=(), repeat=1, kernels=())
    left = {each.kernel: each.reason for each in found.left_out}
    assert "GPU" in left["sdpa-cudnn"]
    assert "flash-attn installed" in left["flash-attn-2"]
    tight = bench(
        case_of("1,2,32,16", dtype="fp32"), modes=("default",), repeat=1, budget=1e-3, kernels=("eager", "flex")
    )
    assert tight.rows == ()
    assert {each.mode for each in tight.left_out if "not compiled" in each.reason} == {"default"}
    assert report.choice(tight).startswith("none")
    with pytest.raises(NoDevice, match="no kernel 'sdpa'"):
        bench(case_of("1,2,32,16"), kernels=("sdpa",))
    with pytest.raises(NoDevice, match="no mode 'fast'"):
        bench(case_of("1,2,32,16"), modes=("fast",))


def test_an_unfused_kernel_whose_scores_do_not_fit_is_not_tried():
    case = case_of("64,128,65536,128", dtype="fp32")
    peaks = roofline.Peaks(case, torch, "cpu")
    by_name = {way.kernel: way for way in running.ways("cpu", ())}
    assert "scores would take" in trying._without_trying(by_name["sdpa-math"], case, peaks, 60, 0)
    assert trying._without_trying(by_name["sdpa-flash-cpu"], case, peaks, 60, 0) == ""


def test_intervals_of_the_median():
    assert timing([3.0, 1.0, 2.0]).median == 2.0
    found = timing([float(number) for number in range(1, 21)])
    assert (found.median, found.low, found.high) == (10.5, 6.0, 15.0)  # table of binomial ranks for n = 20
    assert (timing([5.0, 1.0, 2.0]).low, timing([5.0, 1.0, 2.0]).high) == (1.0, 5.0)


def test_the_peak_of_a_call():
    def call():
        first = torch.ones(1000, 1000)
        second = first + 1
        del first
        third = second * 2
        return third.sum()

    assert 8_000_000 <= memory.peak_of(call, torch, "cpu") < 8_100_000


def test_a_limit_on_work():
    began = time.perf_counter()

    def work():
        with time_limit(0.05):
            while time.perf_counter() - began < 5:
                pass

    with pytest.raises(OutOfTime):
        work()
    assert time.perf_counter() - began < 1
    with time_limit(60):
        pass


def test_a_saved_order_is_what_a_fallback_goes_by(tmp_path):
    place = tmp_path / "attention.json"
    case = case_of("1,4,600,16", kv_heads=2, dtype="fp32")
    found = bench(case, modes=(), repeat=1, kernels=("sdpa-math", "eager"))
    save(found, place)
    near = case_of("3,4,900,16", kv_heads=2, dtype="fp32").call(here(torch, "cpu"))
    assert measured_order(near, found.device, place) == found.order
    assert next_best(near, ("eager", "sdpa-math"), found.order, requested="flash-attn-2").actual == found.order[0]
    for other in (case_of("1,4,2000,16", kv_heads=2, dtype="fp32"), case_of("1,4,600,16", dtype="fp32")):
        assert measured_order(other.call(here(torch, "cpu")), found.device, place) is None
    assert measured_order(near, "another device", place) is None
    save(bench(case_of("1,2,32,16", dtype="fp32"), modes=(), repeat=1, kernels=("eager",)), place)
    assert len(json.loads(place.read_text())["measured"]) == 2
    place.write_text("[1]")
    with pytest.raises(ValueError, match="no file of measured attention"):
        save(found, place)
    assert place.read_text() == "[1]"
    assert measured_order(near, found.device, place) is None


@pytest.mark.slow
def test_times_are_those_of_torchs_own_benchmark():
    from torch.utils.benchmark import Timer

    found = bench(
        case_of("1,8,1024,64", dtype="fp32", backward=False), modes=(), repeat=15, kernels=("sdpa-flash-cpu",)
    )
    q, k, v, _ = running.inputs(case_of("1,8,1024,64", dtype="fp32"), torch, "cpu")
    timer = Timer(
        "f(q, k, v, is_causal=True)",
        globals={"f": torch.nn.functional.scaled_dot_product_attention, "q": q, "k": k, "v": v},
        num_threads=torch.get_num_threads(),
    )
    assert found.rows[0].forward.median == pytest.approx(timer.blocked_autorange(min_run_time=2).median, rel=0.5)


@pytest.mark.slow
def test_compiled_kernels():
    found = bench(case_of("1,4,256,32", dtype="fp32"), modes=("default",), repeat=5, budget=1200)
    rows = {row.name: row for row in found.rows}
    assert {"flex, compiled", "eager, compiled", "sdpa-flash-cpu, compiled"} <= set(rows)
    assert rows["flex, compiled"].peak_bytes < rows["flex-eager"].peak_bytes / 2  # it really ran compiled
    assert all(row.compile_seconds for name, row in rows.items() if "compiled" in name)
    assert max(row.error for row in found.rows) < 1e-5


@pytest.mark.parametrize("mask", ["none", "causal", "document=3"])
@pytest.mark.parametrize("kv_heads", [4, 2])
def test_varlen_attn_is_called_with_arguments_that_this_torch_has(monkeypatch, mask: str, kv_heads: int):
    """It runs on GPUs alone; what it is given is held against its signature."""
    from torch.nn.attention import varlen

    real = inspect.signature(varlen.varlen_attn)
    given = {}

    def varlen_attn(*args, **kwargs):
        bound = real.bind(*args, **kwargs)
        given.update(bound.arguments)
        return bound.arguments["query"]

    varlen_attn.__signature__ = real
    monkeypatch.setattr(varlen, "varlen_attn", varlen_attn)
    case = case_of("2,4,10,8", mask=mask, kv_heads=kv_heads)
    attention = next(way for way in ways.CUDA if way.kernel == "varlen-attn").make(case, torch, "cpu")
    q, k = torch.randn(case.query), torch.randn(case.key)
    assert torch.equal(attention(q, k, k), q)
    assert given.get("window_size", (-1, -1)) == ((-1, -1) if mask == "none" else (-1, 0))
    assert given.get("enable_gqa", False) == (kv_heads == 2)
    assert given["cu_seq_q"].tolist() == ([0, 4, 7, 10, 14, 17, 20] if mask == "document=3" else [0, 10, 20])


def test_an_older_varlen_attn_has_a_flag_for_causal_and_no_shared_heads():
    known = ("query", "is_causal", "scale")  # of torch 2.10
    assert ways._varlen_options(True, False, known) == {"is_causal": True}
    assert ways._varlen_options(False, False, known) == {}
    with pytest.raises(ways.CannotCall, match="as many heads"):
        ways._varlen_options(True, True, known)
