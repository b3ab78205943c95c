"""`ci/suite-image`: build the suite's own image, load it into the kept cluster, and print its reference."""

import contextlib
import os
import sys
import tempfile
from pathlib import Path

from ci.access import ClusterAccess
from ci.hermetic.engine import Engine
from ci.hermetic.images import prune_images
from ci.hermetic.store import Store, key_of
from ci.places import ROOT, Places, places
from ci.step import Journal, SetupError, exit_code_of
from ci.ways import Hermetic, Official, Way

NAME, BASE = "localhost/esipp/suite", "localhost/esipp/suite-base"
REQUIREMENTS = ROOT / "images" / "esipp" / "requirements.txt"
PACKAGES = "packages"
VERSION = "import sys; print('%d.%d' % sys.version_info[:2])"
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
        base: str | None = make_base(hermetic.echo_base(there.kubernetes), Store(where), hermetic.engine, journal)
    else:
        way, base = Official(where, journal), None
    image = build(there, base, journal)
    way.load(there, image)
    way.tidy(image)
    return image


# ------------------------------------------------------------------------------------------------- without a registry
def base_reference(base: str) -> str:
    """Name the suite's own base image by the base and by the packages that are in it."""
    return f"{BASE}:{key_of(base, REQUIREMENTS)}"


def make_base(base: str, store: Store, engine: Engine, journal: Journal) -> str:
    """Make the image if the engine does not have it, and return its reference; the engine has the base image."""
    image = base_reference(base)
    if store.fresh or not engine.has_image(image):
        python = "".join(engine.ask("run", "--rm", "--network=none", base, "python3", "-c", VERSION))
        if not python:
            raise SetupError(f"The image {base} runs no python3.", "run it again with --fresh")
        folder = store.get(
            "suite-packages", key_of(python, REQUIREMENTS), lambda out: _install(python, out / PACKAGES, journal)
        )
        with journal.step("make the suite's base image") as step, tempfile.TemporaryDirectory() as place:
            file = Path(place) / "Dockerfile"
            file.write_text(f"FROM {base}\nCOPY {PACKAGES} /opt/esipp/{PACKAGES}\n")
            engine.docker(step, "build", "--tag", image, "--file", file, folder)
        prune_images(engine, BASE, image)
    return image


def _install(python: str, out: Path, journal: Journal) -> None:
    """Put the packages into a folder, built for that Python, whatever this one is."""
    with journal.step(
        "fetch the suite's packages", hint="check that a package index is reachable (pip config list)."
    ) as step:
        step.run(pip(python, out))


def pip(python: str, out: Path) -> list[str | Path]:
    """The command that does so; nothing is built, and what has another hash is refused."""
    command: list[str | Path] = [sys.executable, "-m", "pip", "install", "--no-compile", "--require-hashes"]
    command += ["--only-binary=:all:", "--implementation=cp", f"--python-version={python}"]
    return [*command, "--target", out, "--requirement", REQUIREMENTS]


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
