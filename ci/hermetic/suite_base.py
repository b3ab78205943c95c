"""Base of the suite's image without a registry: the base image, with esipp's packages from the package index.

It stands apart from images.py, whose own text is a part of the node image's key: a change here costs no node image.
"""

import sys
import tempfile
from pathlib import Path

from ci.hermetic.engine import Engine
from ci.hermetic.images import prune_images
from ci.hermetic.store import Store, key_of
from ci.places import ROOT
from ci.step import Journal, SetupError

NAME = "localhost/esipp/suite-base"
REQUIREMENTS = ROOT / "images" / "esipp" / "requirements.txt"
PACKAGES = "packages"
VERSION = "import sys; print('%d.%d' % sys.version_info[:2])"


def reference(base: str) -> str:
    """Name the image by the base and by the packages that are in it."""
    return f"{NAME}:{key_of(base, REQUIREMENTS)}"


def make(base: str, store: Store, engine: Engine, journal: Journal) -> str:
    """Make the image if the engine does not have it, and return its reference; the engine has the base image."""
    image = reference(base)
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
        prune_images(engine, NAME, image)
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
