"""The images that a run needs, and their names in the user's registry."""

import os
import re
from dataclasses import asdict, dataclass
from pathlib import Path

from esipp.base.errors import PreflightError
from esipp.base.hashing import key_of
from esipp.base.labels import is_subdomain
from esipp.checks.catalog import HOUSE

ECHO, BALANCER = "images/echoserver", "images/loadbalancer"
DOCKER_HUB, OFFICIAL = "docker.io", "library"

HINT = "use HOST[:PORT][/PATH], such as registry.example.com/mirror, without https:// and without a tag."

BASE = "ESIPP_IMAGE_BASE"
"""The environment variable that names another base of the echo image, where docker cannot pull its own."""


@dataclass(frozen=True)
class Image:
    """An image: ``source`` is its source folder, ``needed`` when it is needed, ``base`` its base image."""

    reference: str
    purpose: str
    source: str
    needed: str
    base: str


def images(registry: str = "") -> list[Image]:
    """The images for a run of this version, with the names in a registry if one is given.

    The suite's own image lacks the sources of the reference load balancer, as it builds no clusters.

    Raises:
        PreflightError: the sources of the echo image are missing.
    """
    echo, balancer = HOUSE / ECHO, HOUSE / BALANCER
    if not (echo / "Dockerfile").is_file():
        raise PreflightError(
            f"{echo} does not exist: an image's name is a hash of its sources.", "install esipp again."
        )
    found = [
        Image(
            f"localhost/esipp/echoserver:{key_of(echo, base_given())}",
            "all pods of a run: echo server, clients, packet captures; and outside clients in containers",
            ECHO,
            "always",
            base_given() or _base(echo),
        )
    ]
    if (balancer / "Dockerfile").is_file():
        found.append(
            Image(
                f"localhost/esipp/loadbalancer:{key_of(balancer / 'balancer', balancer / 'Dockerfile', None)}",
                "the reference load balancer, a container next to kind's nodes, never in the cluster",
                BALANCER,
                "with ./ci/conformance only",
                _base(balancer),
            )
        )
    return [_at(image, registry) for image in found]


def base_given() -> str | None:
    """The base image that the user names; None for the one in the Dockerfile."""
    return os.environ.get(BASE) or None


def _at(image: Image, registry: str) -> Image:
    return Image(**{**asdict(image), "reference": at_registry(image.reference, registry)}) if registry else image


def _base(folder: Path) -> str:
    found = re.search(r"^ARG BASE=(\S+)$", (folder / "Dockerfile").read_text(encoding="utf-8"), re.MULTILINE)
    return found[1] if found else ""


def this_version() -> str:
    """The reference of this version's echo image."""
    return images()[0].reference


def at_registry(reference: str, registry: str) -> str:
    """The reference of an image in a registry: the host is replaced; path, tag and digest stay."""
    if reference.startswith(f"{registry}/"):
        return reference
    host, slash, path = reference.partition("/")
    if not slash or not _is_host(host):
        host, path = DOCKER_HUB, reference
    if host == DOCKER_HUB and "/" not in path:
        path = f"{OFFICIAL}/{path}"
    return f"{registry}/{path}"


def registry_of(reference: str) -> str:
    """The registry host of an image, with its port; Docker Hub's by default."""
    host, slash, _ = reference.partition("/")
    return host if slash and _is_host(host) else DOCKER_HUB


def _is_host(part: str) -> bool:
    """Whether the first part of a reference is a registry's host (github.com/distribution/reference)."""
    return "." in part or ":" in part or part == "localhost"


def check_registry(text: str) -> str:
    """Validate a registry's host and path.

    Raises:
        PreflightError: it is invalid.
    """
    host, slash, path = text.removesuffix("/").partition("/")
    name, colon, port = host.rpartition(":") if ":" in host else (host, "", "")
    good = is_subdomain(name) and (not colon or (port.isdigit() and 0 < int(port) < 65536))
    part = r"[a-z0-9]+([._-]+[a-z0-9]+)*"
    if not good or not _is_host(host) or (slash and not re.fullmatch(rf"{part}(/{part})*", path)):
        raise PreflightError(f"--image-registry: '{text}' is not a valid registry.", HINT)
    return text.removesuffix("/")
