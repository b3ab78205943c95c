"""The docker command, as a process that ends in time."""

import os
import subprocess

from esipp.base.echo_token import TOKEN, VARIABLE
from esipp.base.errors import HarnessError, PreflightError

DOCKER_SECONDS = 60.0


def docker(*arguments: str, seconds: float = DOCKER_SECONDS, text: str = "") -> subprocess.CompletedProcess[str]:
    """Run docker; the token is in its environment, not on a command line.

    Args:
        arguments: docker's.
        seconds: its timeout.
        text: its standard input.

    Raises:
        PreflightError: there is no docker.
        HarnessError: it does not end in time.
    """
    try:
        return subprocess.run(
            ["docker", *arguments],
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
            input=text,
            env={**os.environ, VARIABLE: TOKEN},
        )
    except FileNotFoundError:
        raise PreflightError(
            "There is no docker command on PATH.", "install it; outside clients of a kind cluster are containers."
        ) from None
    except subprocess.TimeoutExpired:
        raise HarnessError(
            f"docker {arguments[0]} did not end within {seconds:.0f} s.", "check that 'docker info' works."
        ) from None


def why(complaint: str) -> str:
    """The last line of docker's error message, without usage hints."""
    aside = ("Run 'docker", "See 'docker")
    lines = [line.strip() for line in complaint.splitlines() if line.strip() and not line.startswith(aside)]
    signs = (
        lines[-1].removeprefix("docker: ").removeprefix("Error response from daemon: ") if lines else "no reason given"
    )
    return signs[:300].rstrip(".") + "."
