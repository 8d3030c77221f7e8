"""Ranks that write into one text."""

from itertools import zip_longest

from reading import TRACEBACK, exceptions, log_of, place, prefixed

OTHER = """\
Traceback (most recent call last):
  File "/job/eval.py", line 3, in <module>
    go()
  File "/job/eval.py", line 9, in go
    deep()
KeyError: 'loss'
"""


def interleaved(*texts: str) -> str:
    lines = [text.splitlines(keepends=True) for text in texts]
    return "".join("".join(line for line in group if line) for group in zip_longest(*lines))


def places(text: str) -> set[tuple[str | None, str, int | None, str | None, int]]:
    return {(f.type, *place(f), len(f.frames)) for f in exceptions(log_of(text))}


EXPECTED = {
    ("ValueError", "/job/train.py", 10, "main", 2),
    ("KeyError", "/job/eval.py", 9, "go", 2),
}


def test_ranks_with_prefixes() -> None:
    text = interleaved(prefixed("[rank0]: "), prefixed("[rank1]: ", OTHER))
    log = log_of(text)
    assert places(text) == EXPECTED
    assert {(failure.type, failure.rank) for failure in log.failures} == {("ValueError", 0), ("KeyError", 1)}
    assert log.ranks == (0, 1)


def test_different_tracebacks_line_by_line_without_prefixes() -> None:
    assert places(interleaved(TRACEBACK, OTHER)) == EXPECTED


def test_a_traceback_in_the_middle_of_another_without_prefixes() -> None:
    lines = TRACEBACK.splitlines(keepends=True)
    assert places("".join(lines[:3]) + OTHER + "".join(lines[3:])) == EXPECTED


def test_the_same_traceback_of_three_ranks_without_prefixes() -> None:
    (failure,) = exceptions(log_of(interleaved(TRACEBACK, TRACEBACK, TRACEBACK)))
    assert (failure.count, len(failure.frames)) == (3, 2)


def test_lines_of_other_ranks_inside_a_traceback() -> None:
    noise = "".join(f"step {at} loss 0.{at}\n" for at in range(30))
    text = interleaved(TRACEBACK, *[noise] * 3)
    (failure,) = exceptions(log_of(text))
    assert place(failure) == ("/job/train.py", 10, "main")


def test_the_same_failure_of_many_ranks_is_one() -> None:
    log = log_of("".join(prefixed(f"[rank{rank}]: ") for rank in range(16)))
    (failure,) = log.failures
    assert failure.count == 16
    assert failure.ranks == tuple(range(16))


def test_a_rank_that_pauses_for_many_lines_of_others() -> None:
    lines = prefixed("[rank3]: ").splitlines(keepends=True)
    noise = "".join(f"[rank{rank % 512}]: step {rank} loss 0.1\n" for rank in range(1500))
    (failure,) = exceptions(log_of("".join(lines[:4]) + noise + "".join(lines[4:])))
    assert (failure.rank, failure.type, len(failure.frames)) == (3, "ValueError", 2)
