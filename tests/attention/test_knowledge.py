"""What is known of the kernels: names, sources that stand where they are said to, and changes that help."""

import re
from dataclasses import replace
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

import pytest

from trueup.attention.call import Call, Mask, Place
from trueup.attention.constraints import Constraint, Source
from trueup.attention.entries import ENTRIES
from trueup.attention.explaining import explain
from trueup.attention.kernels import DEVICE_KERNELS, kernel_of
from trueup.attention.knowledge import KERNELS
from trueup.attention.knowledge.hub import BUILDS
from trueup.attention.order import BY_GENERATION, CPU, default_order, next_best
from trueup.attention.predict import predict
from trueup.attention.ways import way_to

CONSTRAINTS = [(kernel.name, each) for kernel in KERNELS.values() for each in kernel.constraints]
SOURCES = {each.source for _, each in CONSTRAINTS} | {
    each.source for kernel in KERNELS.values() for each in kernel.compiled
}
FILE = re.compile(r"(?P<package>torch|transformers)/(?P<file>[\w/.]+):(?P<line>\d+)(?: \((?P<name>\w+)\))?")
H100 = Place(
    device="cuda",
    capability=(9, 0),
    versions={"torch": (2, 13), "cudnn": (9, 20, 0), "cuda": (13, 0), "flash-attn": (2, 8, 3), "transformers": (5, 24)},
)
SHAPE = (2, 32, 512, 128)


def on(place: Place = H100, **options) -> Call:
    given = {"query": SHAPE, "key": SHAPE, "value": SHAPE, **options}
    return Call(place=place, **given)


@pytest.mark.parametrize("source", sorted((each for each in SOURCES if FILE.match(each.where)), key=str), ids=str)
def test_a_line_of_an_installed_library_is_where_it_is_said_to_be(source: Source):
    found = FILE.match(source.where)
    assert found is not None
    package, _, told = source.of.partition(" ")
    assert package == found["package"]
    if not version(package).startswith(f"{told}."):
        pytest.skip(f"{package} {version(package)} is installed, and the lines are those of {told}")
    root = Path(find_spec(package).submodule_search_locations[0])
    lines = (root / found["file"]).read_text().splitlines()
    around = "\n".join(lines[int(found["line"]) - 1 : int(found["line"]) + 4])
    assert (found["name"] or "") in around
    assert around.strip()


@pytest.mark.parametrize("source", sorted(SOURCES, key=str), ids=lambda source: source.where.rpartition("/")[2])
def test_each_source_names_its_library_and_version(source: Source):
    assert source.of
    assert FILE.match(source.where) or source.where.startswith("https://")


def test_names_in_profiles_are_known():
    for kernel in KERNELS.values():
        for operator in kernel.operators:
            if "::" in operator and operator != "aten::_softmax":
                assert kernel_of(operator) is not None, operator
        for part in kernel.device_kernels:
            assert any(known in part or part in known for known, _ in DEVICE_KERNELS), part


def test_each_kernel_is_in_an_order_and_behind_an_entry():
    ranked = {name for _, order in BY_GENERATION for name in order} | set(CPU)
    assert ranked == set(KERNELS)
    assert {name for entry in ENTRIES.values() for name in entry.kernels} == set(KERNELS)


@pytest.mark.parametrize(("name", "constraint"), CONSTRAINTS, ids=lambda value: value if isinstance(value, str) else "")
def test_each_constraint_is_broken_by_some_call(name: str, constraint: Constraint):
    assert any(not constraint.holds(call) for call in ODD), f"{name}: {constraint.about}: {constraint.needs}"
    for call in ODD:
        assert constraint.holds(call) or constraint.given(call)


