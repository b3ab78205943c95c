"""Commands that start a prober at a client's place; stdin and stdout carry the protocol."""

import sys
from pathlib import Path

IN_IMAGE = ("python3", "-B", "/esipp/prober.py")


def local(prober: Path) -> list[str]:
    """The command for a prober on this machine."""
    return [sys.executable, "-B", str(prober)]


def docker(container: str) -> list[str]:
    """The command for a prober in a container of the docker engine (DOCKER_HOST)."""
    return ["docker", "exec", "-i", container, *IN_IMAGE]
