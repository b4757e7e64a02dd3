"""What a run was made with: versions and hardware."""

import os
import platform
import subprocess
from importlib import metadata
from pathlib import Path

import torch

PACKAGES = ("gnomon", "torch", "numpy", "scikit-learn", "safetensors")


def machine() -> dict[str, object]:
    """The versions and the hardware, as config.json keeps them; no name of a person or of a host."""
    return {
        "python": platform.python_version(),
        "commit": commit(),
        "packages": {name: metadata.version(name) for name in PACKAGES},
        "system": f"{platform.system()} {platform.machine()}",
        "processor": processor(),
        "cores": os.cpu_count(),
        "accelerator": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
    }


def processor() -> str:
    """The CPU's name, where the system gives it."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), "unknown")
    except OSError:
        return platform.processor() or "unknown"


def commit() -> str | None:
    """The commit of the checkout with this code in it, with `-dirty` if files were changed; None if there is none."""
    git = ["git", "-C", str(Path(__file__).parent)]
    describe = ["describe", "--always", "--dirty", "--exclude=*"]
    try:
        # An installed package may be inside another project's checkout, which does not track the file.
        subprocess.run([*git, "ls-files", "--error-unmatch", Path(__file__).name], capture_output=True, check=True)
        return subprocess.run([*git, *describe], capture_output=True, check=True, text=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return None
