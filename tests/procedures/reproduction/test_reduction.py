"""Changes of a user's script: each leaves what it does, but for what the change is about."""

from __future__ import annotations

import ast
from typing import Any

import pytest
from recorded_jobs import WHOLE, Judged, bisection, job

from trueup.procedures.reproduction.candidate import Candidate, Sources
from trueup.procedures.reproduction.reduction.constants import with_arguments, with_files
from trueup.procedures.reproduction.reduction.deleting import fewest_statements
from trueup.procedures.reproduction.reduction.flattening import flattened
from trueup.procedures.reproduction.reduction.launching import standalone, without_shell
from trueup.procedures.reproduction.reduction.merging import merged
from trueup.procedures.reproduction.reduction.noise import without_noise
from trueup.procedures.reproduction.reduction.sizes import COUNTS, small
from trueup.procedures.reproduction.reduction.switches import with_switches
from trueup.procedures.reproduction.reduction.tidying import tidied
from trueup.procedures.reproduction.reproduce import reproduce
from trueup.procedures.reproduction.shrinking import fewest


def run(text: str, *off: str) -> dict[str, Any]:
    """The names that a script leaves; `off` follows its `--without`."""
    import sys

    names: dict[str, Any] = {"__name__": "__main__"}
    before = sys.argv
    sys.argv = ["repro.py", *(["--without", *off] if off else [])]
    try:
        exec(compile(text, "repro.py", "exec"), names)
    finally:
        sys.argv = before
    return names


# -- delta debugging ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("needed", [set(), {3}, {0, 15}, {1, 2, 9}, set(range(16))])
def test_the_fewest_are_those_that_are_needed(needed: set[int]) -> None:
    calls = 0

    def does(kept: list[int]) -> bool:
        nonlocal calls
        calls += 1
        return needed <= set(kept)

    assert set(fewest(range(16), does)) == needed
    assert calls <= 80


def test_statements_go_that_the_fault_does_not_need() -> None:
    text = "import os\nimport math\na = 1\nb = 2\nc = a + 1\nfor i in range(3):\n    d = b\n    e = c\nprint(e)\n"
    found = fewest_statements(text, lambda text: "e = c" in text and "a = 1" in text)
    assert found == "a = 1\nc = a + 1\nfor i in range(3):\n    e = c\n"


def test_what_reads_a_name_goes_with_what_makes_it() -> None:
    asked: list[str] = []

    def does(text: str) -> bool:
        asked.append(text)
        return "kept = 1" in text

    fewest_statements("model = 1\nother = model\nkept = 1\nlast = other\n", does)
    for text in asked:
        run(text)  # none of them lacks a name


# -- one file ----------------------------------------------------------------------------------------------------------

PROJECT = {
    "train.py": (
        "import argparse\nimport math\nimport settings\nfrom nets.model import double\n"
        "parser = argparse.ArgumentParser()\n"
        'parser.add_argument("--times", type=int, default=2)\nparser.add_argument("--fast", action="store_true")\n'
        'parser.add_argument("--config", default="a.yaml")\n\n\n'
        "def main():\n    args = parser.parse_args()\n    import yaml\n    with open(args.config) as file:\n"
        '        config = yaml.safe_load(file)\n    result = double(args.times) + settings.BASE + config["more"]["x"]\n'
        "    globals()['result'] = (result, args.fast, math.floor(1.5))\n\n\n"
        'if __name__ == "__main__":\n    main()\n'
    ),
    "settings.py": "BASE = 10\n",
    "nets/__init__.py": "",
    "nets/model.py": (
        "from .parts import TWO\n\n\ndef double(x):\n    return TWO * x\n\n\n"
        'if __name__ == "__main__":\n    raise SystemExit("not this one")\n'
    ),
    "nets/parts.py": "import math\n\nTWO = math.floor(2.5)\n",
    "a.yaml": "more:\n  x: 100\n",
}


