"""The text report reads well at any width, without colour, and repeats nothing that could act on a terminal."""

import re

import msgspec
import pytest
from rich.cells import cell_len

from trueup.reports.facts import memory_in_words
from trueup.reports.text import render
from trueup.schema.record import Compile, Exit, Memory, Rank, Record

FILES = {"record": ".trueup/runs/1/record.json"}


def test_the_first_line_is_the_verdict(demo_record):
    assert render(demo_record).splitlines()[0] == (
        "trueup: compile: 0/12 blocks compiled; attention: sdpa-flash-cpu 100 % (fused); FSDP2 over 2 ranks; 1 warning"
    )


@pytest.mark.parametrize("width", [60, 80, 100, 120, 200])
def test_the_stack_table_fits_the_width_and_loses_no_word(demo_record, width):
    lines = render(demo_record, width=width).splitlines()
    table = lines[2 : lines.index("", 3)]
    assert table[0].split()[:4] == ["layer", "requested", "actual", "coverage"]
    assert max(map(cell_len, table)) <= width
    for word in ("launcher", "sharding", "compile", "attention", "0/12"):
        assert word in " ".join(table)
    joined = re.sub(r"\s+", "", "".join(lines))
    assert "eachof12layersrecompileduntilthelimitof8" in joined


@pytest.mark.parametrize("width", [40, 80, 120])
def test_lines_to_copy_are_never_broken(demo_record, width):
    lines = [line.strip() for line in render(demo_record, width=width, files=FILES).splitlines()]
    assert "do     model(input_ids, labels=labels, use_cache=False)" in lines
    assert "do     model.config.use_cache = False" in lines
    assert "see    https://github.com/huggingface/transformers/issues/1" in lines
    assert "record  .trueup/runs/1/record.json" in lines
    assert any(line.endswith("at examples/finetune.py:61 (ranks 0, 1)") for line in lines)


def test_colour_only_repeats_words(demo_record):
    plain, coloured = render(demo_record), render(demo_record, colour=True)
    assert "\x1b[" in coloured
    assert "\x1b" not in plain
    stripped = "\n".join(line.rstrip() for line in re.sub(r"\x1b\[[0-9;]*m", "", coloured).splitlines())
    assert stripped + "\n" == plain


def test_text_of_the_job_cannot_act_on_the_terminal(hostile_record):
    text = render(hostile_record, files=FILES)
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e]", text)
    assert "[bold]" in text, "console markup of the job is shown, not obeyed"
    assert "<script>alert(1)</script>" in text


def test_no_trailing_blanks(demo_record):
    assert not re.search(r"[ \t]$", render(demo_record), re.MULTILINE)


def test_a_failed_rank_is_named_first(demo_record):
    record = msgspec.structs.replace(
        demo_record,
        exit=Exit(code=1, reason="RuntimeError: boom"),
        ranks=(demo_record.ranks[0], msgspec.structs.replace(demo_record.ranks[1], error="RuntimeError: boom")),
    )
    text = render(record)
    assert text.startswith("trueup: failed with exit code 1: RuntimeError: boom; compile: 0/12")
    assert "1: failed: RuntimeError: boom, 20 steps, gloo" in text


def test_a_thousand_ranks_stay_one_line(demo_record):
    ranks = tuple(Rank(rank=number, trained=True, steps=5, exit=Exit(code=0)) for number in range(1024))
    text = render(msgspec.structs.replace(demo_record, ranks=ranks))
    assert "0 to 1023: finished, 5 steps" in text


def test_an_empty_record_says_what_is_missing():
    text = render(Record())
    assert text.startswith("trueup: nothing observed: no rank has reported; no findings")
    assert "layer" not in text


def test_a_finding_that_follows_from_another_says_so(demo_record):
    finding = msgspec.structs.replace(demo_record.findings[0], follows="compile/cause", confidence="likely")
    text = render(msgspec.structs.replace(demo_record, findings=(finding,)))
    assert "follows from compile/cause" in text
    assert "warning compile/kv-cache-recompiles-each-block (likely)" in text


def test_what_the_record_lacks_is_listed(demo_record):
    record = msgspec.structs.replace(demo_record, unknown_fields=2)
    text = render(record)
    assert "gradient norms were observed for the first 3 steps only (ranks 0, 1)" in text
    assert "2 fields of a newer trueup were not understood" in text
    assert "1 field of a newer trueup was not" in render(msgspec.structs.replace(record, unknown_fields=1))


