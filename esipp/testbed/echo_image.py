"""The echo image: its name, how this machine's docker builds it, and how it gets onto the nodes of a kind cluster.

A run that names no image uses the one of its release. Without a release, on kind, it builds this version's image from
its own sources and loads it into the nodes.
"""

import json
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, TYPE_CHECKING

from esipp.base.errors import PreflightError
from esipp.checks.catalog import HOUSE
from esipp.ledger.run import Settings
from esipp.probing.node_containers import node_containers
from esipp.testbed.images import BASE, ECHO, base_given, this_version

if TYPE_CHECKING:
    from esipp.cluster.client import Cluster

RELEASED = "echo-image.json"
"""A file that a release's build adds to the wheel (hatch_build.py): the image's reference, with its digest."""

BUILD_SECONDS = 600.0
CTR = ("ctr", "--namespace=k8s.io", "images")
HINT_BASE = f"if docker cannot pull the base image, name another in ${BASE}; or use --image."
HINT_DOCKER = "check that 'docker info' works."
HINT_NONE = "use a machine that has docker; 'esipp images push HOST[/PATH] --bundle FILE' needs none."


@dataclass(frozen=True)
class EchoImage:
    """The image of a run that names none; ``nodes`` are kind's, with the commands to enter them."""

    reference: str
    nodes: Mapping[str, tuple[str, ...]]


def default_image(server: str) -> EchoImage | None:
    """The image of a run that names none, on the cluster with this API server; None if there is no such image."""
    if released := released_image():
        return EchoImage(released, {})
    nodes = node_containers(server)
    return EchoImage(this_version(), nodes) if nodes else None


def with_image(settings: Settings, say: Callable[[str], None]) -> Settings:
    """The settings with an image: where none is named, the default one, which is then where nodes find it.

    Raises:
        PreflightError: the context does not exist, or docker cannot build the image.
    """
    if settings.image:
        return settings
    from esipp.cluster.client import Cluster

    settings, own = resolve_image(settings, Cluster.of(settings))
    if own:
        provide(own, say)
    return settings


def resolve_image(settings: Settings, cluster: "Cluster") -> tuple[Settings, EchoImage | None]:
    """The settings with an image, and the default one if it is that, which nodes may lack.

    On some clusters there is no default one: preflight refuses settings without any.
    """
    own = None if settings.image else default_image(cluster.server)
    return (replace(settings, image=own.reference) if own else settings), own


def released_image() -> str:
    """The image that was released with this wheel; empty without a release."""
    file = HOUSE / RELEASED
    return str(json.loads(file.read_text(encoding="utf-8"))["reference"]) if file.is_file() else ""


def provide(image: EchoImage, say: Callable[[str], None]) -> None:
    """Build the image if docker does not have it, and load it into the nodes that lack it.

    Raises:
        PreflightError: docker cannot build it, or a node does not take it.
    """
    lacking = {name: way for name, way in image.nodes.items() if not _has(way, image.reference)}
    if not lacking:
        return
    build(image.reference, say)
    say(f"loading {image.reference} into {', '.join(lacking)}")
    with tempfile.TemporaryDirectory(prefix="esipp-image-") as place:
        saved = Path(place) / "image.tar"
        save(image.reference, saved)
        load_into(lacking, saved)


def build(reference: str, say: Callable[[str], None]) -> None:
    """Build the image with docker, unless docker has it.

    Raises:
        PreflightError: docker does not answer, or the build fails.
    """
    if docker("image", "inspect", "--format", "{{.Id}}", reference, check=False):
        return
    say(f"building {reference} from {HOUSE / ECHO}")
    options = [f"--build-arg=BASE={base}"] if (base := base_given()) else []
    docker("build", "--quiet", "--tag", reference, *options, str(HOUSE / ECHO))


def save(reference: str, file: Path) -> None:
    """Write an image as an archive that docker, ctr and skopeo read.

    Raises:
        PreflightError: docker does not have the image, or the file cannot be written.
    """
    docker("save", "--output", str(file), reference)


def load_into(nodes: Mapping[str, Sequence[str]], archive: Path) -> None:
    """Load the images of an archive into nodes, all at once.

    Args:
        nodes: the nodes, with the commands to enter them.
        archive: an archive as of ``docker save``.

    Raises:
        PreflightError: a node does not take it.
    """

    def load(way: Sequence[str]) -> None:
        importing = [*way[:2], "--interactive", *way[2:], *CTR, "import", "--digests", "--snapshotter=overlayfs", "-"]
        with archive.open("rb") as content:
            docker(*importing[1:], stdin=content)

    with ThreadPoolExecutor() as pool:
        list(pool.map(load, nodes.values()))


def _has(way: Sequence[str], reference: str) -> bool:
    return bool(docker(*way[1:], *CTR, "list", "--quiet", f"name=={reference}", check=False))


def docker(*arguments: str, stdin: IO[bytes] | None = None, check: bool = True) -> str:
    """The output of docker; empty if it fails and need not succeed.

    Raises:
        PreflightError: there is no docker, or it fails.
    """
    what = f"docker {' '.join(arguments[:2])}"
    try:
        done = subprocess.run(
            ["docker", *arguments], stdin=stdin or subprocess.DEVNULL, capture_output=True, check=False,
            timeout=BUILD_SECONDS,
        )  # fmt: skip
    except OSError as broken:
        why = "it is not on PATH" if isinstance(broken, FileNotFoundError) else broken.strerror
        raise PreflightError(f"Cannot run docker: {why}.", HINT_NONE) from None
    except subprocess.TimeoutExpired:
        raise PreflightError(f"'{what}' did not end within {BUILD_SECONDS:.0f} s.", HINT_DOCKER) from None
    if done.returncode and check:
        said = (done.stderr.decode(errors="replace").strip().splitlines() or [str(done.returncode)])[-1]
        builds = arguments[0] == "build" and "Docker daemon" not in said
        said += "" if said.endswith((".", "?")) else "."
        raise PreflightError(f"'{what}' failed: {said}", HINT_BASE if builds else HINT_DOCKER)
    return done.stdout.decode(errors="replace") if not done.returncode else ""
