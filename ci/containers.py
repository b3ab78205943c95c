"""Forwarding containers next to the nodes, on the kind network; and image builds."""

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ci import network
from ci.access import ClusterAccess
from ci.step import Journal, SetupError

DOCKER_SECONDS = 120.0
PER_ENDPOINT = (1, 46)  # from this version of the engine's API on an interface's sysctls are its endpoint's
OF_THE_INTERFACE = "net.ipv4.conf.{}.send_redirects=0"


def docker(there: ClusterAccess, *arguments: str) -> str:
    """Run docker there and return its output from both streams.

    Raises:
        SetupError: it failed.
    """
    done = subprocess.run(
        [*there.prefix, "docker", *arguments], env=there.environment, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True, timeout=DOCKER_SECONDS, check=False,
    )  # fmt: skip
    if done.returncode != 0:
        raise SetupError(
            f"docker {arguments[0]} failed: {done.stdout.strip()[-300:]}", "check that the docker engine runs."
        )
    return done.stdout


def build_image(there: ClusterAccess, image: str, source: Path, base: str | None, journal: Journal, what: str) -> str:
    """Build an image from a folder if the engine does not have it, and return its reference.

    Args:
        there: the location of the engine.
        image: the reference, with a hash of the inputs.
        source: the folder with the Dockerfile.
        base: the base image in place of the Dockerfile's; None for the Dockerfile's.
        journal: the log of steps.
        what: the owner of the image, for the log.

    Raises:
        SetupError: docker cannot build it.
    """
    if there.ask("docker", "image", "inspect", "--format", "{{.Id}}", image) is None:
        with journal.step(f"build {what} image") as step:
            options = ["--build-arg", f"BASE={base}"] if base else []
            there.run(step, "docker", "build", "--tag", image, *options, source)
    return image


def inspect(there: ClusterAccess, name: str) -> dict[str, Any] | None:
    """docker's description of a container; None if it does not exist."""
    output = there.ask("docker", "container", "inspect", name)
    found: list[dict[str, Any]] = json.loads(output) if output else []
    return found[0] if found else None


def runs(there: ClusterAccess, name: str) -> bool:
    """Whether a container runs."""
    found = inspect(there, name)
    return bool(found and found["State"]["Running"])


def forwarding(there: ClusterAccess, sysctls: Mapping[str, int]) -> tuple[str, list[str]]:
    """The docker options for a forwarding container on the kind network: network and sysctls.

    It sends no redirects to clients: ``sysctls`` disable them for all interfaces, and this option for its only one.
    """
    version = (there.ask("docker", "version", "--format", "{{.Server.APIVersion}}") or "").strip()
    parts = tuple(int(part) for part in version.split(".") if part.isdigit())
    settings = [f"{name}={value}" for name, value in sysctls.items()]
    if parts >= PER_ENDPOINT:
        its = OF_THE_INTERFACE.format("IFNAME")
        return f"name=kind,driver-opt=com.docker.network.endpoint.sysctls={its}", settings
    return "kind", [*settings, OF_THE_INTERFACE.format(network.INTERFACE)]


def name_of(image: str) -> str:
    """An image in words: the last part of its name, without the tag."""
    return f"the image {image.rpartition('/')[2].partition(':')[0]}"
