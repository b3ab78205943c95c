"""``esipp images``: the images that a run needs, and their names in the user's registry."""

import argparse
import json
import re
import shlex
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from esipp.base.errors import ExitCode, PreflightError
from esipp.base.hashing import key_of
from esipp.base.labels import is_subdomain
from esipp.checks.catalog import HOUSE

ECHO, BALANCER = "images/echoserver", "images/loadbalancer"
DOCKER_HUB, OFFICIAL = "docker.io", "library"

HINT = "use HOST[:PORT][/PATH], such as registry.example.com/mirror, without https:// and without a tag."

ABOUT = """how to get an image onto nodes that reach no other registry (REFERENCE: the image's name; REGISTRY: yours):
  build    docker build --tag REFERENCE FOLDER            (--build-arg BASE=… for a mirror of the base image)
  copy     docker save REFERENCE --output image.tar       docker load --input image.tar
  push     docker tag REFERENCE AT-REGISTRY && docker push AT-REGISTRY
           skopeo copy docker-archive:image.tar docker://AT-REGISTRY
  kind     kind load docker-image --name CLUSTER REFERENCE
  then     esipp run --context NAME --image-registry REGISTRY …

"""

OF_IMAGES = """exit codes:
  0  success
  2  interrupted
  4  wrong usage, or the sources of the images are missing
"""


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

    Raises:
        PreflightError: this is not a checkout, which contains the sources of the images.
    """
    echo, balancer = HOUSE / ECHO, HOUSE / BALANCER
    for folder in (echo, balancer):
        if not (folder / "Dockerfile").is_file():
            raise PreflightError(
                f"{folder} does not exist: an image's name is a hash of its sources.", "run the command in a checkout."
            )
    found = [
        Image(
            f"localhost/esipp/echoserver:{key_of(echo, None)}",
            "all pods of a run: echo server, clients, packet captures; and outside clients in containers",
            ECHO,
            "always",
            _base(echo),
        ),
        Image(
            f"localhost/esipp/loadbalancer:{key_of(balancer / 'balancer', balancer / 'Dockerfile', None)}",
            "the reference load balancer, a container next to kind's nodes, never in the cluster",
            BALANCER,
            "with ./ci/conformance only",
            _base(balancer),
        ),
    ]
    return [_at(image, registry) for image in found]


def _at(image: Image, registry: str) -> Image:
    return Image(**{**asdict(image), "reference": at_registry(image.reference, registry)}) if registry else image


def _base(folder: Path) -> str:
    found = re.search(r"^ARG BASE=(\S+)$", (folder / "Dockerfile").read_text(encoding="utf-8"), re.MULTILINE)
    return found[1] if found else ""


def this_version() -> str:
    """The reference of this checkout's echo image."""
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


# ----------------------------------------------------------------------------------------------------- the command
def add_images(commands: Any) -> None:
    """Add ``esipp images`` to the parser."""
    listed = commands.add_parser(
        "images",
        help="list the images that a run needs, and how to use them without a registry; needs no cluster",
        epilog=ABOUT + OF_IMAGES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    listed.add_argument(
        "--format",
        choices=["text", "json", "markdown"],
        default="text",
        help="output format (json: one object per line; default: text)",
    )
    listed.add_argument(
        "--registry", default="", metavar="HOST[/PATH]", help="print the names that --image-registry HOST[/PATH] uses"
    )
    listed.set_defaults(command=_tell)


def _tell(options: argparse.Namespace) -> int:
    registry = check_registry(options.registry) if options.registry else ""
    forms = {"text": as_text, "json": as_json, "markdown": as_markdown}
    for line in forms[options.format](images(registry), registry):
        print(line)
    return int(ExitCode.CONFORMANT)


def as_json(found: Iterable[Image], _registry: str = "") -> Iterator[str]:
    """One JSON object per line."""
    yield from (json.dumps(asdict(image)) for image in found)


def as_markdown(found: Iterable[Image], _registry: str = "") -> Iterator[str]:
    """A Markdown table."""
    yield from ("| image | for | needed | built from | on |", "|---|---|---|---|---|")
    for image in found:
        yield f"| `{image.reference}` | {image.purpose} | {image.needed} | `{image.source}` | `{image.base}` |"


def as_text(found: Iterable[Image], registry: str = "") -> Iterator[str]:
    """The images with their purpose, and the commands that get the echo image onto the nodes."""
    found = list(found)
    for image in found:
        yield image.reference
        yield f"  for     {image.purpose}"
        yield f"  needed  {image.needed}"
        yield f"  built   from {image.source} on {image.base}"
    here, there = images()[0].reference, found[0].reference
    yield ""
    yield f"docker build --tag {here} {shlex.quote(str(HOUSE / ECHO))}"
    if registry:
        yield f"docker tag {here} {there} && docker push {there}"
        yield f"esipp run --context NAME --image-registry {registry}"
    else:
        yield f"kind load docker-image {here}        # or use a registry (--registry HOST); see 'esipp images --help'"
        yield f"esipp run --context NAME --image {here}"
