"""The containers of a kind cluster's nodes. esipp runs nothing in any other container, whatever a Node object says.

There are two ways to find them: by the API server's published port, if the API is not available; and by Node objects,
which must agree with docker.
"""

import ipaddress
import json
import subprocess
from collections.abc import Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlsplit

from esipp.base.errors import HarnessError
from esipp.base.json import Json

CLUSTER_LABEL, ROLE_LABEL = "io.x-k8s.kind.cluster", "io.x-k8s.kind.role"
API_PORT = "6443/tcp"
SECONDS, SCRIPT_SECONDS = 30.0, 60.0
"""Timeouts of a docker command and of a script on a node."""


def node_containers(server: str) -> dict[str, tuple[str, ...]]:
    """The running node containers of the cluster with this API server, and the commands to enter them.

    Empty if docker is not available or knows no such cluster.

    Args:
        server: URL of the API server in the kubeconfig.

    Raises:
        HarnessError: docker does not end in time.
    """
    return {name: _way(name) for name in nodes_of(server, _of_kind())}


def proven(nodes: Iterable[Json]) -> dict[str, tuple[str, ...]]:
    """The nodes that are certainly containers of this machine's engine, and the commands to enter them.

    A node must first match docker's data (see ``matching``). Only then esipp enters the container and compares its
    machine id with the node's, because another engine may have a container with the same name and addresses.

    Args:
        nodes: Node objects, as the API server lists them. Without a node of kind, docker is not used.
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
    """The containers of nodes that match docker's data, as ``docker inspect`` shows them, by node.

    Args:
        nodes: the InternalIPs of each node.

    Raises:
        HarnessError: docker does not end in time.
    """
    return matches(nodes, _of_kind())


def matches(nodes: Mapping[str, Collection[str]], containers: Iterable[Json]) -> dict[str, Json]:
    """The containers with kind's labels and the node's host name that have every InternalIP of the node."""
    known = {_name(each): each for each in containers if _cluster(each) and _is_node(each)}
    return {
        name: known[name]
        for name, internal in nodes.items()
        if name in known
        and internal
        and (known[name].get("Config") or {}).get("Hostname") == name
        and {ipaddress.ip_address(each) for each in internal} <= _addresses(known[name])
    }


def _is_machine(way: tuple[str, ...], wanted: str) -> bool:
    """Whether the machine id behind a command is the expected one."""
    try:
        done = run(way, "cat /etc/machine-id")
    except HarnessError:
        return False
    return bool(wanted) and done.returncode == 0 and done.stdout.strip() == wanted


def _way(name: str) -> tuple[str, ...]:
    return ("docker", "exec", name)


def _of_kind() -> list[Json]:
    """The running containers with kind's label, as ``docker inspect`` shows them."""
    names = _docker("ps", "--filter", f"label={CLUSTER_LABEL}", "--format", "{{.Names}}").split()
    containers: list[Json] = json.loads(_docker("inspect", *names) or "[]") if names else []
    return containers


def _internal(node: Json) -> list[str]:
    addresses = (node.get("status") or {}).get("addresses") or []
    return [each["address"] for each in addresses if each.get("type") == "InternalIP"]


def _addresses(container: Json) -> set[ipaddress.IPv4Address | ipaddress.IPv6Address]:
    networks = ((container.get("NetworkSettings") or {}).get("Networks") or {}).values()
    addresses = [each.get(key) for each in networks for key in ("IPAddress", "GlobalIPv6Address")]
    return {ipaddress.ip_address(each) for each in addresses if each}


def nodes_of(server: str, containers: Iterable[Json]) -> list[str]:
    """The names of the node containers that belong to the server's cluster."""
    containers = list(containers)
    clusters = {_cluster(each) for each in containers if _serves(each, server)}
    return sorted(_name(each) for each in containers if _cluster(each) in clusters and _is_node(each))


def _serves(container: Json, server: str) -> bool:
    """Whether the server's address is this container's: a published port, or its own name or address."""
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
    """Whether this host name reaches a port that docker published on an address."""
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
    """The output of docker; empty if it is not available or fails."""
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
        raise HarnessError(
            f"docker {arguments[0]} did not end within {SECONDS:.0f} s.", "check that 'docker info' works."
        ) from None
    return done.stdout if done.returncode == 0 else ""


def run(way: Sequence[str], script: str) -> subprocess.CompletedProcess[str]:
    """Run a script on a node, outside the terminal's process group, so that Ctrl-C does not interrupt it.

    Raises:
        HarnessError: the script cannot run, or does not end in time.
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
        raise HarnessError(
            f"Cannot reach the node with '{' '.join(way)}': {broken}.", "check that 'docker info' works."
        ) from None
