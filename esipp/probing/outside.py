"""Clients outside the cluster: containers beside the nodes, on the nodes' own docker network."""

import json
import subprocess
from collections.abc import Sequence

from esipp.errors import HarnessError, PreflightError
from esipp.labels import RUN_LABEL
from esipp.topology import Node

DOCKER_SECONDS = 60.0


def _docker(*arguments: str) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            ["docker", *arguments], capture_output=True, text=True, timeout=DOCKER_SECONDS, check=False
        )
    except FileNotFoundError:
        raise PreflightError("There is no docker command on PATH.", "outside clients of kind are containers.") from None
    except subprocess.TimeoutExpired:
        raise HarnessError(
            f"docker {arguments[0]} did not end within {DOCKER_SECONDS:.0f} s.", "is the engine alive? docker info"
        ) from None


def find_network(nodes: Sequence[Node]) -> str | None:
    """The docker network that kind's nodes are on, or None if these nodes are no containers of the engine here."""
    for node in nodes:
        if not node.provider_id.startswith("kind://docker/"):
            return None
        container = node.provider_id.rpartition("/")[2]
        try:
            looked = _docker("inspect", "--format", "{{json .NetworkSettings.Networks}}", container)
        except PreflightError:
            return None
        if looked.returncode != 0:
            return None
        networks: list[str] = sorted(json.loads(looked.stdout))
        return networks[0]
    return None


class OutsideContainers:
    """Containers that stand outside the cluster, one address of each family a container.

    Args:
        run: the run's id; it is on every container as a label, so that a later sweep finds them.
        network: the docker network of the nodes.
        image: the echo image, which holds the prober too.
    """

    def __init__(self, run: str, network: str, image: str) -> None:
        self._run, self._network, self._image = run, network, image
        self.names: list[str] = []

    def start(self, client: str) -> str:
        """Start one and return its container name.

        Raises:
            HarnessError: the engine refused.
        """
        name = f"esipp-{self._run}-{client}"
        self.names.append(name)
        started = _docker(
            "run", "--detach", "--rm", "--name", name, "--network", self._network,
            "--label", f"{RUN_LABEL}={self._run}", "--read-only", "--cap-drop", "ALL",
            "--security-opt", "no-new-privileges", self._image,
        )  # fmt: skip
        if started.returncode != 0:
            raise HarnessError(
                f"The outside client {client} cannot be started: {started.stderr.strip()[:300]}",
                f"does 'docker run --rm --network {self._network} {self._image}' work?",
            )
        return name

    def remove(self) -> None:
        """Remove those that were started."""
        if self.names:
            _docker("rm", "--force", *self.names)
            self.names = []


def sweep(run: str | None) -> list[str]:
    """Remove containers that a killed run left (all runs, or one), and return their names."""
    label = RUN_LABEL if run is None else f"{RUN_LABEL}={run}"
    try:
        found = _docker("ps", "--all", "--filter", f"label={label}", "--format", "{{.Names}}")
    except PreflightError:
        return []
    names = found.stdout.split() if found.returncode == 0 else []
    if names:
        _docker("rm", "--force", *names)
    return names
