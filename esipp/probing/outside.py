"""Clients outside the cluster: containers beside the nodes, on the nodes' own docker network."""

import os
import subprocess
from collections.abc import Sequence

from esipp.base.echo_token import TOKEN, VARIABLE
from esipp.base.errors import HarnessError, PreflightError
from esipp.base.labels import OWNER, RUN_LABEL, SERVER_LABEL
from esipp.cluster.namespaces import owner
from esipp.judging.topology import Node
from esipp.probing.node_containers import matching

DOCKER_SECONDS = 60.0


def _docker(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run docker; the token is in its environment, and on nobody's command line."""
    try:
        return subprocess.run(
            ["docker", *arguments],
            capture_output=True,
            text=True,
            timeout=DOCKER_SECONDS,
            check=False,
            env={**os.environ, VARIABLE: TOKEN},
        )
    except FileNotFoundError:
        raise PreflightError("There is no docker command on PATH.", "outside clients of kind are containers.") from None
    except subprocess.TimeoutExpired:
        raise HarnessError(
            f"docker {arguments[0]} did not end within {DOCKER_SECONDS:.0f} s.", "is the engine alive? docker info"
        ) from None


def find_network(nodes: Sequence[Node]) -> str | None:
    """The docker network that kind's nodes are on, or None if these nodes are no containers of the engine here."""
    first = next(iter(nodes), None)
    if first is None or not first.provider_id.startswith("kind://docker/"):
        return None
    found = matching({first.name: list(first.internal.values())}).get(first.name)
    return None if found is None else min(found["NetworkSettings"]["Networks"])


def check_network(network: str) -> None:
    """Make sure that a docker network is there.

    Raises:
        PreflightError: it is not.
    """
    if _docker("network", "inspect", network).returncode != 0:
        known = _docker("network", "ls", "--format", "{{.Name}}").stdout.split()
        raise PreflightError(
            f"There is no docker network '{network}'.",
            f"known: {', '.join(sorted(known)) or 'none'}; is DOCKER_HOST the engine of the nodes?",
        )


class OutsideContainers:
    """Containers that stand outside the cluster, one address of each family a container.

    Args:
        run: the run's id; it is on every container as a label, so that a later sweep finds them.
        network: the docker network of the nodes.
        image: the echo image, which holds the prober too.
        server: the API server of the cluster; a label too, so that a sweep of one cluster spares another's.
        raw: whether they get CAP_NET_RAW, which SCTP needs.
    """

    def __init__(self, run: str, network: str, image: str, server: str, *, raw: bool = False) -> None:
        self._run, self._network, self._image, self._server, self._raw = run, network, image, server, raw
        self.names: list[str] = []

    def name_of(self, client: str) -> str:
        """The container of a client."""
        return f"esipp-{self._run}-{client}"

    def start(self, client: str) -> list[str]:
        """Start one and return its addresses.

        Raises:
            HarnessError: the engine refused.
        """
        name = self.name_of(client)
        self.names.append(name)
        rights = ["--user", "0", "--cap-add", "NET_RAW"] if self._raw else []
        started = _docker(
            "run", "--detach", "--rm", "--name", name, "--network", self._network,
            "--label", f"{RUN_LABEL}={self._run}", "--label", f"{SERVER_LABEL}={self._server}",
            "--label", f"{OWNER}={owner()}", "--env", VARIABLE,
            "--read-only", "--cap-drop", "ALL", *rights, "--security-opt", "no-new-privileges", self._image,
        )  # fmt: skip
        if started.returncode != 0:
            raise HarnessError(
                f"The outside client {client} cannot be started from {self._image}: {_why(started.stderr)}",
                f"does 'docker run --rm --network {self._network} {self._image}' work?",
            )
        shown = "{{range .NetworkSettings.Networks}}{{.IPAddress}} {{.GlobalIPv6Address}} {{end}}"
        return _docker("inspect", "--format", shown, name).stdout.split()

    def remove(self) -> None:
        """Remove those that were started.

        Raises:
            HarnessError: one could not be removed.
        """
        if self.names:
            _remove(self.names)
            self.names = []


def _why(complaint: str) -> str:
    """What docker complains of, in one line: what it found out last, without how it is called."""
    aside = ("Run 'docker", "See 'docker")
    lines = [line.strip() for line in complaint.splitlines() if line.strip() and not line.startswith(aside)]
    words = (
        lines[-1].removeprefix("docker: ").removeprefix("Error response from daemon: ") if lines else "no word of why"
    )
    return words[:300].rstrip(".") + "."


def _remove(names: Sequence[str]) -> None:
    gone = _docker("rm", "--force", *names)
    left = [line for line in gone.stderr.splitlines() if line and "No such container" not in line]
    if gone.returncode != 0 and left:
        raise HarnessError(
            f"The containers {', '.join(names)} could not be removed: {left[0][:200]}",
            f"docker rm --force {' '.join(names)}",
        )


def left_behind(server: str) -> dict[str, tuple[str, str]]:
    """The containers of runs against one cluster, with their run and its owner, as their labels have it."""
    label = f"label={SERVER_LABEL}={server}"
    shown = "\t".join(["{{.Names}}", *('{{.Label "' + each + '"}}' for each in (RUN_LABEL, OWNER))])
    try:
        found = _docker("ps", "--all", "--filter", label, "--format", shown)
    except PreflightError:
        return {}
    lines = found.stdout.splitlines() if found.returncode == 0 else []
    told = (line.split("\t") for line in lines)
    return {name: (run, owner) for name, run, owner in told}


def sweep(names: Sequence[str]) -> None:
    """Remove containers that killed runs left.

    Raises:
        HarnessError: one could not be removed.
    """
    if names:
        _remove(names)
