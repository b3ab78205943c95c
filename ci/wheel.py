"""`ci/wheel`: build the wheel, install it into an empty environment, and qualify the kept cluster from an empty folder.

The packages are those of images/esipp/requirements.txt, by hash, as pip finds them. With ``--plugin`` kubectl finds the
wheel's program on PATH and runs it.
"""

import contextlib
import os
import subprocess
import sys
import tempfile
import venv
from collections.abc import Iterator, Sequence
from pathlib import Path

from ci import account
from ci.access import ClusterAccess
from ci.places import CONTEXT, ROOT, places
from ci.step import SetupError, exit_code_of

PACKAGES = ROOT / "images" / "esipp" / "requirements.txt"


def build(folder: Path) -> Path:
    """Build the wheel of this checkout in a folder, and return its path."""
    _run(sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(folder))
    (wheel,) = folder.glob("*.whl")
    return wheel


def install(wheel: Path, folder: Path, *, packages: bool = True) -> Path:
    """Make an environment in a folder, with the wheel and, if wanted, its packages; return its folder of programs."""
    venv.create(folder, with_pip=True, symlinks=True)
    pip = (str(folder / "bin" / "python"), "-m", "pip", "--quiet", "install", "--no-compile")
    if packages:
        _run(*pip, "--require-hashes", "--requirement", str(PACKAGES))
    _run(*pip, "--no-deps", "--no-index", str(wheel))
    return folder / "bin"


@contextlib.contextmanager
def installed() -> Iterator[tuple[Path, Path]]:
    """The wheel of this checkout in an environment of its own: its folder of programs, and an empty folder to run in.

    Reports go to the checkout's ``runs``, all the same.
    """
    with tempfile.TemporaryDirectory(prefix="esipp-wheel-") as work:
        programs = install(build(Path(work) / "dist"), Path(work) / "environment")
        empty = Path(work) / "empty"
        empty.mkdir()
        runs = ROOT / "runs"
        runs.mkdir(exist_ok=True)
        (empty / "runs").symlink_to(runs)
        yield programs, empty


def outside_of_the_checkout(environment: dict[str, str]) -> dict[str, str]:
    """An environment of a process without what leads Python to the checkout."""
    return {name: value for name, value in environment.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV"))}


def _run(*command: str) -> None:
    done = subprocess.run(
        command, cwd=ROOT, env=outside_of_the_checkout(dict(os.environ)), capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SetupError(f"'{' '.join(command[1:5])} …' failed: {(done.stdout + done.stderr).strip()[-2000:]}", "")


def main(options: Sequence[str]) -> int:
    """Do so, and return the exit code of the run."""
    plugin = "--plugin" in options
    options = [each for each in options if each != "--plugin"]
    name = "plugin" if plugin else "wheel"
    there = ClusterAccess.kept(places())
    with installed() as (programs, empty):
        command = ["esipp", "run", "--context", CONTEXT, "--image", there.image, "--lane", name]
        environment = outside_of_the_checkout(account.environment(there, command))
        if plugin:
            environment["PATH"] = f"{programs}:{environment['PATH']}"
            command.insert(0, "kubectl")
        else:
            command[0] = str(programs / "esipp")
        command += [] if "--out" in options else ["--out", str(ROOT / "runs" / name)]
        return subprocess.run([*there.prefix, *command, *options], cwd=empty, env=environment, check=False).returncode


if __name__ == "__main__":
    sys.exit(exit_code_of(lambda: main(sys.argv[1:])))