CPU_PLACE = Place(versions={"torch": (2, 13)})
OLD = Place(device="cuda", capability=(6, 1), versions={"torch": (2, 4), "flash-attn": (2, 2)})
AGED = Place(device="cuda", capability=(4, 5), versions={})
SMALL = Place(device="cuda", capability=(8, 6), versions={"torch": (2, 13), "flash-attn": (2, 2)}, deterministic=True)
B200 = Place(device="cuda", capability=(10, 0), versions={"torch": (2, 14), "cudnn": (9, 23), "flash-attn": (2, 6, 3)})
RTX = Place(device="cuda", capability=(12, 0), versions={"torch": (2, 13)}, deterministic=True)
OFF = Place(device="cuda", capability=(9, 0), disabled=frozenset({"flash", "efficient", "cudnn", "math"}))
ODD = (
    on(CPU_PLACE, dtype="fp8", mask=Mask(kind="float", shape=(2, 512, 512)), causal=True, sinks=True, nested=True),
    on(OLD, dropout=0.1, dtype="fp64"),
    on(AGED, query=(2, 32, 0, 128), key=(2, 3, 1, 64), value=(1, 5, 2, 33), contiguous=False),
    on(SMALL, query=(0, 8, 4, 224), key=(0, 8, 1, 224), value=(0, 8, 1, 224), dropout=0.1, softcap=True, alibi=True),
    on(CPU_PLACE, softcap=True, sinks=True, alibi=True),
    on(SMALL, mask=Mask(kind="window", window=3)),
    on(B200, query=(2, 4, 8, 256), key=(2, 4, 8, 256), value=(2, 4, 8, 256), softcap=True, sinks=True),
    on(B200, query=(2, 4, 8, 200), key=(2, 4, 8, 200), value=(2, 4, 8, 200)),
    on(RTX, query=(4, 8, 512), key=(4, 8, 512), value=(4, 8, 512)),
    on(OFF, mask=Mask(kind="causal"), key=(2, 32, 7, 128), value=(2, 32, 7, 8)),
    on(H100, nested=True, requires_grad=True, dtype="fp8", dropout=0.3),
    on(
        Place(device="cuda", capability=(9, 0), deterministic=True),
        query=(1, 2, 3, 256), key=(1, 2, 3, 256), value=(1, 2, 3, 256),
    ),
    on(CPU_PLACE, key=(2, 32, 512, 128), value=(2, 32, 511, 128)),
    on(Place(device="cuda", capability=(9, 0), versions={"torch": (2, 10), "cudnn": (9, 12, 0)}), dropout=0.5),
    on(query=(128,), key=(128,), value=(128,)),
    on(replace(H100, capability=(12, 0)), query=(1, 4, 8, 256), key=(1, 4, 8, 256), value=(1, 4, 8, 256), dropout=0.1),
    on(query=(70000, 4, 49, 32), key=(70000, 4, 49, 32), value=(70000, 4, 49, 32)),
    on(query=(1, 1, 2, 70000), key=(1, 1, 2, 70000), value=(1, 1, 2, 70000)),
)  # fmt: skip


@pytest.mark.parametrize("entry", ENTRIES)
def test_each_entry_has_an_answer_to_odd_calls(entry: str):
    for call in ODD:
        for compiled in (False, True):
            found = explain(replace(call, entry=entry, compiled=compiled))
            serving = [each.kernel for each in found.candidates if each.behind and each.serves]
            assert found.error or found.takes in serving or found.takes is None
            assert {each.kernel for each in found.candidates} >= set(KERNELS) - set(ENTRIES[entry].kernels)
            for each in found.candidates:
                assert each.serves == (not each.lacks)


@pytest.mark.parametrize(
    ("name", "call", "changes"),
    [
        ("sdpa-flash", on(mask=Mask(kind="all-ones")), ["drop the all-ones mask"]),
        ("sdpa-flash", on(mask=Mask(kind="causal-tensor")), ["pass is_causal=True instead of the causal mask"]),
        ("sdpa-flash", on(dtype="fp32"), ["cast queries, keys and values to bf16"]),
        ("sdpa-flash", on(key=(2, 8, 512, 128), value=(2, 8, 512, 128)), ["pass enable_gqa=True"]),
        ("flash-attn-2", on(dropout=0.1, softcap=True), ["dropout_p=0.0 in attention"]),
        ("sdpa-flash", on(query=SHAPE[1:], key=SHAPE[1:], value=SHAPE[1:]), ["unsqueeze queries, keys and values"]),
        ("sdpa-flash", on(mask=Mask(kind="padding")), None),
        ("sdpa-flash", on(query=(2, 4, 8, 320), key=(2, 4, 8, 320), value=(2, 4, 8, 320)), None),
        ("sdpa-flash", on(), []),
    ],
)
def test_the_way_to_a_kernel_is_taken_and_leads_there(name: str, call: Call, changes: list[str] | None):
    way = way_to(KERNELS[name], call)
    if changes is None:
        assert way is None
        return
    assert way is not None
    assert len(way) == len(changes)
    for change, words in zip(way, changes, strict=True):
        assert change.words.startswith(words)
        call = change.apply(call)
    assert not KERNELS[name].obstacles(call)


