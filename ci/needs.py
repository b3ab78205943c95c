"""Requirements of a lane that not every machine meets, with reasons.

``needs: {registry: why}``: the lane uses published images that the hermetic path cannot build. Other names are kernel
modules that nodes share with the machine, such as ``ip_vs``.
"""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from ci.step import SetupError, output

Requirement = Literal["registry", "ip_vs"]
Component = Literal["calico", "cloud-provider-kind"]
"""What ci/published.py installs from published images."""

REGISTRY: Requirement = "registry"
MODULES: tuple[Requirement, ...] = ("ip_vs",)
CALICO, CLOUD_PROVIDER = "calico", "cloud-provider-kind"
LOADED = Path("/sys/module")


def check(lane: str, needs: Mapping[Requirement, str], path: str) -> None:
    """Refuse a lane that cannot be run on this machine by this path, before anything is built.

    Args:
        lane: its name.
        needs: what it needs, and why.
        path: how clusters are made here, ``official`` or ``hermetic``.

    Raises:
        SetupError: something is missing.
    """
    if REGISTRY in needs and path != "official":
        raise SetupError(
            f"The lane '{lane}' cannot run here without a registry: {needs[REGISTRY]}.",
            "run it where docker can pull images (--path official)",
        )
    for module in MODULES:
        if module in needs and not has_module(module):
            raise SetupError(
                f"The lane '{lane}' cannot run on this kernel, which lacks {module}: {needs[module]}.",
                f"modprobe {module}, or use another machine.",
            )


def has_module(name: str) -> bool:
    """Whether the kernel has a module or can load it; true outside Linux, where nodes run in a virtual machine."""
    return sys.platform != "linux" or (LOADED / name).exists() or output(["modprobe", "--dry-run", name]) is not None
