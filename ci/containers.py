"""Forwarding containers next to the nodes, on the kind network; and image builds."""

import json
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ci import network
from ci.access import ClusterAccess
from ci.hermetic.store import key_of
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


@dataclass(frozen=True)
class Image:
    """An image that is built from this checkout.

    Args:
        name: its name, without the tag, which is a hash of its content.
        source: the folder with the Dockerfile.
        whose: the owner of the image, for the log.
        parts: what of the folder makes its content; what only readers see does not.
    """

    name: str
    source: Path
    whose: str
    parts: tuple[str, ...] = (".",)

    def reference(self, base: str | None) -> str:
        """Its reference on a base image; None for the Dockerfile's."""
        return f"{self.name}:{key_of(*(self.source / part for part in self.parts), base)}"

    def build(self, there: ClusterAccess, base: str | None, journal: Journal) -> str:
        """Build it if the engine does not have it, and return its reference.

        Raises:
            SetupError: docker cannot build it.
        """
        image = self.reference(base)
        if there.ask("docker", "image", "inspect", "--format", "{{.Id}}", image) is None:
            with journal.step(f"build {self.whose} image") as step:
                options = ["--build-arg", f"BASE={base}"] if base else []
                there.run(step, "docker", "build", "--tag", image, *options, self.source)
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
