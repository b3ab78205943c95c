"""Outside clients in containers on the docker network of the nodes."""

import json
from collections.abc import Mapping, Sequence

from esipp.base.client_places import BEHIND_ROUTER
from esipp.base.echo_token import VARIABLE
from esipp.base.errors import HarnessError, PreflightError
from esipp.base.json import Json
from esipp.base.labels import OWNER, ROUTE_LABEL, RUN_LABEL, SERVER_LABEL, TOOLS_LABEL
from esipp.cluster.namespaces import owner
from esipp.judging.topology import Node
from esipp.probing import behind
from esipp.probing.docker import docker, why
from esipp.probing.node_containers import matching


def find_network(nodes: Sequence[Node]) -> str | None:
    """The docker network of kind's nodes; None if the nodes are not containers of this machine's engine."""
    first = next(iter(nodes), None)
    if first is None or not first.provider_id.startswith("kind://docker/"):
        return None
    found = matching({first.name: list(first.internal.values())}).get(first.name)
    return None if found is None else min(found["NetworkSettings"]["Networks"])


def find_tools(nodes: Sequence[Node]) -> str:
    """The image of kind's nodes, which has ``ip`` and ``iptables``; empty if the nodes are not such containers."""
    first = next((node for node in nodes if node.provider_id.startswith("kind://docker/")), None)
    found = matching({first.name: list(first.internal.values())}).get(first.name) if first else None
    return str((found or {}).get("Image") or "")


def check_network(network: str) -> None:
    """Check that a docker network exists.

    Raises:
        PreflightError: it does not.
    """
    if docker("network", "inspect", network).returncode != 0:
        known = docker("network", "ls", "--format", "{{.Name}}").stdout.split()
        raise PreflightError(
            f"There is no docker network '{network}'.",
            f"available networks: {', '.join(sorted(known)) or 'none'}; check that DOCKER_HOST is the nodes' engine.",
        )


class OutsideContainers:
    """Containers outside the cluster, each with one address per family.

    Args:
        run: id of the run; a label of every container, by which a cleanup finds them.
        network: the docker network of the nodes.
        image: the echo image, which also contains the prober.
        server: API server of the cluster; also a label, so that a cleanup of one cluster does not affect another.
        raw: whether the containers get CAP_NET_RAW, which SCTP needs.
        tools: an image with ``ip`` and ``iptables``, for the clients behind a router and behind NAT.

    Attributes:
        broken: why a client behind a router or NAT is only a neighbour of the nodes, by name.
    """

    def __init__(self, run: str, network: str, image: str, server: str, *, raw: bool = False, tools: str = "") -> None:
        self._run, self._network, self._image, self._server, self._raw = run, network, image, server, raw
        self._tools = tools
        self.names: list[str] = []
        self.broken: dict[str, str] = {}

    def name_of(self, client: str) -> str:
        """The name of a client's container."""
        return f"esipp-{self._run}-{client}"

    def start(self, client: str) -> list[str]:
        """Start a container and return its addresses, as nodes see them.

        Raises:
            HarnessError: docker failed.
        """
        name = self.name_of(client)
        self.names.append(name)
        rights = ["--user", "0", "--cap-add", "NET_RAW"] if self._raw else []
        own = behind.own_addresses(client, self._run) if client in behind.RANGES else {}
        if client == BEHIND_ROUTER:
            rights += [part for each in behind.FORWARDING for part in ("--sysctl", each)]
            rights += ["--label", f"{ROUTE_LABEL}={' '.join(own.values())}", "--label", f"{TOOLS_LABEL}={self._tools}"]
        started = docker(
            "run", "--detach", "--rm", "--name", name, "--network", self._network,
            "--label", f"{RUN_LABEL}={self._run}", "--label", f"{SERVER_LABEL}={self._server}",
            "--label", f"{OWNER}={owner()}", "--env", VARIABLE,
            "--read-only", "--cap-drop", "ALL", *rights, "--security-opt", "no-new-privileges", self._image,
        )  # fmt: skip
        if started.returncode != 0:
            raise HarnessError(
                f"Cannot start the outside client {client} from {self._image}: {why(started.stderr)}",
                f"check that 'docker run --rm --network {self._network} {self._image}' works.",
            )
        links = behind.links(_described([name])[0], self._network)
        if own:
            self._set_behind(client, own, links)
        return [own[link.version] if client == BEHIND_ROUTER else link.address for link in links]

    def _set_behind(self, client: str, own: Mapping[int, str], links: Sequence[behind.Link]) -> None:
        """Put a client behind a router or NAT; ``broken`` says why that failed."""
        name = self.name_of(client)
        scripts = [(f"container:{name}", behind.inside(client, own, links))]
        if client == BEHIND_ROUTER:
            scripts.append(("host", behind.way_back(own, links)))
        for namespace, script in scripts:
            done = docker(*behind.tool(self._tools, namespace, script))
            if done.returncode != 0:
                self.broken[client] = f"the network of {client} could not be set up: {why(done.stderr)}".rstrip(".")
                return

    def remove(self) -> None:
        """Remove the started containers.

        Raises:
            HarnessError: a container could not be removed.
        """
        if self.names:
            _remove(self.names)
            self.names = []


def _described(names: Sequence[str]) -> list[Json]:
    """Containers, as docker describes them; those that are gone are left out."""
    found = docker("inspect", "--type", "container", *names).stdout
    containers: list[Json] = json.loads(found or "[]")
    return containers


def _remove(names: Sequence[str]) -> None:
    for container in _described(names):
        labels = (container.get("Config") or {}).get("Labels") or {}
        if labels.get(ROUTE_LABEL) and labels.get(TOOLS_LABEL):
            script = behind.no_way_back(labels[ROUTE_LABEL].split())
            done = docker(*behind.tool(labels[TOOLS_LABEL], "host", script))
            if done.returncode != 0:
                raise HarnessError(
                    f"Cannot remove the routes to {labels[ROUTE_LABEL]}: {why(done.stderr)}",
                    f"try 'ip route del' on the docker engine's machine; they have proto {behind.PROTOCOL}.",
                )
    gone = docker("rm", "--force", "--volumes", *names)
    left = [line for line in gone.stderr.splitlines() if line and "No such container" not in line]
    if gone.returncode != 0 and left:
        raise HarnessError(
            f"Cannot remove the containers {', '.join(names)}: {left[0][:200]}",
            f"try 'docker rm --force {' '.join(names)}'.",
        )


def left_behind(server: str) -> dict[str, tuple[str, str]]:
    """The containers of runs against a cluster, with run and owner, from their labels."""
    label = f"label={SERVER_LABEL}={server}"
    shown = "\t".join(["{{.Names}}", *('{{.Label "' + each + '"}}' for each in (RUN_LABEL, OWNER))])
    try:
        found = docker("ps", "--all", "--filter", label, "--format", shown)
    except PreflightError:
        return {}
    lines = found.stdout.splitlines() if found.returncode == 0 else []
    return {name: (run, owner) for name, run, owner in (line.split("\t") for line in lines)}


def sweep(names: Sequence[str]) -> None:
    """Remove containers of killed runs.

    Raises:
        HarnessError: a container could not be removed.
    """
    if names:
        _remove(names)
