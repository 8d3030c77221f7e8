"""Triton cannot link its launcher against libcuda."""

from __future__ import annotations

from trueup.rules.definition import LogText, Rule, Sighting
from trueup.rules.environment_facts import variable
from trueup.schema.environment import Environment
from trueup.schema.finding import Evidence, Remedy

OUTSIDE = "libcuda.so.1 outside of the loader's cache"


def detect_in_environment(environment: Environment) -> Sighting | None:
    triton = next(
        (environment.packages[name] for name in ("triton", "pytorch-triton") if name in environment.packages), None
    )
    if triton is None or environment.driver is None or variable(environment, "TRITON_LIBCUDA_PATH"):
        return None
    tools = environment.tools
    outside, registered = tools.get(OUTSIDE), tools.get("libcuda.so.1")
    linked = tools.get("library that triton links")
    if outside is not None and outside.path:
        folder = outside.path.rpartition("/")[0]
        trouble = f"libcuda.so.1 stands in {folder}, which is not in the loader's cache that Triton asks"
        searched = variable(environment, "LD_LIBRARY_PATH")
        if searched is not None and folder in searched.value.split(":"):
            return None
    elif registered is not None and registered.path and linked is not None and linked.name == "libcuda.so":
        folder = registered.path.rpartition("/")[0]
        trouble = f"Triton {triton.version} links libcuda.so, and {folder} holds libcuda.so.1 only"
        if "libcuda.so" in tools:
            return None
    else:
        return None
    return Sighting(
        message=f"Triton will not find the driver's library: {trouble}.",
        evidence=(
            Evidence(what="driver", value=environment.driver),
            Evidence(what="libcuda", value=folder),
            Evidence(what="triton installed", value=triton.version),
        ),
        confidence="likely",
        remedies=(
            Remedy(id="register-libcuda", kind="config-edit", automatic=False, how=_how(folder, outside is not None)),
        ),
    )


def _how(folder: str, unregistered: bool) -> str:
    if unregistered:
        return f"export TRITON_LIBCUDA_PATH={folder}, or: echo {folder} > /etc/ld.so.conf.d/cuda.conf && ldconfig"
    return f"ln -s libcuda.so.1 {folder}/libcuda.so"


RULE = Rule(
    id="environment/libcuda-not-linkable",
    title="Triton cannot link against libcuda",
    layers=("environment", "compile"),
    severity="error",
    silent="",
    cause=(
        "Triton links a small launcher with -lcuda and finds libcuda through ldconfig. Containers mount libcuda.so.1 "
        "in a folder that is not registered, or without the unversioned name that the linker asks for."
    ),
    remedies=(
        Remedy(
            id="triton-libcuda-path",
            kind="env-var",
            automatic=False,
            how='export TRITON_LIBCUDA_PATH="$(dirname "$(find / -name libcuda.so.1 -not -path "*/stubs/*" '
            '2>/dev/null | head -1)")"',
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
        LogText(
            text="No such file or directory: /sbin/ldconfig", versions="triton 2.x and 3.x, where ldconfig is elsewhere"
        ),
        LogText(text="Command [/sbin/ldconfig, -p] returned non-zero exit status", versions="triton 2.x and 3.x"),
        LogText(text="Please create a symlink of libcuda.so to any of the files", versions="triton 2.1 or newer"),
    ),
    from_environment=detect_in_environment,
)