@pytest.mark.parametrize(
    ("kernel", "size", "training", "serves"),
    [
        ("varlen-attn", 70, False, False), ("varlen-attn", 72, True, True), ("xformers-flash", 70, False, False),
        ("xformers-flash3", 40, False, True), ("xformers-flash3", 40, True, False), ("xformers-flash3", 64, True, True),
        ("xformers-cutlass", 70, False, False), ("xformers-cutlass", 72, True, True),
        ("sdpa-flash", 70, True, True), ("flash-attn-2", 70, True, True),
    ],
)  # fmt: skip
def test_who_pads_head_sizes_by_itself(kernel: str, size: int, training: bool, serves: bool):
    """Read in each: flash-attn and torch's scaled_dot_product_attention pad for their kernels, the others refuse."""
    shape = (2, 4, 128, size)
    place = replace(H100, versions={**H100.versions, "xformers": (0, 0, 34)})
    call = on(place, query=shape, key=shape, value=shape, requires_grad=training)
    assert (not KERNELS[kernel].obstacles(call)) == serves


@pytest.mark.parametrize(
    ("release", "size", "dropout", "serves"),
    [
        ((2, 5, 4), 256, 0.0, False), ((2, 5, 5), 256, 0.0, True), ((2, 5, 5), 224, 0.0, False),
        ((2, 6, 1), 200, 0.0, False), ((2, 6, 2), 200, 0.0, True), ((2, 6, 3), 256, 0.1, False),
        ((2, 7, 2), 256, 0.1, False), ((2, 8, 3), 256, 0.1, False), ((2, 8, 3), 256, 0.0, True),
        ((2, 8, 3), 192, 0.1, True),
    ],
)  # fmt: skip
def test_the_backward_of_flash_attn_on_small_gpus(release: tuple[int, ...], size: int, dropout: float, serves: bool):
    """Read in each tag: the check that raises was changed in 2.5.5 and 2.6.2, and dropped in 2.7.3 with the kernel."""
    shape = (2, 4, 128, size)
    place = Place(device="cuda", capability=(8, 9), versions={"torch": (2, 13), "flash-attn": release})
    call = on(place, query=shape, key=shape, value=shape, dropout=dropout, requires_grad=True)
    assert (not KERNELS["flash-attn-2"].obstacles(call)) == serves
    error = predict(replace(call, entry="flash_attn")).error
    assert ("wrong results without an error" in error) == (not serves and release >= (2, 7, 3)), error
    assert not KERNELS["flash-attn-2"].obstacles(replace(call, requires_grad=False))
    assert not KERNELS["flash-attn-2"].obstacles(replace(call, place=replace(place, capability=(8, 0))))


@pytest.mark.parametrize(
    ("release", "in_graph"), [((2, 5, 9), "break"), ((2, 6, 3), "break"), ((2, 7, 0), "operator"), ((2, 8), "operator")]
)
def test_flash_attn_is_an_operator_from_2_7_on(release: tuple[int, ...], in_graph: str):
    found = KERNELS["flash-attn-2"].in_graph(on(Place(versions={"flash-attn": release})))
    assert found is not None
    assert found.in_graph == in_graph


def test_names_of_the_hub_are_those_of_transformers():
    fallback = pytest.importorskip("transformers.modeling_flash_attention_utils").FLASH_ATTN_KERNEL_FALLBACK
    assert {build.stands_in_for: build.repository for build in BUILDS if build.stands_in_for} == fallback


def test_a_model_with_sinks_has_another_flash_attention_than_was_asked_for():
    models = pytest.importorskip("transformers.models.gpt_oss.modeling_gpt_oss")
    named = models.GptOssPreTrainedModel._compatible_flash_implementations
    assert "flash_attention_4" in named
    for entry in ("flash_attention_2", "flash_attention_3"):
        assert entry not in named
        found = predict(on(replace(H100, versions={**H100.versions, "kernels": (1,)}), entry=entry, sinks=True))
        assert (found.kernel, found.error) == (named[0], "")
        assert set(found.order) <= set(ENTRIES[entry].kernels)


def test_the_default_order_is_of_the_generation():
    assert default_order(H100)[0] == "flash-attn-3"
    assert default_order(B200)[0] == "flash-attn-4"
    assert default_order(CPU_PLACE)[0] == "sdpa-flash-cpu"


