"""Client address discovery: the address by which the nodes see each client outside the cluster, and its proof.

A container next to the nodes shows the address of its own interface. This machine, or a remote host, may be behind NAT
or a proxy; then only the other side sees its address. The data plane under test must not be the witness. So only the
control listeners count: they run on the nodes' host network, with no Service in between. A listener must see the same
address each time. An address that the client does not hold itself counts only if two nodes see it, if nothing else
holds it, and if the client has no public address of its own. A client whose address is not proven in a family lacks
the feature ``vantage.outside.<family>``: its checks are unsupported there, and never fail.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from esipp.checks.check import AT_VIPS, OUTSIDE, TWO_ADDRESSES, Feature
from esipp.checks.model import Family
from esipp.checks.observation import Observation, Outcome
from esipp.judging.topology import IPAddress, Node, Pod, parse_address

CLOSED = (
    "the kernel of each node chose the TCP ports of the control listeners (net.ipv4.ip_local_port_range), so a "
    "firewall that admits only nodePorts blocks them; open the nodes' TCP ports 32768-60999 to this client for the run"
)
"""Why a listener may be silent although nodePorts answer, and what to do."""


class Finding(StrEnum):
    """What is between a client and the nodes."""

    DIRECT = "direct"
    NAT = "nat"
    UNPROVEN = "unproven"


@dataclass(frozen=True)
class Answer:
    """One connection of a client to one control listener.

    Args:
        node: the listener's node.
        own: the address of the client's socket.
        seen: the source address that the listener saw.
        claimed: the address in a header that only a proxy in between writes; empty without one.
    """

    node: str
    own: IPAddress
    seen: IPAddress
    claimed: str = ""


@dataclass(frozen=True)
class DiscoveredAddress:
    """The address by which the nodes see a client in one family.

    Args:
        client: the client's name.
        family: of the addresses.
        finding: what is between the client and the nodes.
        said: the finding and its witnesses, as a sentence.
        own: the address of its sockets; ``seen``: the one that the nodes see; both None if nothing is proven.
    """

    client: str
    family: Family
    finding: Finding
    said: str
    own: IPAddress | None = None
    seen: IPAddress | None = None


def answers_of(node: str, made: Iterable[Observation]) -> list[Answer]:
    """The answers of a node's control listener; other outcomes prove nothing."""
    found = []
    for each in made:
        if each.outcome is Outcome.ANSWERED and each.source and each.seen:
            header = (each.echo or {}).get("proxy_protocol")
            claimed = f"a PROXY protocol header naming {header.get('source_address') or 'no address'}" if header else ""
            claimed = claimed or ", ".join(
                f"X-Forwarded-For: {x}" for x in (each.echo or {}).get("x_forwarded_for") or ()
            )
            found.append(Answer(node, parse_address(each.source[0]), parse_address(each.seen[0]), claimed))
    return found


def find(
    client: str, family: Family, asked: Sequence[str], answers: Sequence[Answer], owner: Callable[[IPAddress], str]
) -> DiscoveredAddress:
    """Decide what the answers prove.

    Args:
        client: the client's name.
        family: of the dialled addresses.
        asked: the nodes whose listeners were dialled.
        answers: the listeners' answers, several for each node.
        owner: returns the owner of an address ("node worker"), or an empty string for an unknown one.
    """

    def unproven(said: str) -> DiscoveredAddress:
        return DiscoveredAddress(client, family, Finding.UNPROVEN, said)

    if not asked:
        return unproven(f"no node has a control listener that {client} could dial over {family}")
    if not answers:
        return unproven(f"{client} reaches no control listener over {family} (dialled: {', '.join(asked)}): {CLOSED}")
    for each in answers:
        if each.claimed:
            return unproven(f"a proxy is between {client} and node {each.node}: it sends {each.claimed}")
    seen: dict[str, set[IPAddress]] = {}
    for each in answers:
        seen.setdefault(each.node, set()).add(each.seen)
    for node, addresses in seen.items():
        if len(addresses) > 1:
            return unproven(
                f"node {node} sees {client} with the addresses {_and(addresses)}: a proxy, or NAT with several "
                "addresses, is in between"
            )
    if len({each.own for each in answers}) > 1:
        return unproven(f"{client} dials the nodes from several addresses: {_and({a.own for a in answers})}")
    own, shown = answers[0].own, {each.seen for each in answers}
    nodes = list(seen)
    if shown == {own}:
        said = f"{client} reaches {_nodes(nodes)} with its own address {own}: nothing rewrites it on the way"
        return DiscoveredAddress(client, family, Finding.DIRECT, said, own, own)
    for address in sorted(shown - {own}, key=str):
        if whose := owner(address):
            return unproven(f"{client} appears as {address}, the address of {whose}: something on the way rewrites it")
    if len(shown) > 1:
        views = "; ".join(f"node {node} sees {_and(addresses)}" for node, addresses in seen.items())
        return unproven(f"the nodes see {client} (own address {own}) with different addresses: {views}")
    (address,) = shown
    if own.is_global:
        return unproven(f"{client} has the public address {own}, but appears as {address}: something rewrites it")
    if len(nodes) < 2:
        return unproven(
            f"{client} is behind NAT (own address {own}), and only node {nodes[0]} sees its translated address "
            f"{address}: one witness is no proof"
        )
    said = f"{client} is behind NAT: its own address is {own}, and {_nodes(nodes)} see {address}"
    return DiscoveredAddress(client, family, Finding.NAT, said, own, address)


