"""By which address the cluster sees a client outside, and who vouches for that.

A container beside the nodes shows the address of its own interface. This machine, or a host far away, may stand behind
NAT or a proxy, and then only the other side can tell its address. What is under test must not be who tells: so nobody
is asked but the reference listeners, which stand on the nodes' own network with no Service in the way; one that is
asked twice must see the same; and an address that the client does not itself hold is believed only if two nodes tell
it, if it is nobody else's, and if the client has no public address of its own. A client that is not believed in some
family lacks the feature ``vantage.outside.<family>``: its rows are unsupported there, and never failed.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from esipp.checks.check import AT_VIPS, OUTSIDE, TWO_ADDRESSES, Feature
from esipp.checks.model import Family
from esipp.checks.observation import Observation, Outcome
from esipp.judging.topology import IPAddress, Node, Pod, parse_address

CLOSED = (
    "listeners have TCP ports that the node's kernel chose (net.ipv4.ip_local_port_range), so a firewall that admits "
    "nodePorts only hides them; open the nodes' TCP ports 32768-60999 to this client for the run"
)
"""Why a listener may be silent although nodePorts are reached, and what to do."""


class Finding(StrEnum):
    """What stands between a client and the nodes."""

    DIRECT = "direct"
    NAT = "nat"
    UNPROVEN = "unproven"


@dataclass(frozen=True)
class Answer:
    """What one reference listener saw of a client in one connection.

    Args:
        node: whose listener it was.
        own: the address of the client's socket.
        seen: the one that the listener saw.
        claimed: what a header in front of the connection claimed, which only a proxy on the way writes; else empty.
    """

    node: str
    own: IPAddress
    seen: IPAddress
    claimed: str = ""


@dataclass(frozen=True)
class Whereabouts:
    """By which address the nodes see a client in one family.

    Args:
        client: its name.
        family: of the addresses.
        finding: what stands between.
        said: that, and who vouches for it, in a sentence.
        own: the address of its sockets; ``seen``: the one that is seen; both None where nothing is proven.
    """

    client: str
    family: Family
    finding: Finding
    said: str
    own: IPAddress | None = None
    seen: IPAddress | None = None


def answers_of(node: str, made: Iterable[Observation]) -> list[Answer]:
    """What a node's reference listener told; other outcomes tell nothing."""
    found = []
    for each in made:
        if each.outcome is Outcome.ANSWERED and each.source and each.seen:
            header = (each.echo or {}).get("proxy_protocol")
            claimed = f"a PROXY protocol header naming {header.get('source_address') or 'nobody'}" if header else ""
            claimed = claimed or ", ".join(
                f"X-Forwarded-For: {x}" for x in (each.echo or {}).get("x_forwarded_for") or ()
            )
            found.append(Answer(node, parse_address(each.source[0]), parse_address(each.seen[0]), claimed))
    return found


def find(
    client: str, family: Family, asked: Sequence[str], answers: Sequence[Answer], owner: Callable[[IPAddress], str]
) -> Whereabouts:
    """Decide what the answers prove.

    Args:
        client: whose.
        family: of the addresses that were dialled.
        asked: the nodes whose listeners were dialled.
        answers: theirs, several a node.
        owner: says whose an address is ("node worker"), or nothing where it is nobody's that we know.
    """

    def unproven(said: str) -> Whereabouts:
        return Whereabouts(client, family, Finding.UNPROVEN, said)

    if not asked:
        return unproven(f"no node has a reference listener that {client} could ask over {family}")
    if not answers:
        return unproven(f"{client} reaches no reference listener over {family} (asked: {', '.join(asked)}): {CLOSED}")
    for each in answers:
        if each.claimed:
            return unproven(f"a proxy stands between {client} and node {each.node}: it sends {each.claimed}")
    seen: dict[str, set[IPAddress]] = {}
    for each in answers:
        seen.setdefault(each.node, set()).add(each.seen)
    for node, addresses in seen.items():
        if len(addresses) > 1:
            return unproven(
                f"node {node} sees {client} by {_and(addresses)} when asked twice: a proxy, or NAT with several "
                "addresses, is in the way"
            )
    if len({each.own for each in answers}) > 1:
        return unproven(f"{client} has several addresses on its ways to the nodes: {_and({a.own for a in answers})}")
    own, shown = answers[0].own, {each.seen for each in answers}
    nodes = list(seen)
    if shown == {own}:
        said = f"{client} is seen by its own address {own} ({_nodes(nodes)}): nothing rewrites it on the way"
        return Whereabouts(client, family, Finding.DIRECT, said, own, own)
    for address in sorted(shown - {own}, key=str):
        if whose := owner(address):
            return unproven(f"{client} is seen by {address}, the address of {whose}: something rewrites it on the way")
    if len(shown) > 1:
        views = "; ".join(f"node {node} sees {_and(addresses)}" for node, addresses in seen.items())
        return unproven(f"the nodes do not agree on the address of {client}, whose own is {own}: {views}")
    (address,) = shown
    if own.is_global:
        return unproven(f"{client} has the public address {own}, but is seen by {address}: something rewrites it")
    if len(nodes) < 2:
        return unproven(
            f"{client} stands behind NAT (own address {own}), and only node {nodes[0]} tells its other address, "
            f"{address}: one word is no proof"
        )
    said = f"{client} stands behind NAT: its own address is {own}, {_nodes(nodes)} see {address}"
    return Whereabouts(client, family, Finding.NAT, said, own, address)