def test_what_was_forced_stands_below_the_verdict_and_in_its_row(demo_record):
    variant = {"name": "x", "layers": {"compile": "off", "attention": "math"}, "remedies": ["disable-kv-cache"]}
    lines = render(msgspec.structs.replace(demo_record, variant=variant), width=138).splitlines()
    assert lines[0].startswith("trueup: forced compile=off, attention=math; compile: 0/12")
    assert lines[2:4] == ["forced    compile=off, attention=math", "remedies  disable-kv-cache"]
    table = " ".join(" ".join(lines[5:14]).split())
    assert "math (forced)" in table
    assert "off (forced)" in table
    assert "forced" not in render(demo_record)


def test_the_last_lines_say_what_to_type_next(demo_record):
    record = msgspec.structs.replace(demo_record, command=("torchrun", "a b.py", "--lr=1"))
    assert render(record, files=FILES).splitlines()[-3:] == [
        "",
        "next    trueup fix -- torchrun 'a b.py' --lr=1",
        "more    trueup rules compile/kv-cache-recompiles-each-block",
    ]


def test_nothing_is_offered_that_cannot_be_done(demo_record):
    (finding,) = demo_record.findings
    by_hand = msgspec.structs.replace(finding, remedies=finding.remedies[1:])
    assert "next    " not in render(msgspec.structs.replace(demo_record, findings=(by_hand,)))
    applied = msgspec.structs.replace(demo_record, variant={"remedies": ["use-cache-off"]})
    assert "next    " not in render(applied), "the only automatic remedy was applied in this run"
    healthy = render(msgspec.structs.replace(demo_record, findings=()))
    assert "next    " not in healthy
    assert "more    " not in healthy


LONG = "RuntimeError: The sizes differ in dimension 1. Look at the inputs. " + "More advice follows. " * 40


def test_a_long_exception_is_told_once_and_short(demo_record):
    """Both ranks fail with it, in different steps, and the finding holds it as evidence."""
    error = f"{LONG}\nand lines\nof detail\nat train.py:9"
    ranks = tuple(msgspec.structs.replace(rank, error=error, steps=3 + rank.rank) for rank in demo_record.ranks)
    evidence = (msgspec.structs.replace(demo_record.findings[0].evidence[0], value=error),)
    finding = msgspec.structs.replace(demo_record.findings[0], evidence=evidence)
    record = msgspec.structs.replace(
        demo_record, exit=Exit(code=1, reason=LONG), ranks=ranks, findings=(finding,), notes=()
    )
    text = render(record, width=1000)
    assert text.startswith(
        "trueup: failed with exit code 1: RuntimeError: The sizes differ in dimension 1; compile: 0/12"
    )
    (line,) = [line for line in text.splitlines() if line.startswith("ranks")]
    assert line.startswith("ranks   0, 1: failed: RuntimeError: The sizes differ in dimension 1. Look at the inputs.")
    assert line.endswith("… at train.py:9, 3 to 4 steps, gloo")
    assert "of detail" not in text
    assert max(map(len, text.splitlines())) < 400


def test_the_memory_of_the_only_rank_is_told_once():
    alone = Memory(peak_bytes=402_000_000, source="resident set", per_rank={"0": 402_000_000})
    assert memory_in_words(alone) == "402 MB at the peak, resident set"


def test_whose_loss_it_is(demo_record):
    assert "loss of rank 0 8.6 → 4.9" in render(demo_record)
    alone = msgspec.structs.replace(demo_record, ranks=demo_record.ranks[1:])
    assert ", loss 8.6 → 4.9" in render(alone)


def test_coverage_by_compile_is_told_of_jobs_that_asked_for_it(demo_record):
    assert "the last of them step 9, 0 % compiled" in render(demo_record)
    order = tuple(step for step in demo_record.order if step.layer != "compile")
    actual = msgspec.structs.replace(demo_record.actual, compile=Compile(fraction=0.0))
    text = render(msgspec.structs.replace(demo_record, order=order, actual=actual, findings=()))
    assert "the last of them step 9\n" in text
