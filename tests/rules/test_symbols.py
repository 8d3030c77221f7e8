"""What a missing symbol tells, on names of real extension wheels."""

import pytest

from trueup.rules.symbols import distribution_of, missing_symbol, skeleton

SYMBOLS = [
    ("_ZN3c105ErrorC2ENS_14SourceLocationESs", "old"),
    ("_ZN3c105ErrorC2ENS_14SourceLocationENSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE", "cxx11"),
    ("_ZN3c106detail14torchCheckFailEPKcS2_jRKSs", "old"),
    ("_ZNK5torch8autograd4Node4nameEv", "old"),
    ("_ZNK5torch8autograd4Node4nameB5cxx11Ev", "cxx11"),
    ("_ZN3c104cuda9SetDeviceEa", None),
    ("_ZN3c104cuda29c10_cuda_check_implementationEiPKcS2_ib", None),
    ("_ZN2at4_ops10zeros_like4callERKNS_6TensorEN3c108optionalINS5_10ScalarTypeEEE", None),
]


@pytest.mark.parametrize(("symbol", "abi"), SYMBOLS)
def test_string_abi(symbol, abi):
    missing = missing_symbol(f"/v/site-packages/x/y.so: undefined symbol: {symbol}")
    assert missing.of_torch
    assert missing.string_abi == abi


def test_a_cut_name_still_tells_that_a_string_is_meant():
    missing = missing_symbol("undefined symbol: _ZN3c105ErrorC2ENS_14SourceLocationE")
    assert missing.takes_string
    assert missing.string_abi is None


@pytest.mark.parametrize(
    ("symbol", "torch"),
    [
        ("_ZN3c104cuda9SetDeviceEi", "torch 2.2 or older"),
        ("_ZN3c104cuda9SetDeviceEa", "torch 2.3 to 2.7"),
        ("_ZN3c104cuda9SetDeviceEab", "torch 2.8 or newer"),
        ("_ZN3c104cuda9GetDeviceEPi", "torch 2.2 or older"),
        ("_ZN3c104cuda9GetDeviceEPa", "torch 2.3 or newer"),
        ("_ZN3c104cuda29c10_cuda_check_implementationEiPKcS2_ib", "torch 2.9 or older"),
        ("_ZN3c104cuda12no_such_thingEv", None),
    ],
)
def test_the_torch_an_extension_was_built_for(symbol, torch):
    assert missing_symbol(f"undefined symbol: {symbol}").built_for == torch


@pytest.mark.parametrize(
    "text",
    [
        "/v/site-packages/cv2.abi3.so: undefined symbol: _ZN2cv6imreadEv",
        "/v/site-packages/torch/lib/libtorch_cuda.so: undefined symbol: _ZN3c104cuda9SetDeviceEi",
        "libfoo.so: undefined symbol: ncclCommRegister",
    ],
)
def test_symbols_that_no_extension_of_torch_misses(text):
    assert not missing_symbol(text).of_torch


def test_mach_o_puts_an_underscore_before_names():
    assert missing_symbol("Symbol not found: __ZN3c104cuda9SetDeviceEi").symbol == "_ZN3c104cuda9SetDeviceEi"


def test_no_symbol():
    assert missing_symbol("ImportError: undefined symbol") is None


def test_the_skeleton_keeps_types_and_drops_names():
    assert skeleton("_ZN3c106detail14torchCheckFailEPKcS2_jRKSs") == "_ZNEPKcjRKSs"


@pytest.mark.parametrize(
    ("file", "distribution"),
    [
        ("/v/lib/python3.11/site-packages/flash_attn_2_cuda.cpython-311-x86_64-linux-gnu.so", "flash-attn"),
        ("/v/lib/python3.11/site-packages/torch_scatter/_scatter_cuda.so", "torch-scatter"),
        ("amp_C.cpython-310-x86_64-linux-gnu.so", "apex"),
        ("/opt/thing.so", None),
    ],
)
def test_the_distribution_of_an_extension(file, distribution):
    assert distribution_of(file) == distribution
