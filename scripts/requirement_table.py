"""Make `src/trueup/environment/wheels/data/requirements.json`: what the newest releases of the stack require.

    python scripts/requirement_table.py

Asked of the package index through pip, once for each package, without what it depends on. It lets `trueup doctor --for`
say offline what an installation would move; `--online` asks the same of the index at that time. Requirements of extras
are left out, as are packages of which there is no wheel for this Python and platform.
"""

from __future__ import annotations

import datetime
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

OUTPUT = Path(__file__).parents[1] / "src/trueup/environment/wheels/data/requirements.json"
PACKAGES = (
    "accelerate", "bitsandbytes", "causal-conv1d", "compressed-tensors", "datasets", "deepspeed", "diffusers",
    "fa3-fwd", "flash-attn-4", "flashinfer-python", "kernels", "liger-kernel", "lightning", "optimum", "peft",
    "pytorch-lightning", "quack-kernels", "sentence-transformers", "sgl-kernel", "sglang", "tensordict", "timm",
    "torch", "torchao", "torchaudio", "torchcodec", "torchdata", "torchmetrics", "torchtitan", "torchtune",
    "torchvision", "transformer-engine", "transformers", "triton", "trl", "unsloth", "unsloth-zoo", "verl", "vllm",
    "xformers", "xgrammar",
)  # fmt: skip

EXTRA = re.compile(r";.*\bextra\b")


def main() -> None:
    releases = [found for name in PACKAGES if (found := release(name)) is not None]
    made = datetime.date.today().isoformat()
    lines = ",\n".join(json.dumps(each) for each in releases)
    OUTPUT.write_text(f'{{"made": "{made}", "by": "scripts/requirement_table.py", "releases": [\n{lines}\n]}}\n')


def release(name: str) -> dict[str, Any] | None:
    """The newest release of a package; None when pip finds no wheel of it that fits here."""
    command = [sys.executable, "-m", "pip", "install", "--dry-run", "--quiet", "--no-deps", "--ignore-installed"]
    command += ["--only-binary", ":all:", "--report", "-", name]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        print(f"{name}: left out, {done.stderr.strip().splitlines()[-1]}", file=sys.stderr)
        return None
    metadata = json.loads(done.stdout)["install"][0]["metadata"]
    return {
        "name": name,
        "version": metadata["version"],
        "requires": [line for line in metadata.get("requires_dist", ()) if not EXTRA.search(line)],
        "requires_python": metadata.get("requires_python"),
    }


if __name__ == "__main__":
    main()
