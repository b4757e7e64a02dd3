"""What a run was made with: versions and hardware."""

import os
import platform
from importlib import metadata
from pathlib import Path

import torch

PACKAGES = ("gnomon", "torch", "numpy", "scikit-learn", "safetensors")


def machine() -> dict[str, object]:
    """The versions and the hardware, as config.json keeps them; no name of a person or of a host."""
    return {
        "python": platform.python_version(),
        "packages": {name: metadata.version(name) for name in PACKAGES},
        "system": f"{platform.system()} {platform.machine()}",
        "processor": processor(),
        "cores": os.cpu_count(),
        "accelerator": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
    }


def processor() -> str:
    """The processor's name, where the system tells it."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), "unknown")
    except OSError:
        return platform.processor() or "unknown"
