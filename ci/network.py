"""The kind network: division of its subnets, and the nodes' second addresses and ExternalIPs.

Docker assigns the low end to nodes and clients. Then come the nodes' ExternalIPs, which their Node objects name as
clouds do. The middle has their second addresses, which no object names, as many machines have several. Clients dial
nodePorts on all of them. The high end belongs to load balancers: the cluster's own has the last addresses, the
reference load balancer as many just below. The suite's own tests use the rest for hosts next to the nodes.
"""

import ipaddress
import json
from collections.abc import Collection, Sequence
from itertools import islice
from typing import Any

from ci.access import ClusterAccess
from ci.places import CONTEXT
from ci.step import Journal, SetupError
from esipp.base.json import Json

POOL_SIZE = 100
INTERFACE = "eth0"

IPAddress = ipaddress.IPv4Address | ipaddress.IPv6Address


def inspected(there: ClusterAccess) -> Json:
    """Query docker for the kind network: subnets, bridge, and containers.

    Raises:
        SetupError: it does not exist.
    """
    text = there.ask("docker", "network", "inspect", "kind")
    if text is None:
        raise SetupError("The docker network 'kind' does not exist.", "run ci/conformance --down and start again")
    found: Json = json.loads(text)[0]
    return found


def subnets(there: ClusterAccess) -> list[str]:
    """Ask docker for the subnets of the kind network."""
    return subnets_of(inspected(there))


def subnets_of(network: Json) -> list[str]:
    """Read the subnets of a docker network, as it is inspected."""
    return [entry["Subnet"] for entry in network["IPAM"]["Config"]]


def bridge_of(network: Json) -> str:
    """Say how a docker network's bridge is called in the engine's network namespace."""
    return (network.get("Options") or {}).get("com.docker.network.bridge.name") or f"br-{network['Id'][:12]}"


def held(network: Json) -> set[IPAddress]:
    """Collect the addresses assigned by docker on a network: to its bridge, to containers, and reserved ones."""
    addresses = [entry.get("Gateway") for entry in network["IPAM"]["Config"]]
    for entry in network["IPAM"]["Config"]:
        addresses += (entry.get("AuxiliaryAddresses") or {}).values()
    for container in (network.get("Containers") or {}).values():
        addresses += [container.get("IPv4Address"), container.get("IPv6Address")]
    return {ipaddress.ip_interface(each).ip for each in addresses if each}


def node_addresses(there: ClusterAccess, selector: str = "") -> dict[str, list[str]]:
    """Ask the API for every node's InternalIPs, or for those of some nodes: one of each family that the cluster has."""
    asked = ["get", "nodes", "--output", "json", f"--selector={selector}"]
    text = there.ask("kubectl", "--context", CONTEXT, "--request-timeout=10s", *asked)
    if text is None:
        raise SetupError("The API server does not list the nodes.", "run ci/conformance --down and start again")
    return {node["metadata"]["name"]: _internal(node) for node in json.loads(text)["items"]}


def _internal(node: dict[str, Any]) -> list[str]:
    return [entry["address"] for entry in node["status"]["addresses"] if entry["type"] == "InternalIP"]


def of_the_cluster(nets: Sequence[str], addresses: Sequence[str]) -> list[str]:
    """Leave out the subnets of a family that the cluster does not have: kind's network may have both."""
    families = {ipaddress.ip_address(address).version for address in addresses}
    return [net for net in nets if ipaddress.ip_network(net).version in families]


def cluster_pools(there: ClusterAccess) -> list[str]:
    """Choose the ranges of the cluster's own load balancer: those of the cluster's families."""
    addresses = [address for found in node_addresses(there).values() for address in found]
    return pools(of_the_cluster(subnets(there), addresses))


def pools(nets: Sequence[str]) -> list[str]:
    """Choose the range of the cluster's own load balancer at the high end of each subnet."""
    return [_pool(net, 0) for net in nets]


def reference_pools(nets: Sequence[str]) -> list[str]:
    """Choose the reference load balancer's range, just below that in each subnet."""
    return [_pool(net, 1) for net in nets]


