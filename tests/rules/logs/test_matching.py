"""How a rule's text is found in what a job printed."""

import pytest

from trueup.rules import LogText, Rule
from trueup.rules.log_index import TextIndex
from trueup.rules.log_text import normal, pattern
from trueup.schema.finding import Remedy

FOUND = [
    ("Attempting uninstall: torch", "  Attempting uninstall: torch"),
    ("version `GLIBC_<version>' not found", "libc.so.6: version 'GLIBC_2.32' not found (required by x.so)"),
    ("Must flatten tensors with uniform `requires_grad`", r"Must flatten tensors with uniform \`requires_grad\` when"),
    ("used to compile PyTorch (<version>)", "used to compile\n      PyTorch (11.7)"),
    ("nvcc fatal : Unsupported gpu architecture", "nvcc fatal   : Unsupported gpu architecture 'compute_120'"),
    ("a hint of two lines", "E   a hint\nE   of two lines"),
    ("a hint of two lines", "> a hint\n> of two lines"),
    ("tmp.pid_", "No such file: x.cubin.tmp.pid_93828_1"),
    ("expected requires_grad=", "mismatch. expected requires_grad=1"),
    ("dtype but got <dtype> and <dtype>", "dtype but got torch.float16 and torch.int8"),
    ("L['past']", "L[&#x27;past&#x27;]"),
]
NOT_FOUND = [
    ("Attempting uninstall: torch", "Attempting uninstall: torchvision"),
    ("Attempting uninstall: torch", "Attempting uninstall: torch-geometric"),
    ("Attempting uninstall: torch", "Attempting uninstall: torch_scatter"),
    ("Killed", "OOMKilled"),
    ("cannot find -lcuda", "cannot find -lcudart"),
    ("got <number> bytes", "got one\ntwo bytes"),
    ("_ZN3c105ErrorC2ENS_14SourceLocationESs", "_ZN3c105ErrorC2ENS_14SourceLocationESsi"),
]


@pytest.mark.parametrize(("text", "printed"), FOUND)
def test_a_text_is_found(text, printed):
    assert pattern(text).search(normal(printed))
    assert [match.text.text for match in index(text).search(normal(printed))] == [text], "the index chooses it"


@pytest.mark.parametrize(("text", "printed"), NOT_FOUND)
def test_whole_words_and_single_lines_only(text, printed):
    assert not list(index(text).search(normal(printed)))


def test_the_index_finds_what_a_search_for_each_text_finds():
    texts = [text for text, _ in FOUND + NOT_FOUND]
    everything = index(*texts)
    for _, printed in FOUND + NOT_FOUND:
        by_index = {match.text.text for match in everything.search(normal(printed))}
        assert by_index == {text for text in texts if pattern(text).search(normal(printed))}


def test_a_longer_text_weighs_more():
    assert pattern("is not defined for option <name>").weight < pattern("Value is not defined for option <name>").weight


def index(*texts):
    return TextIndex([rule("compile/one", *(LogText(text=text) for text in texts))])


def rule(name, *texts, **more):
    return Rule(
        id=name,
        title="One",
        layers=(name.partition("/")[0],),
        severity="error",
        silent="",
        cause="A cause.",
        remedies=(Remedy(id="do", kind="code", automatic=False, how="do it"),),
        caution="",
        log=texts,
        **more,
    )
