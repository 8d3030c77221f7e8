"""Large logs: only lines that may matter are read, and nothing of them is lost."""

import random

import pytest
from reading import RECORDED, TRACEBACK, exceptions, log_of, place, prefixed, root

from trueup.logs.decoding import BLOCK
from trueup.logs.parsing import Parser

STEP = "[rank{rank}]: 2026-01-05 10:00:00,123 INFO trainer: step {step} loss {loss:.4f} shard-{step:08x}\n"


def steps(lines: int, ranks: int = 8) -> str:
    draw = random.Random(3)
    return "".join(STEP.format(rank=at % ranks, step=at, loss=draw.random()) for at in range(lines))


def test_a_traceback_across_the_end_of_a_block() -> None:
    line = len(STEP.format(rank=0, step=0, loss=0.5))
    before = steps(BLOCK // line)[: BLOCK - 90].rpartition("\n")[0] + "\n"
    for shift in range(0, 200, 20):
        log = log_of(before + "x" * shift + "\n" + prefixed("[rank3]: ") + steps(500))
        (failure,) = exceptions(log)
        assert (failure.type, failure.rank, len(failure.frames)) == ("ValueError", 3, 2)
        assert failure.first_line == before.count("\n") + 2


def test_line_numbers_count_lines_and_not_returns_of_the_carriage() -> None:
    bars = "".join(f" {at}%|█   | {at}/100\r" for at in range(100))
    log = log_of((bars + "\n") * 300 + TRACEBACK + bars)
    assert (root(log).first_line, root(log).last_line) == (301, 306)
    assert log.lines == 307


def test_a_long_log_without_failures() -> None:
    log = log_of(steps(20_000))
    assert log.failures == ()
    assert log.lines == 20_000


def test_plain_lines_of_a_long_log_are_no_messages() -> None:
    log = log_of("loading the tokenizer\n" + steps(20_000))
    assert log.failures == ()


def test_each_plain_line_of_a_short_text_is_a_message() -> None:
    log = log_of("got mixed torch.Tensor and DTensor\nsee the attachment\n 10%|█    | 1/10\n{'loss': 0.5}\n---\n")
    assert [(failure.kind, failure.role, failure.message) for failure in log.failures] == [
        ("message", "warning", "got mixed torch.Tensor and DTensor"),
        ("message", "warning", "see the attachment"),
    ]


def test_notices_of_a_long_log_are_messages_and_counted() -> None:
    notice = "[rank1]: Casting fp32 inputs back to torch.bfloat16 for flash-attn compatibility.\n"
    log = log_of(steps(3000) + notice + (steps(100) + notice) * 300)
    (failure,) = log.failures
    assert (failure.kind, failure.role, failure.count) == ("message", "warning", 301)


def test_lines_of_random_words_do_not_hide_a_failure() -> None:
    draw = random.Random(5)
    letters = "ghijklmnopqrstuvwxyz"
    words = "".join("".join(draw.choices(letters, k=60)) + "\n" for _ in range(5000))
    assert place(root(log_of(words + TRACEBACK + words))) == ("/job/train.py", 10, "main")


def test_many_different_failures_are_kept_within_bounds() -> None:
    names = [f"{a}{b}{c}" for a in "abcdefghij" for b in "abcdefghij" for c in "abcdefghij"]
    log = log_of("".join(TRACEBACK.replace("labels", f"labels of {name}") for name in names))
    assert 0 < len(log.failures) <= 600
    assert "labels of aaa " in root(log).message
    assert any("labels of jjj " in failure.message for failure in log.failures)


@pytest.mark.parametrize("size", [200_000])
def test_a_very_long_line_is_cut(size: int) -> None:
    (failure,) = log_of("ValueError: " + "x" * size + "\n").failures
    assert len(failure.message) <= 4000


def test_a_very_long_message_keeps_its_ends() -> None:
    text = TRACEBACK + "".join(f"    line number {at}\n" for at in range(390))
    message = root(log_of(text)).message
    assert message.startswith("labels of batch 7 are empty")
    assert "line number 389" in message
    assert len(message.splitlines()) < 200


TOLD_APART = "\n".join(prefixed(f"[rank{rank}]: ") for rank in (0, 3))
CARETS = TRACEBACK.replace("    step(3)\n", "    step(3)\n    ^^^^^^^\n  [Previous line repeated 3 more times]\n")
CHAINED = f"{TRACEBACK}\nDuring handling of the above exception, another exception occurred:\n\n{TRACEBACK}"


@pytest.mark.parametrize(
    "text",
    [
        *(path.read_bytes() for path in sorted(RECORDED.iterdir()) if path.is_file()),
        *(each.encode() for each in (TOLD_APART, CARETS, CHAINED, prefixed("> "), prefixed("  "), prefixed("3: "))),
        TRACEBACK.replace("/job", "/jöb").encode(),
        TRACEBACK.replace("    main()", "    3: main()").encode(),
    ],
)
def test_frames_read_in_the_short_way_are_those_of_the_long_way(text: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    short = log_of(text)
    monkeypatch.setattr(Parser, "frame", lambda *_: False)
    assert log_of(text) == short


def test_a_line_of_zeros_is_no_failure_and_hides_none() -> None:
    log = log_of(b"\x00" * (9 << 20) + b"\n" + TRACEBACK.encode())
    assert place(root(log)) == ("/job/train.py", 10, "main")