def test_modules_of_the_folder_come_into_one_file() -> None:
    text = merged("train.py", PROJECT)
    assert text is not None
    assert "settings" not in text
    assert "nets" not in text
    assert text.index("TWO = ") < text.index("def double") < text.index("def main")


def test_two_modules_with_one_name_are_not_merged() -> None:
    files = {"train.py": "import a\nimport b\nprint(a.x, b.x)\n", "a.py": "x = 1\n", "b.py": "x = 2\n"}
    assert merged("train.py", files) is None


def test_a_project_becomes_a_script_without_arguments_and_files() -> None:
    text = merged("train.py", PROJECT)
    assert text is not None
    plain = with_arguments(text, ["--times", "7", "--fast"])
    assert plain is not None
    whole = flattened(with_files(plain, PROJECT))
    assert "yaml" not in tidied(whole)
    assert "argparse" not in tidied(whole)
    assert "def main" not in whole
    assert run(tidied(whole))["result"] == (14 + 10 + 100, True, 1)


def test_words_that_no_parser_knows_leave_the_script_as_it_is() -> None:
    assert with_arguments("print(1)\n", ["--lr", "1"]) is None
    assert with_arguments(PROJECT["train.py"], ["--unknown", "1"]) is None


def test_a_dictionary_that_is_written_to_stays() -> None:
    text = 'config = {"a": 1}\nconfig["a"] = 2\nx = config["a"]\n'
    assert run(with_files(text, {}))["x"] == 2


# -- tidying -----------------------------------------------------------------------------------------------------------


def test_comments_and_unused_definitions_go_and_meaning_stays() -> None:
    text = (
        '"""What it is."""\nimport os, sys\nfrom math import (  # both\n    ceil,\n    floor,\n)\n\n\n'
        "def unused():\n    return os\n\n\n"
        'def used(\n    x,\n):\n    """Says it."""\n    # why\n    return floor(\n        x,\n    )\n\n\n'
        "y = used(1.5)\nprint(y)\n"
    )
    after = tidied(text)
    assert run(after)["y"] == 1
    assert "ceil" not in after
    assert "unused" not in after
    assert "#" not in after
    assert "return floor(x)" in after


def test_a_definition_that_a_decorator_registers_stays() -> None:
    text = "known = []\n\n\n@known.append\ndef first():\n    pass\n\n\nprint(known)\n"
    assert len(run(tidied(text))["known"]) == 1


def test_texts_of_several_lines_keep_their_blank_ones() -> None:
    text = 'x = """a\n\nb"""\n\n\n\ny = len(x)\n'
    assert run(tidied(text))["y"] == 4


def test_prints_go_but_not_those_of_a_model() -> None:
    text = "class Net:\n    def forward(self):\n        print(1)\n\n\nprint(2)\n"
    assert without_noise(text) == "class Net:\n    def forward(self):\n        print(1)\n"


def test_large_numbers_become_small_and_others_stay() -> None:
    text = "model = dict(vocab_size=50257, hidden_size=768, num_layers=48, dropout=1, r=8)\n"
    text += "ids = range(50257)\nseed = 1234\n"
    assert run(small(text))["model"] == {"vocab_size": 64, "hidden_size": 32, "num_layers": 2, "dropout": 1, "r": 8}
    assert len(run(small(text))["ids"]) == 64
    assert run(small(text))["seed"] == 1234


# -- switches ----------------------------------------------------------------------------------------------------------

LAYERS = """
import sys


class torch:
    @staticmethod
    def compile(model, backend=None):
        return [*model, "compiled"]


def FSDP(model, policy=None):
    return [*model, "sharded"]


def checkpoint(function, *args, use_reentrant=False):
    return function(*args) + ["again"]


def checkpoint_wrapper(model):
    return [*model, "wrapped"]


def fully_shard(model):
    model.append("sharded in place")


def block(x):
    return [x]


"""


BOTH = "model = torch.compile(checkpoint_wrapper(block(1)))"


