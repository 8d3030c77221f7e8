"""C++ names as people read them."""

import re
import shutil
import subprocess

import pytest
from compiled import installed_torch

from trueup.environment import elf
from trueup.environment.demangling import demangled

NAMES = {
    "_ZN3c104cuda9SetDeviceEa": "c10::cuda::SetDevice(signed char)",
    "_ZN3c104cuda29c10_cuda_check_implementationEiPKcS2_ib": (
        "c10::cuda::c10_cuda_check_implementation(int, char const*, char const*, int, bool)"
    ),
    "_ZN3c105ErrorC2ENS_14SourceLocationESs": "c10::Error::Error(c10::SourceLocation, std::string)",
    "_ZN3c106detail14torchCheckFailEPKcS2_jRKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE": (
        "c10::detail::torchCheckFail(char const*, char const*, unsigned int, std::__cxx11::string const&)"
    ),
    "_ZNK5torch8autograd13SavedVariable6unpackESt10shared_ptrINS0_4NodeEE": (
        "torch::autograd::SavedVariable::unpack(std::shared_ptr<torch::autograd::Node>) const"
    ),
    "_ZNK3c106Device3strB5cxx11Ev": "c10::Device::str[abi:cxx11]() const",
    "_ZTVN5torch8autograd4NodeE": "vtable for torch::autograd::Node",
    "_ZTIN3c105ErrorE": "typeinfo for c10::Error",
    "_ZN3c10lsERSoRKNS_4HalfE": "c10::operator<<(std::ostream&, c10::Half const&)",
    "_ZNK2at10TensorBase8data_ptrIN3c108BFloat16EEEPT_v": (
        "c10::BFloat16* at::TensorBase::data_ptr<c10::BFloat16>() const"
    ),
    "_ZN3c1010TensorImplD1Ev": "c10::TensorImpl::~TensorImpl()",
    "_ZN3c107WarningC1ESt7variantIJNS0_11UserWarningENS0_18DeprecationWarningEEERKNS_14SourceLocationESsb": (
        "c10::Warning::Warning(std::variant<c10::Warning::UserWarning, c10::Warning::DeprecationWarning>, "
        "c10::SourceLocation const&, std::string, bool)"
    ),
    "_ZN2io6WriterC2EPvPFiS1_PhiE": "io::Writer::Writer(void*, int (*)(void*, unsigned char*, int))",
}


@pytest.mark.parametrize(("name", "written"), NAMES.items())
def test_names_of_torch(name, written):
    assert demangled(name) == written


@pytest.mark.parametrize(
    "name",
    [
        "",
        "main",
        "aoti_torch_empty_strided",
        "_Z",
        "_ZN",
        "_ZN3c10",
        "_ZN3c1099ShortE",
        "_ZN3c101aES9_",
        "_Z1fT_",
        "_ZS",
    ],
)
def test_other_and_damaged_names_stay_as_they_are(name):
    assert demangled(name) == name


def test_a_name_that_stands_for_an_endless_one_is_left_alone():
    # Each parameter is a pair of the one before: the last is 2^35 times `a`.
    digits = "123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"
    bomb = "_Z1f1aSt4pairIS_S_E" + "".join(f"S0_IS{digit}_S{digit}_E" for digit in digits)
    assert demangled(bomb[:30]) == "f(a, std::pair<a, a>, std::pair<std::pair<a, a>, std::pair<a, a>>)"
    assert demangled(bomb) == bomb
    nested = "_Z1f" + "P" * 3000 + "i"
    assert demangled(nested) == nested


def normalised(name: str) -> str:
    """What two demanglers write apart: spaces, and how much of the standard library's names they spell out."""
    text = re.sub(r"\s+", "", name).replace("basic_string<char,std::char_traits<char>,std::allocator<char>>", "string")
    return re.sub(r"basic_([io]stream)<char,std::char_traits<char>>", r"\1", text)


@pytest.mark.skipif(shutil.which("c++filt") is None, reason="binutils are not installed")
@pytest.mark.parametrize("library", ["libc10.so", "libtorch_python.so"])
def test_exports_of_torch_as_the_compiler_s_own_tool_writes_them(library):
    names = sorted(name.decode() for name in elf.read(installed_torch() / "lib" / library).exports())
    names = [name for name in names if name.startswith("_Z")]
    output = subprocess.run(["c++filt"], input="\n".join(names), capture_output=True, text=True, check=True).stdout
    pairs = list(zip(names, output.splitlines(), strict=True))
    wrong = [
        (name, demangled(name), theirs)
        for name, theirs in pairs
        if demangled(name) != name and normalised(demangled(name)) != normalised(theirs)
    ]
    left = [name for name, _ in pairs if demangled(name) == name]
    assert wrong == []
    assert len(names) > 500
    assert len(left) <= len(names) // 100
