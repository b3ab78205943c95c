"""`ci/suite-image`: build the suite's own image, load it into the kept cluster, and print its reference."""

import contextlib
import os
import sys

from ci.access import ClusterAccess
from ci.hermetic import suite_base
from ci.hermetic.store import Store, key_of
from ci.places import ROOT, Places, places
from ci.step import Journal, exit_code_of
from ci.ways import Hermetic, Official, Way

NAME = "localhost/esipp/suite"
SOURCES = (
    *("LICENSE", "esipp", "fixtures", "suites", "conftest.py", "pyproject.toml"),
    *("images/esipp", "images/echoserver"),
)
"""The files and folders of the checkout that decide what is in the image."""


def reference(base: str | None, kubectl: str) -> str:
    """Name the image by its content, its base, and the image that its kubectl is of."""
    return f"{NAME}:{key_of(*(ROOT / each for each in SOURCES), base, kubectl)}"


def build(there: ClusterAccess, base: str | None, journal: Journal) -> str:
    """Build the image if the engine does not have it, with the nodes' kubectl, and return its reference."""
    image = reference(base, there.node_image)
    if there.ask("docker", "image", "inspect", "--format", "{{.Id}}", image) is None:
        with journal.step("build the suite's image") as step:
            options = ["--build-arg", f"KUBECTL={there.node_image}"]
            options += ["--build-arg", f"BASE={base}"] if base else []
            file = ROOT / "images" / "esipp" / "Dockerfile"
            there.run(step, "docker", "build", "--file", file, "--tag", image, *options, ROOT)
    return image


def provide(there: ClusterAccess, where: Places, journal: Journal) -> str:
    """Build the image as the kept cluster was built, load it into its nodes, and return its reference."""
    if there.path == "hermetic":
        hermetic = Hermetic(where, journal)
        way: Way = hermetic
        base: str | None = suite_base.make(hermetic.echo_base(there.kubernetes), Store(where), hermetic.engine, journal)
    else:
        way, base = Official(where, journal), None
    image = build(there, base, journal)
    way.load(there, image)
    way.tidy(image)
    return image


def main() -> int:
    """Do so for the kept cluster."""
    return exit_code_of(_main)


def _main() -> int:
    where = places()
    there = ClusterAccess.kept(where)
    with contextlib.redirect_stdout(sys.stderr):  # a caller may capture the reference
        image = provide(there, where, Journal(where.logs / "suite-image"))
    print(image)
    return 0


if __name__ == "__main__":
    os.umask(0o022)
    sys.exit(main())