def _pool(net: str, above: int) -> str:
    """Choose a range that has others, as large, above it; all of them are in the subnet's last quarter."""
    network = ipaddress.ip_network(net)
    size = min(POOL_SIZE, network.num_addresses // 8 - 1)
    last = int(network.broadcast_address) - 1 - above * size
    return f"{ipaddress.ip_address(last - size + 1)}-{ipaddress.ip_address(last)}"


def second_address(first: str, nets: Sequence[str]) -> str:
    """Choose a node's second address: as far into the subnet's upper half as its first one is into the lower."""
    return _further(first, nets, 2)


def external_address(first: str, nets: Sequence[str]) -> str:
    """Choose a node's ExternalIP: as far into the subnet's second quarter as its first address is into the first."""
    return _further(first, nets, 1)


def _further(first: str, nets: Sequence[str], quarters: int) -> str:
    """Choose an address so many quarters of the subnet above the first one, with the same prefix length."""
    address = ipaddress.ip_address(first)
    network = next((net for net in map(ipaddress.ip_network, nets) if address in net), None)
    if network is None:
        raise SetupError(
            f"The node address {first} is not in the kind network ({', '.join(nets)}).",
            "run ci/conformance --down and start again",
        )
    offset = int(address) - int(network.network_address)
    if offset >= network.num_addresses // 4 - 1:  # above are, at most, the load balancers'
        raise SetupError(
            f"The kind network's subnet {network} is too small for the nodes' second addresses.",
            "give docker's default-address-pools subnets with a prefix of at most 24 bits.",
        )
    found = ipaddress.ip_address(int(address) + quarters * (network.num_addresses // 4))
    return f"{found}/{network.prefixlen}"


def spare_addresses(net: str, count: int, taken: Collection[IPAddress]) -> list[str]:
    """Choose unassigned addresses: the highest below the load balancers', above the nodes' second ones.

    The smallest subnets have two of them. The addresses have the subnet's prefix length.

    Raises:
        SetupError: there are not enough.
    """
    network = ipaddress.ip_network(net)
    above = int(ipaddress.ip_address(_pool(net, 1).partition("-")[0]))
    lowest = int(network.network_address) + network.num_addresses * 3 // 4 - 1  # see second_address
    every = (ipaddress.ip_address(number) for number in range(above - 1, lowest - 1, -1))
    found = list(islice((each for each in every if each not in taken), count))
    if len(found) < count:
        raise SetupError(
            f"The kind network's subnet {network} has no {count} unassigned addresses.",
            "give docker's default-address-pools subnets with a prefix of at most 24 bits.",
        )
    return [f"{each}/{network.prefixlen}" for each in found]


def command(second: str) -> str:
    """Say how `ip` gives a node a further address; a node that has it stays as it is.

    An IPv6 address that comes later would be what the node speaks from, an IPv4 one would not: hence deprecated, which
    is so in both families and leaves incoming connections alone.
    """
    six = " nodad valid_lft forever preferred_lft 0" if ":" in second else ""
    return f"address replace {second} dev {INTERFACE}{six}"


ADDRESSES_ARE_THE_PROVIDERS = """set -e
flags=/var/lib/kubelet/kubeadm-flags.env
grep --quiet -- --cloud-provider $flags && exit
sed --in-place 's/^KUBELET_KUBEADM_ARGS="/&--cloud-provider=external /' $flags
systemctl restart kubelet
"""
"""What makes a kubelet leave the addresses of its Node object to a cloud provider. There is none here. As its node is
registered already, it adds no taint that a provider would have to remove."""


def give_further_addresses(there: ClusterAccess, journal: Journal) -> None:
    """Give every node a second address and an ExternalIP of each of the cluster's families, or see that it has them.

    Its Node object names the ExternalIPs.
    """
    with journal.step("give the nodes further addresses", hint="ci/enter docker exec NODE ip address") as step:
        nets = subnets(there)
        nodes = node_addresses(there)
        for node, firsts in nodes.items():
            external = [external_address(first, nets) for first in firsts]
            further = [*(second_address(first, nets) for first in firsts), *external]
            batch = "".join(f"{command(each)}\n" for each in further)
            there.run(step, "docker", "exec", "--interactive", node, "ip", "-batch", "-", stdin=batch.encode())
            there.run(step, "docker", "exec", node, "sh", "-c", ADDRESSES_ARE_THE_PROVIDERS)
            named = [("InternalIP", first) for first in firsts]
            named += [("ExternalIP", each.partition("/")[0]) for each in external]
            addresses = [{"type": kind, "address": each} for kind, each in (*named, ("Hostname", node))]
            patch = json.dumps({"status": {"addresses": addresses}})
            how = ("--subresource", "status", "--type", "merge", "--patch", patch)
            there.run(step, "kubectl", "--context", CONTEXT, "patch", "node", node, *how)
            step.say(f"{node}:\n{batch}")
        step.note = f"{2 * sum(map(len, nodes.values()))} on {len(nodes)} nodes"