@pytest.mark.parametrize(
    ("line", "layer", "on", "off"),
    [
        ('model = torch.compile(["net"], backend="eager")', "compile", ["net", "compiled"], ["net"]),
        ("model = FSDP(block(1), policy=None)", "sharding", [1, "sharded"], [1]),
        ("model = block(1)\nfully_shard(model)", "sharding", [1, "sharded in place"], [1]),
        ("model = checkpoint(block, 3, use_reentrant=True)", "checkpointing", [3, "again"], [3]),
        (
            "model = torch.compile(checkpoint_wrapper(block(1)))",
            "checkpointing",
            [1, "wrapped", "compiled"],
            [1, "compiled"],
        ),
        ("model = torch.compile(checkpoint_wrapper(block(1)))", "compile", [1, "wrapped", "compiled"], [1, "wrapped"]),
        (
            "model = dict(gradient_checkpointing=True)",
            "checkpointing",
            {"gradient_checkpointing": True},
            {"gradient_checkpointing": False},
        ),
        (
            'model = dict(attn_implementation="sdpa")',
            "attention",
            {"attn_implementation": "sdpa"},
            {"attn_implementation": "eager"},
        ),
        ('model = {"torch_compile": True}', "compile", {"torch_compile": True}, {"torch_compile": False}),
    ],
)
def test_each_way_of_a_layer_gets_a_switch(line: str, layer: str, on: Any, off: Any) -> None:
    text = with_switches(f"{LAYERS}{line}\n", ("checkpointing", "compile", "sharding", "attention"))
    assert run(text)["model"] == on
    assert run(text, layer)["model"] == off


def test_a_decorator_and_a_context_get_switches() -> None:
    text = with_switches(
        f"{LAYERS}import contextlib\n\n\n@torch.compile\ndef step():\n    pass\n\n\n"
        "class autocast(contextlib.nullcontext):\n    pass\n\n\nwith autocast('cpu'):\n    x = 1\n",
        ("compile", "precision"),
    )
    assert "compiled" in ast.unparse(ast.parse(text))
    assert callable(run(text, "compile")["step"])
    assert run(text, "precision", "compile")["x"] == 1


# -- the whole ---------------------------------------------------------------------------------------------------------

TRAIN = """
import argparse
import torch
from net import Net
from tools import report

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=100)


def evaluate(model):
    report("evaluated")


def main():
    args = parser.parse_args()
    model = Net(hidden_size=1024)
    model = torch.compile(model)
    needed = 1
    for step in range(args.steps):
        loss = model(needed)
        loss.backward()
        report(f"{step}: {loss}")
    evaluate(model)


if __name__ == "__main__":
    main()
"""


def test_a_project_is_cut_down_to_what_fails() -> None:
    files = {
        "train.py": TRAIN,
        "net.py": "class Net:\n    def __init__(self, hidden_size):\n        self.size = hidden_size\n",
        "tools.py": "def report(text):\n    print(text)\n",
    }
    sources = Sources(command=("python", "train.py", "--steps", "50"), script="train.py", files=files)

    def fails(each: Candidate) -> bool:
        return "torch.compile(model)" in each.script and "needed" in each.script and "Net(" in each.script

    checks = Judged(fails)
    found, why = reproduce(bisection(job(WHOLE), "compile"), sources, checks)
    assert found is not None, why
    assert found.launch == "python repro.py"
    assert found.without == {"compile": "python repro.py --without compile"}
    assert 'if "compile" not in off:' in found.script
    for gone in ("evaluate", "report", "argparse", "backward", "1024"):
        assert gone not in found.script
    ast.parse(found.script)


def test_a_layer_that_the_script_cannot_leave_out_is_forced_off() -> None:
    text = "import torch\n\nuse = torch.compiler.hidden_way\nneeded = use(1)\n"
    sources = Sources(command=("python", "train.py"), script="train.py", files={"train.py": text})
    checks = Judged(lambda each: "needed = use" in each.script)
    found, why = reproduce(bisection(job(WHOLE), "compile"), sources, checks)
    assert found is not None, why
    assert found.without == {"compile": "trueup run --set compile=off -- python repro.py"}


