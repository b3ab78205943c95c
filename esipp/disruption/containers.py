"""The containers that are a kind cluster's nodes, found without asking its API: by docker's labels and the published
port of its API server.
"""

import ipaddress
import json
import subprocess
from collections.abc import Iterable
from typing import Any
from urllib.parse import urlsplit

from esipp.errors import HarnessError

Json = dict[str, Any]

CLUSTER_LABEL = "io.x-k8s.kind.cluster"
API_PORT = "6443/tcp"
SECONDS = 30.0


def node_containers(server: str) -> dict[str, tuple[str, ...]]:
    """The running node containers of the cluster with this API server, and how a command is run in each.

    None where docker is not there, or knows no such cluster.

    Args:
        server: URL of the API server, as the kubeconfig has it.

    Raises:
        HarnessError: docker does not end.
    """
    names = _docker("ps", "--filter", f"label={CLUSTER_LABEL}", "--format", "{{.Names}}").split()
    told: list[Json] = json.loads(_docker("inspect", *names) or "[]") if names else []
    return {name: ("docker", "exec", name) for name in nodes_of(server, told)}


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
    role = ((container.get("Config") or {}).get("Labels") or {}).get("io.x-k8s.kind.role", "")
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
