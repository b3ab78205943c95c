"""``esipp images`` and its actions: build, push, bundle, load."""

import argparse
import json
import sys
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from esipp.app.exit_codes import OF_IMAGES
from esipp.app.requests import KUBECONFIG_HELP
from esipp.base.errors import ExitCode, PreflightError
from esipp.probing.node_containers import node_containers
from esipp.testbed.echo_image import build, docker, load_into, save
from esipp.testbed.images import Image, at_registry, check_registry, images, this_version

ABOUT = """how to get the echo image onto nodes (a run on kind does so by itself):
  a registry      esipp images push registry.example.com/mirror
  an air gap      esipp images bundle echo.tar      and there, without docker:
                  esipp images push registry.example.com/mirror --bundle echo.tar
  then            esipp run --context NAME --image-registry registry.example.com/mirror
  kind            esipp images load echo.tar --context kind-NAME
  base image      ESIPP_IMAGE_BASE names a mirror of it

"""


def add_images(commands: Any) -> None:
    """Add ``esipp images`` to the parser."""
    listed = commands.add_parser(
        "images", help="list, build, push, bundle and load the images that a run needs", epilog=ABOUT + OF_IMAGES
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
    actions = listed.add_subparsers(metavar="ACTION", parser_class=type(listed))

    building = actions.add_parser("build", help="build the echo image from its own sources, with docker")
    building.set_defaults(command=_build)

    pushing = actions.add_parser("push", help="push the echo image to a registry")
    pushing.add_argument("registry", metavar="HOST[/PATH]", help="where to; docker's config.json has the account")
    pushing.add_argument(
        "--bundle", default=None, metavar="FILE", help="push the image in this file; this needs no docker"
    )
    pushing.set_defaults(command=_push)

    bundling = actions.add_parser("bundle", help="write the echo image to a file; builds it if need be")
    bundling.add_argument("file", metavar="FILE", help="an archive that docker, ctr and skopeo read, too")
    bundling.set_defaults(command=_bundle)

    loading = actions.add_parser("load", help="load a bundle into docker, or into the nodes of a kind cluster")
    loading.add_argument("file", metavar="FILE", help="a file of 'esipp images bundle' or 'docker save'")
    loading.add_argument("--context", default=None, metavar="NAME", help="kubeconfig context of a kind cluster")
    loading.add_argument("--kubeconfig", default=None, metavar="FILE", help=KUBECONFIG_HELP)
    loading.set_defaults(command=_load)


def _tell(options: argparse.Namespace) -> int:
    registry = check_registry(options.registry) if options.registry else ""
    forms = {"text": as_text, "json": as_json, "markdown": as_markdown}
    for line in forms[options.format](images(registry), registry):
        print(line)
    return int(ExitCode.CONFORMANT)


def _say(line: str) -> None:
    """Say what is being done; what it results in is the output."""
    print(line, file=sys.stderr)


def _build(_options: argparse.Namespace) -> int:
    build(this_version(), _say)
    print(this_version())
    return int(ExitCode.CONFORMANT)


def _push(options: argparse.Namespace) -> int:
    from esipp.app.images.registry import push

    here, there = this_version(), at_registry(this_version(), check_registry(options.registry))
    with tempfile.TemporaryDirectory(prefix="esipp-image-") as place:
        archive = Path(options.bundle) if options.bundle else Path(place) / "image.tar"
        if not options.bundle:
            build(here, _say)
            save(here, archive)
        _say(f"pushing {there}")
        digest = push(archive, here, there)
    print(f"{there.rpartition(':')[0]}@{digest}")
    return int(ExitCode.CONFORMANT)


def _bundle(options: argparse.Namespace) -> int:
    file = Path(options.file)
    if not file.parent.is_dir():  # said before minutes of building
        raise PreflightError(f"There is no folder {file.parent}.", "make it, or name another FILE.")
    build(this_version(), _say)
    save(this_version(), file)
    print(file)
    return int(ExitCode.CONFORMANT)


def _load(options: argparse.Namespace) -> int:
    from esipp.cluster.client import Cluster

    archive = Path(options.file)
    if not archive.is_file():
        raise PreflightError(f"There is no file {archive}.", "'esipp images bundle FILE' writes one.")
    if options.context is None:
        print(docker("load", "--input", str(archive)).strip())
        return int(ExitCode.CONFORMANT)
    nodes = node_containers(Cluster(options.context, options.kubeconfig).server)
    if not nodes:
        raise PreflightError(
            f"The nodes of {options.context} are no containers of this machine's docker.",
            "push the image to a registry: esipp images push HOST[/PATH] --bundle FILE.",
        )
    load_into(nodes, archive)
    print("\n".join(nodes))
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
    for image in found:
        yield image.reference
        yield f"  for     {image.purpose}"
        yield f"  needed  {image.needed}"
        yield f"  built   from {image.source} on {image.base}"
    yield ""
    if registry:
        yield f"esipp images push {registry}"
        yield f"esipp run --context NAME --image-registry {registry}"
    else:
        yield "esipp run --context kind-NAME        # kind: builds the image and loads it into the nodes"
        yield "esipp images push HOST[/PATH]        # others: a registry of yours; see 'esipp images --help'"