def told_apart(found: Iterable[Whereabouts]) -> list[Whereabouts]:
    """Of clients that are seen by the same address only the first keeps it: the other is no second client."""
    holders: dict[IPAddress, str] = {}
    kept = []
    for each in sorted(found, key=lambda each: (each.client, each.family)):
        first = holders.setdefault(each.seen, each.client) if each.seen else each.client
        if first != each.client:
            said = f"{each.client} and {first} are both seen by {each.seen}: for the nodes they are one client"
            kept.append(Whereabouts(each.client, each.family, Finding.UNPROVEN, said))
        else:
            kept.append(each)
    return kept


def features(found: Iterable[Whereabouts]) -> dict[str, Feature]:
    """What checks may need of clients outside, by family: the first one, and another that is told apart from it."""
    told: dict[str, Feature] = {}
    for each in found:
        first = each.client == "outside-1"
        name = f"{OUTSIDE if first else TWO_ADDRESSES}.{each.family.value.lower()}"
        proven = each.finding is not Finding.UNPROVEN
        if name not in told or told[name].present:
            told[name] = Feature(proven, each.said, ours=not proven)
    return told


def checked(found: Iterable[Whereabouts], owner: Callable[[IPAddress], str]) -> list[Whereabouts]:
    """What was found, once more: nodes have addresses, and Services VIPs, that are known only later."""
    kept = []
    for each in found:
        whose = owner(each.seen) if each.seen is not None else ""
        said = f"{each.client} is seen by {each.seen}, which is the address of {whose}, too"
        kept.append(Whereabouts(each.client, each.family, Finding.UNPROVEN, said) if whose else each)
    return kept


@dataclass(frozen=True)
class Owners:
    """Whose an address is, of nodes, our pods and VIPs by service, as far as they are known."""

    nodes: Mapping[str, Node]
    pods: Mapping[str, Pod]
    vips: Mapping[str, Mapping[Family, str]]

    def of(self, address: IPAddress) -> str:
        """Its owner in words; nothing where it is nobody's that we know."""
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


def addresses(found: Iterable[Whereabouts]) -> dict[str, list[str]]:
    """The proven addresses by client, as the cluster sees them."""
    told: dict[str, list[str]] = {}
    for each in found:
        told.setdefault(each.client, []).extend([str(each.seen)] if each.seen is not None else [])
    return told


def at_vips(found: Iterable[Whereabouts], vips: Iterable[Mapping[Family, str]]) -> dict[str, str]:
    """The facts that say where the nodes' word proves nothing of VIPs: another way leads there, where NAT may be.

    No node is on that way before the load balancer, and what pods see behind it is what is under test. So it is asked
    whether one way can be the other: a private address does not come through the internet as it is, and a public one is
    not what a private network is dialled by.

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
                f"nodes see {each.client} by the {ways[0]}, and the VIP is the {ways[1]}: another way leads there, and "
                "whether NAT on it or the load balancer rewrites the source cannot be told"
            )
            told.setdefault(f"{AT_VIPS}{each.family.value.lower()}", said)
    return told


def behind_nat(found: Iterable[Whereabouts], client: str) -> Mapping[IPAddress, IPAddress]:
    """What NAT makes of a client's own addresses."""
    return {
        each.own: each.seen
        for each in found
        if each.client == client and each.finding is Finding.NAT and each.own is not None and each.seen is not None
    }


def _and(addresses: Iterable[IPAddress]) -> str:
    return " and ".join(sorted(map(str, addresses)))


def _nodes(nodes: Sequence[str]) -> str:
    return ("nodes " if len(nodes) > 1 else "node ") + " and ".join(nodes)