# -- launchers ---------------------------------------------------------------------------------------------------------


def test_a_configuration_file_of_accelerate_becomes_options() -> None:
    text = "distributed_type: FSDP\nuse_cpu: true\nnum_processes: 2\n"
    text += "fsdp_config:\n  fsdp_version: 2\n  fsdp_offload: false\n"
    words = ("accelerate", "launch", "--config_file", "a.yaml", "--quiet")
    assert standalone(words, {"a.yaml": text}) == (
        *("accelerate", "launch", "--use_fsdp", "--cpu", "--num_processes", "2"),
        *("--fsdp_version", "2", "--fsdp_offload", "false", "--quiet"),
    )
    assert standalone(("accelerate", "launch", "--config_file=a.yaml"), {"a.yaml": "num_processes: 2\n"})[2:] == (
        *("--num_processes", "2"),
    )


def test_a_launcher_without_a_file_stays() -> None:
    assert standalone(("torchrun", "--standalone"), {}) == ("torchrun", "--standalone")
    assert standalone(("accelerate", "launch", "--config_file", "b.yaml"), {})[-1] == "b.yaml"


def test_a_shell_around_one_command_is_not_needed() -> None:
    assert without_shell(("sh", "-c", "torchrun 'train.py' --lr 1")) == ("torchrun", "train.py", "--lr", "1")
    assert without_shell(("bash", "-c", "cd a && python b.py"))[0] == "bash"


def test_a_module_is_launched_as_a_file() -> None:
    text = "import torch\n\nneeded = torch.compile(1)\n"
    sources = Sources(command=("python", "-m", "own.train"), script="own/train.py", files={"own/train.py": text})
    found, why = reproduce(bisection(job(WHOLE), "compile"), sources, Judged(lambda each: "needed" in each.script))
    assert found is not None, why
    assert found.launch == "python repro.py"


def test_a_dtype_that_is_no_precision_gets_no_switch() -> None:
    text = with_switches("import torch\n\nx = dict(dtype=torch.long)\n", ("precision",))
    assert "off" not in text
    assert "torch.float32 if" in with_switches("import torch\n\nx = dict(dtype=torch.bfloat16)\n", ("precision",))


# -- what goes without a run -------------------------------------------------------------------------------------------


def test_an_argument_goes_with_the_name_that_it_reads() -> None:
    text = "def spoken():\n    return 1\n\n\nx = dict(\n    a=1,\n    b=spoken(),\n    needed=2,\n)\n"
    assert tidied(fewest_statements(text, lambda text: "needed" in text)) == "x = dict(needed=2)\n"


def test_functions_and_tests_that_do_nothing_go() -> None:
    text = "def report(text):\n    pass\n\n\nfor i in range(3):\n    x = i\n    if i == 2:\n        report(x)\n"
    assert tidied(text) == "for i in range(3):\n    x = i\n"


def test_parameters_that_are_not_read_go() -> None:
    text = "def build(config, size):\n    return size\n\n\nconfig = {}\nprint(build(config, 2))\n"
    assert tidied(text) == "def build(size):\n    return size\n\n\nprint(build(2))\n"
    kept = "def build(config, size):\n    return size\n\n\nprint(map(build, [1], [2]))\n"
    assert tidied(kept) == kept


def test_numbers_given_by_place_become_small() -> None:
    text = "class Net:\n    def __init__(self, dim, depth, rate):\n        self.all = (dim, depth, rate)\n\n\n"
    assert run(small(f"{text}net = Net(512, 12, 100)\n"))["net"].all == (32, 2, 100)
    assert run(small(f"{text}net = Net(512, 12, 100)\n", COUNTS))["net"].all == (512, 2, 100)