RTX_5090 = Place(device="cuda", capability=(12, 0), versions={"torch": (2, 9, 1), "cudnn": (9, 13, 0), "cuda": (13,)})
GROUPED = {"query": (1, 28, 4000, 128), "key": (1, 4, 4000, 128), "value": (1, 4, 4000, 128), "requires_grad": False}
MASKED = {**GROUPED, "dtype": "fp16", "mask": Mask(kind="float"), "enable_gqa": True}
CUDNN_FIRST = replace(RTX_5090, order=("cudnn", "flash", "efficient", "math"))
COMFY = "https://github.com/Comfy-Org/ComfyUI/pull/15135"
REPORTS = {
    "masked, grouped": (COMFY, on(RTX_5090, **MASKED), "sdpa-math"),
    "masked, grouped, cuDNN first": (COMFY, on(CUDNN_FIRST, **MASKED), "sdpa-cudnn"),
    "masked, grouped, cuDNN first, fp32": (COMFY, on(CUDNN_FIRST, **{**MASKED, "dtype": "fp32"}), "sdpa-math"),
    "masked, grouped, cuDNN first, size 256": (
        COMFY,
        on(
            CUDNN_FIRST,
            **{**MASKED, "query": (1, 8, 4000, 256), "key": (1, 4, 4000, 256), "value": (1, 4, 4000, 256)},
        ),
        "sdpa-math",
    ),
    "masked, expanded": (
        COMFY,
        on(RTX_5090, **{**MASKED, "key": GROUPED["query"], "value": GROUPED["query"], "enable_gqa": False}),
        "sdpa-mem-efficient",
    ),
    "size 320": (
        "https://github.com/huggingface/transformers/issues/45636",
        on(query=(1, 8, 512, 320), key=(1, 8, 512, 320), value=(1, 8, 512, 320)),
        "sdpa-mem-efficient",
    ),
    "one head of keys, no flag": (
        "https://github.com/pytorch/pytorch/pull/191085",
        on(
            Place(device="cuda", capability=(10, 0), versions={"torch": (2, 13), "cudnn": (9, 15, 1), "cuda": (13,)}),
            query=(4, 32, 2048, 128), key=(4, 1, 2048, 128), value=(4, 1, 2048, 128),
        ),
        "sdpa-math",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("where", "call", "kernel"), REPORTS.values(), ids=list(REPORTS))
def test_public_reports_from_gpus(where: str, call: Call, kernel: str):
    """What others measured on GPUs that we have not."""
    assert predict(call).kernel == kernel, where


class TestNextBest:
    def test_what_was_asked_for_is_taken_when_it_serves(self):
        choice = next_best(on(), ["flash-attn-2", "sdpa-flash"], requested="flash-attn-2")
        assert choice.actual == "flash-attn-2"

    def test_the_default_order_decides_and_the_reason_is_what_is_missing(self):
        choice = next_best(on(dtype="fp32"), requested="flash-attn-2")
        assert choice.requested == "flash-attn-2"
        assert choice.actual == "sdpa-mem-efficient"
        assert "dtype: needs" not in choice.reason
        assert "dtype: bf16 or fp16; given fp32" in choice.reason

    def test_a_measured_order_goes_before_it(self):
        order = ["sdpa-math", "sdpa-mem-efficient"]
        assert next_best(on(dtype="fp32"), order=order, requested="flash-attn-2").actual == "sdpa-math"

    def test_only_what_the_caller_has_is_taken(self):
        choice = next_best(on(), ["eager", "sdpa-math"], requested="sdpa-flash")
        assert choice.actual == "sdpa-math"
        assert choice.reason.startswith("sdpa-flash is not there")

    def test_what_changes_no_result_is_told_with_it(self):
        grouped = on(mask=Mask(kind="all-ones"), key=(2, 8, 512, 128), value=(2, 8, 512, 128))
        choice = next_best(grouped, ["sdpa-flash"], requested="flash-attn-4")
        assert choice.actual == "sdpa-flash"
        assert choice.changes == ("drop the all-ones mask", "pass enable_gqa=True")

    def test_softcap_is_not_lost(self):
        choice = next_best(on(softcap=True), ["sdpa-flash", "sdpa-math", "eager"], requested="varlen-attn")
        assert choice.actual == "eager"

    def test_a_cast_is_not_made_in_silence(self):
        assert next_best(on(dtype="fp32"), ["sdpa-flash", "sdpa-math"], requested="sdpa-flash").actual == "sdpa-math"

    def test_nothing_serves(self):
        choice = next_best(on(dtype="fp32"), ["sdpa-flash"], requested="flash-attn-2")
        assert choice.actual is None

    def test_without_a_name_it_is_the_first_of_the_entry(self):
        assert next_best(on(entry="varlen_attn")).requested == "varlen-attn"
