"""File names of wheels: read, and built again letter for letter."""

import pytest

from trueup.environment.wheels.filename import Label, NotAWheelName, WheelName


@pytest.mark.parametrize(
    "text",
    [
        "flash_attn-2.8.3.post1+cu12torch2.8cxx11abiTRUE-cp312-cp312-linux_x86_64.whl",
        "flash_attn-2.5.8+cu122torch2.3cxx11abiFALSE-cp310-cp310-linux_x86_64.whl",
        "causal_conv1d-1.6.1.post4+cu13torch2.10cxx11abiTRUE-cp313-cp313-linux_aarch64.whl",
        "flash_attn_4-4.0.0b27-py3-none-any.whl",
    ],
)
def test_round_trip(text):
    assert str(WheelName.parse(text)) == text


def test_the_parts():
    name = WheelName.parse("flash_attn-2.5.8+cu118torch2.10cxx11abiFALSE-cp310-cp310-linux_x86_64.whl")
    assert (name.distribution, name.version) == ("flash_attn", "2.5.8")
    assert name.label == Label(cuda="118", torch="2.10", cxx11_abi=False)
    assert name.label.cuda_major == 11
    assert (name.tag.interpreter, name.tag.abi, name.tag.platform) == ("cp310", "cp310", "linux_x86_64")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "flash_attn-2.8.3.tar.gz",
        "flash_attn-2.8.3+cu12torch2.8-cp312-cp312-linux_x86_64.whl",
        "flash_attn-x+cu12torch2.8cxx11abiTRUE-cp312-cp312-linux_x86_64.whl",
        "flash_attn-2.8.3-cp312-cp312-manylinux1_x86_64.manylinux2010_x86_64.whl",
    ],
)
def test_other_names_are_refused(text):
    with pytest.raises(NotAWheelName):
        WheelName.parse(text)
