"""The images that a run needs, and what they are called at a registry of the user's: ``esipp images``."""

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
from esipp.base.object_syntax import is_subdomain
from esipp.checks.catalog import HOUSE

ECHO, BALANCER = "images/echoserver", "images/loadbalancer"
DOCKER_HUB, OFFICIAL = "docker.io", "library"

HINT = "HOST[:PORT][/PATH], such as registry.example.com/mirror; without https:// and without a tag."

ABOUT = """how they come to nodes that reach no other registry (the reference is the first word, REGISTRY yours):
  build    docker build --tag REFERENCE FOLDER            (--build-arg BASE=… where the base image is a mirror's)
  carry    docker save REFERENCE --output image.tar       docker load --input image.tar
  push     docker tag REFERENCE AT-REGISTRY && docker push AT-REGISTRY
           skopeo copy docker-archive:image.tar docker://AT-REGISTRY
  kind     kind load docker-image --name CLUSTER REFERENCE
  then     esipp run --context NAME --image-registry REGISTRY …

"""

OF_IMAGES = """exit codes:
  0  told
  2  interrupted
  4  wrong usage, or what images are built from is not there
"""


@dataclass(frozen=True)
class Image:
    """``source`` is the folder it is built from; ``needed`` says when, ``base`` what its Dockerfile begins with."""

    reference: str
    purpose: str
    source: str
    needed: str
    base: str


def images(registry: str = "") -> list[Image]:
    """What a run of this version needs, as a registry has it where one is named.

    Raises:
        PreflightError: this is no checkout, which alone has what images are built from.
    """
    echo, balancer = HOUSE / ECHO, HOUSE / BALANCER
    for folder in (echo, balancer):
        if not (folder / "Dockerfile").is_file():
            raise PreflightError(
                f"{folder} is not there: images are named by what they are built from.", "run it in a checkout."
            )
    found = [
        Image(
            f"localhost/esipp/echoserver:{key_of(echo, None)}",
            "every pod of a run: echo server, clients, packet captures; and clients in containers outside the cluster",
            ECHO,
            "always",
            _base(echo),
        ),
        Image(
            f"localhost/esipp/loadbalancer:{key_of(balancer / 'balancer', balancer / 'Dockerfile', None)}",
            "the reference load balancer, a container beside kind's nodes: never in the cluster",
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
    """The echo image that belongs to this checkout, by name."""
    return images()[0].reference


def at_registry(reference: str, registry: str) -> str:
    """What an image is called at a registry: its own host is left out, path, tag and digest stay."""
    if reference.startswith(f"{registry}/"):
        return reference
    host, slash, path = reference.partition("/")
    if not slash or not _is_host(host):
        host, path = DOCKER_HUB, reference
    if host == DOCKER_HUB and "/" not in path:
        path = f"{OFFICIAL}/{path}"
    return f"{registry}/{path}"


def registry_of(reference: str) -> str:
    """The host that an image is pulled from, with its port; Docker Hub's where it names none."""
    host, slash, _ = reference.partition("/")
    return host if slash and _is_host(host) else DOCKER_HUB


def _is_host(word: str) -> bool:
    """Whether the first part of a reference is a registry's host (github.com/distribution/reference)."""
    return "." in word or ":" in word or word == "localhost"


def check_registry(text: str) -> str:
    """A registry's host, and a path there.

    Raises:
        PreflightError: it is none.
    """
    host, slash, path = text.removesuffix("/").partition("/")
    name, colon, port = host.rpartition(":") if ":" in host else (host, "", "")
    good = is_subdomain(name) and (not colon or (port.isdigit() and 0 < int(port) < 65536))
    part = r"[a-z0-9]+([._-]+[a-z0-9]+)*"
    if not good or not _is_host(host) or (slash and not re.fullmatch(rf"{part}(/{part})*", path)):
        raise PreflightError(f"--image-registry: '{text}' is no registry.", HINT)
    return text.removesuffix("/")


# ----------------------------------------------------------------------------------------------------- the command
def add_images(commands: Any) -> None:
    """Add ``esipp images`` to the commands."""
    listed = commands.add_parser(
        "images",
        help="the images that a run needs, and how they are had without a registry; needs no cluster",
        epilog=ABOUT + OF_IMAGES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    listed.add_argument(
        "--format", choices=["text", "json", "markdown"], default="text", help="json: one object a line"
    )
    listed.add_argument(
        "--registry", default="", metavar="HOST[/PATH]", help="as --image-registry takes them from there"
    )
    listed.set_defaults(command=_tell)


def _tell(options: argparse.Namespace) -> int:
    registry = check_registry(options.registry) if options.registry else ""
    forms = {"text": as_text, "json": as_json, "markdown": as_markdown}
    for line in forms[options.format](images(registry), registry):
        print(line)
    return int(ExitCode.CONFORMANT)


def as_json(found: Iterable[Image], _registry: str = "") -> Iterator[str]:
    """An object a line."""
    yield from (json.dumps(asdict(image)) for image in found)


def as_markdown(found: Iterable[Image], _registry: str = "") -> Iterator[str]:
    """A table."""
    yield from ("| image | for | needed | built from | on |", "|---|---|---|---|---|")
    for image in found:
        yield f"| `{image.reference}` | {image.purpose} | {image.needed} | `{image.source}` | `{image.base}` |"


def as_text(found: Iterable[Image], registry: str = "") -> Iterator[str]:
    """Each with what it is for; and the commands that bring the first one, which every run needs, to the nodes."""
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
        yield f"kind load docker-image {here}        # or a registry's: --registry HOST; 'esipp images --help' has more"
        yield f"esipp run --context NAME --image {here}"
