"""What is said where torch.compile was called and what it returned never was."""

import pytest
from healthy_record import event, record

from trueup.rules.compile.requested_and_not_applied import detect

NEVER = {"fraction": 0.0, "frames": 0, "graphs": 0, "holders": 0, "blocks": {"total": 0, "compiled": 0}}


def seen(*calls, variables=(), **compile):
    return detect(
        record(
            {
                "order": list(calls),
                "environment": {"variables": dict(variables)},
                "actual": {"compile": {**NEVER, **compile}},
            }
        )
    )


@pytest.mark.parametrize(
    ("name", "remedy", "line"),
    [
        ("torch.compile", "use-what-compile-returns", "model = torch.compile(model) at train.py:9"),
        ("Module.compile", "call-the-compiled-module", "call the Net itself"),
    ],
)
def test_the_line_that_calls_it_is_advised(name, remedy, line):
    found = seen(event("compile", name, "Net", "train.py:9", target="module"))
    assert (found.remedies[0].id, line in found.remedies[0].how) == (remedy, True)
    assert "train.py:9" in found.cause
    assert "1 compile call," in found.message


def test_it_is_not_advised_where_compilation_was_tried_switched_off_or_asked_for_by_a_library():
    call = event("compile", "torch.compile", "Net", target="module")
    assert seen(call, frames=3).remedies == ()
    assert seen(call, variables={"TORCHDYNAMO_DISABLE": "1"}).remedies == ()
    assert seen(event("compile", "torch.compile", "Net", target="module", by="accelerate")).remedies == ()
