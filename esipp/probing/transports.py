"""The command that starts a prober where a client stands; its stdin and stdout carry the protocol."""

import sys
from pathlib import Path

IN_IMAGE = ("python3", "-B", "/esipp/prober.py")


def local(prober: Path) -> list[str]:
    """A prober on this machine."""
    return [sys.executable, "-B", str(prober)]


def docker(container: str) -> list[str]:
    """A prober in a container of the docker engine that DOCKER_HOST names."""
    return ["docker", "exec", "-i", container, *IN_IMAGE]
