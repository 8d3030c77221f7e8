"""The text of a report to another project."""

from trueup.reports.issue import issue_text
from trueup.schema.bisection import Bisection, Narrowed, Reproduction, Signature
from trueup.schema.record import Record

REPRODUCTION = Reproduction(
    script='text = """```"""\nprint(text)\n',
    launch="python repro.py",
    without={"compile": "python repro.py --without compile"},
    issue="",
)
BISECTION = Bisection(
    verdict="found",
    why="",
    minimal=("compile", "sharding"),
    one_minimal=True,
    order_matters=True,
    order="with compile after sharding it passes",
    signature=Signature(kind="exception", text="ValueError: no\nsecond line", frames=("wrap.py:12",)),
    inside=(Narrowed(layer="compile", what="backend", answer="inductor", evidence="passes on aot_eager"),),
    rate=0.5,
    record=Record(environment={"python": "3.11.7", "torch": "2.13.0", "packages": {"peft": "0.21", "numpy": "2.0"}}),
)


def test_an_issue_tells_what_whoever_mends_it_needs() -> None:
    text = issue_text(BISECTION, REPRODUCTION)
    assert text.startswith("# compile + sharding: ValueError: no\n")
    assert "second line" in text
    assert "`wrap.py:12`" in text
    assert "- `python repro.py --without compile`: passes, without compile" in text
    assert "gone without any one of them" in text
    assert "Order: with compile after sharding it passes." in text
    assert "50 % of the runs" in text
    assert "- compile, backend: inductor (passes on aot_eager)" in text
    assert text.index("- torch 2.13.0") < text.index("- peft 0.21") < text.index("- numpy 2.0")


def test_a_script_with_backticks_stays_in_its_block() -> None:
    text = issue_text(BISECTION, REPRODUCTION)
    assert "````python\n" in text
    assert text.count("````") == 2


def test_what_is_not_known_is_not_told() -> None:
    text = issue_text(Bisection(verdict="found", why="", minimal=("compile",)), REPRODUCTION)
    assert "Order" not in text
    assert "gone without" not in text
    assert "python unknown" in text
