"""The command that starts a prober where a client stands; its stdin and stdout carry the protocol."""

import sys
from collections.abc import Sequence
from pathlib import Path

IN_IMAGE = ("python3", "-B", "/esipp/prober.py")


def local(prober: Path) -> list[str]:
    """A prober on this machine."""
    return [sys.executable, "-B", str(prober)]


def docker(container: str) -> list[str]:
    """A prober in a container of the docker engine that DOCKER_HOST names."""
    return ["docker", "exec", "-i", container, *IN_IMAGE]


def kubectl(kubectl_arguments: Sequence[str], namespace: str, pod: str) -> list[str]:
    """A prober in a pod; ``kubectl_arguments`` name the cluster."""
    return ["kubectl", *kubectl_arguments, "exec", "-i", "-n", namespace, pod, "--", *IN_IMAGE]
