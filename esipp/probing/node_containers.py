"""The containers that are a kind cluster's nodes. Nothing is run in any other container, whatever a Node object says.

Two ways lead to them: by the API server's published port, where the API cannot be asked, and by what Node objects say,
of which docker must say the same.
"""

import ipaddress
import json
import subprocess
from collections.abc import Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import urlsplit

from esipp.base.errors import HarnessError

Json = dict[str, Any]

CLUSTER_LABEL, ROLE_LABEL = "io.x-k8s.kind.cluster", "io.x-k8s.kind.role"
API_PORT = "6443/tcp"
SECONDS, SCRIPT_SECONDS = 30.0, 60.0
"""What a command of docker takes at most, and a script on a node."""


def node_containers(server: str) -> dict[str, tuple[str, ...]]:
    """The running node containers of the cluster with this API server, and how a command is run in each.

    None where docker is not there, or knows no such cluster.

    Args:
        server: URL of the API server, as the kubeconfig has it.

    Raises:
        HarnessError: docker does not end.
    """
    return {name: _way(name) for name in nodes_of(server, _of_kind())}


def proven(nodes: Iterable[Json]) -> dict[str, tuple[str, ...]]:
    """Those of the nodes that are surely containers of the engine here, and how a command is run in each.

    Docker's word comes first (see ``matching``). Only then the container is entered, to compare its machine id with
    the node's: an engine elsewhere may have a container of the same name and addresses.

    Args:
        nodes: Node objects, as the API server lists them. Docker is not asked where none claims to be of kind.
    """
    listed = {item["metadata"]["name"]: item for item in nodes}
    if not any((item.get("spec") or {}).get("providerID", "").startswith("kind://docker/") for item in listed.values()):
        return {}
    try:
        found = matching({name: _internal(item) for name, item in listed.items()})
    except HarnessError:
        return {}
    machines = {name: ((listed[name].get("status") or {}).get("nodeInfo") or {}).get("machineID", "") for name in found}
    with ThreadPoolExecutor(max_workers=8) as pool:
        same = pool.map(lambda name: _is_machine(_way(name), machines[name]), found)
        return {name: _way(name) for name, held in zip(found, same, strict=True) if held}


def matching(nodes: Mapping[str, Collection[str]]) -> dict[str, Json]:
    """The containers of those nodes that docker knows as such, as ``docker inspect`` tells them, by node.

    Args:
        nodes: the InternalIPs of each node.

    Raises:
        HarnessError: docker does not end.
    """
    return matches(nodes, _of_kind())


def matches(nodes: Mapping[str, Collection[str]], containers: Iterable[Json]) -> dict[str, Json]:
    """See ``matching``: kind's labels, the host name, and every InternalIP must be the container's."""
    told = {_name(each): each for each in containers if _cluster(each) and _is_node(each)}
    return {
        name: told[name]
        for name, internal in nodes.items()
        if name in told
        and internal
        and (told[name].get("Config") or {}).get("Hostname") == name
        and {ipaddress.ip_address(each) for each in internal} <= _addresses(told[name])
    }


def _is_machine(way: tuple[str, ...], wanted: str) -> bool:
    """Whether the machine that a way leads to is the one that is wanted."""
    try:
        done = run(way, "cat /etc/machine-id")
    except HarnessError:
        return False
    return bool(wanted) and done.returncode == 0 and done.stdout.strip() == wanted


def _way(name: str) -> tuple[str, ...]:
    return ("docker", "exec", name)


def _of_kind() -> list[Json]:
    """The running containers with kind's label, as ``docker inspect`` tells them."""
    names = _docker("ps", "--filter", f"label={CLUSTER_LABEL}", "--format", "{{.Names}}").split()
    told: list[Json] = json.loads(_docker("inspect", *names) or "[]") if names else []
    return told


def _internal(node: Json) -> list[str]:
    addresses = (node.get("status") or {}).get("addresses") or []
    return [each["address"] for each in addresses if each.get("type") == "InternalIP"]


def _addresses(container: Json) -> set[ipaddress.IPv4Address | ipaddress.IPv6Address]:
    networks = ((container.get("NetworkSettings") or {}).get("Networks") or {}).values()
    told = [each.get(key) for each in networks for key in ("IPAddress", "GlobalIPv6Address")]
    return {ipaddress.ip_address(each) for each in told if each}


def nodes_of(server: str, containers: Iterable[Json]) -> list[str]:
    """The names of those containers, as ``docker inspect`` tells them, that belong to the server's cluster."""
    told = list(containers)
    clusters = {_cluster(each) for each in told if _serves(each, server)}
    return sorted(_name(each) for each in told if _cluster(each) in clusters and _is_node(each))


def _serves(container: Json, server: str) -> bool:
    """Whether the server's address is this container's: a published port, or its own name or address inside."""
    url = urlsplit(server)
    host, port = url.hostname or "", url.port or 443
    network = container.get("NetworkSettings") or {}
    for published in (network.get("Ports") or {}).get(API_PORT) or []:
        if str(published.get("HostPort")) == str(port) and _same_host(host, str(published.get("HostIp") or "")):
            return True
    own = {_name(container)}
    for there in (network.get("Networks") or {}).values():
        own |= {there.get("IPAddress") or "", there.get("GlobalIPv6Address") or ""}
    return f"{port}/tcp" == API_PORT and host in own - {""}


def _same_host(host: str, published: str) -> bool:
    """Whether a port that docker published on an address is reached by this host."""
    try:
        bound = ipaddress.ip_address(published)
    except ValueError:
        return True  # published everywhere
    if bound.is_unspecified or host == published:
        return True
    return bound.is_loopback and host == "localhost"


def _cluster(container: Json) -> str:
    return str(((container.get("Config") or {}).get("Labels") or {}).get(CLUSTER_LABEL, ""))


def _is_node(container: Json) -> bool:
    role = ((container.get("Config") or {}).get("Labels") or {}).get(ROLE_LABEL, "")
    return role in ("control-plane", "worker") and bool((container.get("State") or {}).get("Running", True))


def _name(container: Json) -> str:
    return str(container.get("Name", "")).removeprefix("/")


def _docker(*arguments: str) -> str:
    """What docker prints, nothing where it is not there or has nothing to say."""
    try:
        done = subprocess.run(
            ["docker", *arguments],
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
            stdin=subprocess.DEVNULL,
        )
    except OSError:
        return ""
    except subprocess.TimeoutExpired:
        raise HarnessError(f"docker {arguments[0]} did not end within {SECONDS:.0f} s.", "docker info") from None
    return done.stdout if done.returncode == 0 else ""


def run(way: Sequence[str], script: str) -> subprocess.CompletedProcess[str]:
    """Run a script on a node, undisturbed by a Ctrl-C: that goes to the terminal's whole process group.

    Raises:
        HarnessError: it cannot be run, or does not end.
    """
    try:
        return subprocess.run(
            [*way, "sh", "-c", script],
            capture_output=True,
            text=True,
            timeout=SCRIPT_SECONDS,
            check=False,
            start_new_session=True,
            stdin=subprocess.DEVNULL,
        )
    except (OSError, subprocess.TimeoutExpired) as broken:
        raise HarnessError(f"The node cannot be reached by '{' '.join(way)}': {broken}.", "docker info") from None
