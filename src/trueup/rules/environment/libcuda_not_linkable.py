"""Triton cannot link its launcher against libcuda."""

from __future__ import annotations

from trueup.rules.definition import LogText, Rule
from trueup.schema.finding import Remedy

RULE = Rule(
    id="environment/libcuda-not-linkable",
    title="Triton cannot link against libcuda",
    layers=("environment", "compile"),
    severity="error",
    silent="",
    cause=(
        "Triton links a small launcher with -lcuda and finds libcuda through ldconfig. Containers mount libcuda.so.1 "
        "in a "
        "folder that is not registered, or without the unversioned name that the linker asks for."
    ),
    remedies=(
        Remedy(
            id="triton-libcuda-path",
            kind="env-var",
            automatic=False,
            how='export TRITON_LIBCUDA_PATH="$(dirname "$(find / -name libcuda.so.1 -not -path "*/stubs/*" 2>/dev/null '
            '| head -1)")"',
        ),
        Remedy(
            id="register-driver-folder",
            kind="install",
            automatic=False,
            how="ln -s libcuda.so.1 libcuda.so in the folder of the driver library, then ldconfig with that folder in "
            "/etc/ld.so.conf.d",
        ),
        Remedy(
            id="link-stubs",
            kind="env-var",
            automatic=False,
            how='export LIBRARY_PATH="$CUDA_HOME/lib64/stubs:$LIBRARY_PATH"; never LD_LIBRARY_PATH',
        ),
    ),
    caution="Without a driver library torch.cuda.is_available() is false, and then this is not the problem.",
    sources=("https://github.com/pytorch/pytorch/issues/103417",),
    log=(
        LogText(text="cannot find -lcuda", versions="binutils, triton 2.x to 3.x"),
        LogText(text="libcuda.so cannot found!", versions="triton 2.x and 3.x, as they spell it"),
        LogText(text="libcuda.so cannot be found", versions="triton 3.x"),
        LogText(text="Please create a symlink of libcuda.so to any of the files", versions="triton 2.1 or newer"),
    ),
)