def told_apart(found: Iterable[DiscoveredAddress]) -> list[DiscoveredAddress]:
    """If several clients share one address, only the first counts: the nodes cannot tell the others apart from it."""
    holders: dict[IPAddress, str] = {}
    kept = []
    for each in sorted(found, key=lambda each: (each.client, each.family)):
        first = holders.setdefault(each.seen, each.client) if each.seen else each.client
        if first != each.client:
            said = f"{each.client} and {first} both appear as {each.seen}: the nodes cannot tell them apart"
            kept.append(DiscoveredAddress(each.client, each.family, Finding.UNPROVEN, said))
        else:
            kept.append(each)
    return kept


def features(found: Iterable[DiscoveredAddress]) -> dict[str, Feature]:
    """The features of clients outside, by family: the first client, and a second one with another address."""
    told: dict[str, Feature] = {}
    for each in found:
        first = each.client == "outside-1"
        name = f"{OUTSIDE if first else TWO_ADDRESSES}.{each.family.value.lower()}"
        proven = each.finding is not Finding.UNPROVEN
        if name not in told or told[name].present:
            told[name] = Feature(proven, each.said, ours=not proven)
    return told


def checked(found: Iterable[DiscoveredAddress], owner: Callable[[IPAddress], str]) -> list[DiscoveredAddress]:
    """The findings without addresses that turn out to belong to a node or a VIP; those are known only later."""
    kept = []
    for each in found:
        whose = owner(each.seen) if each.seen is not None else ""
        said = f"{each.client} appears as {each.seen}, which is also the address of {whose}"
        kept.append(DiscoveredAddress(each.client, each.family, Finding.UNPROVEN, said) if whose else each)
    return kept


@dataclass(frozen=True)
class Owners:
    """The owners of addresses: nodes, our pods, and VIPs by Service."""

    nodes: Mapping[str, Node]
    pods: Mapping[str, Pod]
    vips: Mapping[str, Mapping[Family, str]]

    def of(self, address: IPAddress) -> str:
        """The owner of an address as text; empty for an unknown address."""
        for node in self.nodes.values():
            if address in node.addresses:
                return f"node {node.name}"
        for pod in self.pods.values():
            if any(parse_address(each) == address for each in pod.addresses.values()):
                return f"pod {pod.name}"
        for service, given in self.vips.items():
            if any(parse_address(each) == address for each in given.values()):
                return f"the load balancer of {service}"
        return ""


def addresses(found: Iterable[DiscoveredAddress]) -> dict[str, list[str]]:
    """The proven addresses by client, as the cluster sees them."""
    told: dict[str, list[str]] = {}
    for each in found:
        told.setdefault(each.client, []).extend([str(each.seen)] if each.seen is not None else [])
    return told


def at_vips(found: Iterable[DiscoveredAddress], vips: Iterable[Mapping[Family, str]]) -> dict[str, str]:
    """The facts for families in which the address seen by nodes proves nothing about VIPs: NAT may be on that route.

    No node is on the route to a VIP before the load balancer, and what pods see behind it is under test. So the two
    addresses decide whether both routes can be the same: a private address does not cross the internet unchanged, and
    a private network is not dialled from a public address.

    Args:
        found: by which addresses nodes see clients outside.
        vips: of the Services of the cluster's own load balancer.
    """
    given: dict[Family, set[IPAddress]] = {}
    for addresses in vips:
        for family, address in addresses.items():
            given.setdefault(family, set()).add(parse_address(address))
    told: dict[str, str] = {}
    for each in sorted(found, key=lambda each: each.client):
        seen = each.seen
        others = (vip for vip in given.get(each.family, ()) if seen is not None and vip.is_global != seen.is_global)
        vip = min(others, default=None, key=int)
        if vip is not None and seen is not None:
            ways = [f"{'public' if one.is_global else 'private'} {one}" for one in (seen, vip)]
            said = (
                f"nodes see {each.client} as the {ways[0]}, and the VIP is the {ways[1]}: the route to the VIP is "
                "another one, and a rewritten source may come from NAT on that route or from the load balancer"
            )
            told.setdefault(f"{AT_VIPS}{each.family.value.lower()}", said)
    return told


def behind_nat(found: Iterable[DiscoveredAddress], client: str) -> Mapping[IPAddress, IPAddress]:
    """The translated address of each of a client's own addresses behind NAT."""
    return {
        each.own: each.seen
        for each in found
        if each.client == client and each.finding is Finding.NAT and each.own is not None and each.seen is not None
    }


def _and(addresses: Iterable[IPAddress]) -> str:
    return " and ".join(sorted(map(str, addresses)))


def _nodes(nodes: Sequence[str]) -> str:
    return ("nodes " if len(nodes) > 1 else "node ") + " and ".join(nodes)
