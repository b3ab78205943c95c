"""Requirements of a lane that not every machine meets, with reasons.

``needs: {registry: why}``: the lane uses published images that the hermetic path cannot build. Other names are kernel
modules that nodes share with the machine, such as ``ip_vs``.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

from ci.step import SetupError, output

REGISTRY = "registry"
MODULES = ("ip_vs",)
KNOWN = (REGISTRY, *MODULES)
CALICO, CLOUD_PROVIDER = "calico", "cloud-provider-kind"
PUBLISHED = (CALICO, CLOUD_PROVIDER)
"""Names for ``published: [NAME]``; ci/published.py installs them."""
LOADED = Path("/sys/module")


def read(file: str, said: object) -> dict[str, str]:
    """The needs of a lane's file.

    Raises:
        SetupError: they are no mapping, name what is unknown, or give no reason.
    """
    hint = f"needs: {{{REGISTRY}: why}}; known: {', '.join(KNOWN)}"
    if not isinstance(said, dict):
        raise SetupError(f"ci/lanes/{file}: 'needs' is not a mapping.", hint)
    if strange := [name for name in said if name not in KNOWN]:
        raise SetupError(f"ci/lanes/{file} needs '{strange[0]}', which is unknown.", hint)
    if bare := [name for name, why in said.items() if not isinstance(why, str) or not why.strip()]:
        raise SetupError(f"ci/lanes/{file} gives no reason for needing '{bare[0]}'.", hint)
    return {name: " ".join(why.split()) for name, why in said.items()}


def published(file: str, names: object, needs: Mapping[str, str]) -> tuple[str, ...]:
    """The published components of a lane.

    Raises:
        SetupError: the value is not a list, has an unknown name, or the lane does not need a registry.
    """
    hint = f"published: [{CALICO}]; known: {', '.join(PUBLISHED)}"
    if not isinstance(names, list):
        raise SetupError(f"ci/lanes/{file}: 'published' is not a list.", hint)
    if strange := [name for name in names if name not in PUBLISHED]:
        raise SetupError(f"ci/lanes/{file} uses '{strange[0]}' as published, which is unknown.", hint)
    if names and REGISTRY not in needs:
        raise SetupError(
            f"ci/lanes/{file} uses '{names[0]}' as published, but does not need a registry.",
            f"needs: {{{REGISTRY}: why}}",
        )
    return tuple(names)


def check(lane: str, needs: Mapping[str, str], path: str) -> None:
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
