"""The text report reads well at any width, without colour, and repeats nothing that could act on a terminal."""

import re

import msgspec
import pytest
from rich.cells import cell_len

from trueup.reports.text import render
from trueup.schema.record import Exit, Rank, Record

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
