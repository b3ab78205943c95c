"""Client address discovery: the address by which the nodes see each client outside the cluster, and its proof.

A container next to the nodes shows the address of its own interface. This machine, or a remote host, may be behind NAT
or a proxy; then only the other side sees its address. The data plane under test must not be the witness. So only the
listeners without a Service in between count: control listeners on the nodes' host network, and the echo servers of
clients that are beside the nodes. A listener must see the same address each time. An address that the client does not
hold itself counts only if two listeners see it, if nothing else holds it, and if the client has no public address of
its own. The user can give the address, too (``--outside machine=203.0.113.9``); listeners must not contradict it. A
client whose address is not proven in a family lacks the feature ``vantage.outside.<family>``: its checks are
unsupported there, and never fail. One that reaches no node lacks only ``vantage.outside.nodes.<family>``.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from esipp.base.client_places import BEHIND_NAT, BEHIND_ROUTER
from esipp.checks.check import AT_VIPS, NAT, OUTSIDE, ROUTED, TWO_ADDRESSES, Feature, of_nodes
from esipp.checks.model import Family, Outcome
from esipp.judging.observation import Observation
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
    GIVEN = "given"
    UNPROVEN = "unproven"


@dataclass(frozen=True)
class Answer:
    """One connection of a client to one listener.

    Args:
        node: the listener's node; or its client, if it is outside.
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
        own: the address of its sockets; ``seen``: the one that the nodes see; both None if nothing is proven. ``own``
            is also None for an address that the user gives, which is that of all its sockets.
        at_nodes: whether it reaches listeners on nodes.
    """

    client: str
    family: Family
    finding: Finding
    said: str
    own: IPAddress | None = None
    seen: IPAddress | None = None
    at_nodes: bool = True


def answers_of(node: str, made: Iterable[Observation]) -> list[Answer]:
    """The answers of a listener; other outcomes prove nothing."""
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
    client: str,
    family: Family,
    asked: Sequence[str],
    answers: Sequence[Answer],
    owner: Callable[[IPAddress], str],
    given: IPAddress | None = None,
) -> DiscoveredAddress:
    """Decide what the answers prove.

    Args:
        client: the client's name.
        family: of the dialled addresses.
        asked: the nodes whose listeners were dialled; answers of others are of listeners outside.
        answers: the listeners' answers, several for each.
        owner: returns the owner of an address ("node worker"), or an empty string for an unknown one.
        given: the address that the user gives, if any.
    """

    def unproven(said: str) -> DiscoveredAddress:
        return DiscoveredAddress(client, family, Finding.UNPROVEN, said)

    if not answers and given is not None and not (whose := owner(given)):
        said = f"{client} is seen as {given}, according to --outside: it reaches no listener that could see it"
        return DiscoveredAddress(client, family, Finding.GIVEN, said, None, given, at_nodes=False)
    if not asked and not answers:
        return unproven(f"no node has a control listener that {client} could dial over {family}")
    if not answers:
        return unproven(f"{client} reaches no control listener over {family} (dialled: {', '.join(asked)}): {CLOSED}")
    for each in answers:
        if each.claimed:
            return unproven(f"a proxy is between {client} and {_say(each.node, asked)}: it sends {each.claimed}")
    seen: dict[str, set[IPAddress]] = {}
    for each in answers:
        seen.setdefault(each.node, set()).add(each.seen)
    for name, addresses in seen.items():
        if len(addresses) > 1:
            return unproven(
                f"{_say(name, asked)} sees {client} with the addresses {_and(addresses)}: a proxy, or NAT with several "
                "addresses, is in between"
            )
    shown, views = {each.seen for each in answers}, {name: next(iter(addresses)) for name, addresses in seen.items()}
    if given is not None and shown != {given}:
        other, address = next((name, address) for name, address in views.items() if address != given)
        return unproven(f"--outside says that {client} is seen as {given}, but {_say(other, asked)} sees {address}")
    if len({each.own for each in answers}) > 1:
        return unproven(f"{client} dials from several addresses: {_and({a.own for a in answers})}")
    own, nodes = answers[0].own, [name for name in seen if name in asked]
    others = [name for name in seen if name not in asked]
    if shown == {own} and (nodes or len(others) > 1):
        where = _names(nodes, others)
        said = f"{client} reaches {where} with its own address {own}: nothing rewrites it on the way"
        return DiscoveredAddress(client, family, Finding.DIRECT, said, own, own, at_nodes=bool(nodes))
    for address in sorted(shown - {own}, key=str):
        if whose := owner(address):
            return unproven(f"{client} appears as {address}, the address of {whose}: something on the way rewrites it")
    if len(shown) > 1:
        by_whom = "; ".join(f"{_say(name, asked)} sees {address}" for name, address in views.items())
        return unproven(f"{client} (own address {own}) is seen with different addresses: {by_whom}")
    (address,) = shown
    if own.is_global and given is None:
        return unproven(f"{client} has the public address {own}, but appears as {address}: something rewrites it")
    if len(seen) < 2 and given is None:
        return unproven(
            f"{client} is behind NAT (own address {own}), and only {_say(next(iter(seen)), asked)} sees its translated "
            f"address {address}: one witness is no proof"
        )
    as_given = ", as --outside says" if given is not None else ""
    said = f"{client} is behind NAT: its own address is {own}, and {_names(nodes, others)} see {address}{as_given}"
    return DiscoveredAddress(client, family, Finding.NAT, said, own, address, at_nodes=bool(nodes))


def distinct_clients(found: Iterable[DiscoveredAddress]) -> list[DiscoveredAddress]:
    """If several clients share one address, only the first counts: the nodes cannot distinguish the others from it."""
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


FEATURES = {"outside-1": OUTSIDE, BEHIND_ROUTER: ROUTED, BEHIND_NAT: NAT}
"""The feature of a client's address, by name; all others have that of a second client."""


def features(found: Iterable[DiscoveredAddress]) -> dict[str, Feature]:
    """The features of the addresses of clients outside, and of their ways to nodes, by family.

    The clients behind a router and behind NAT are extras of esipp next to kind's nodes: without them a run is complete.
    """
    stated: dict[str, Feature] = {}

    def tell(name: str, each: DiscoveredAddress, *, present: bool) -> None:
        if name not in stated or stated[name].present:
            extra = each.client in (BEHIND_ROUTER, BEHIND_NAT)
            stated[name] = Feature(present, each.said, ours=not present and not extra)

    for each in found:
        vantage, family = FEATURES.get(each.client, TWO_ADDRESSES), each.family.value.lower()
        tell(f"{vantage}.{family}", each, present=each.finding is not Finding.UNPROVEN)
        if not each.at_nodes:
            tell(of_nodes(vantage, family), each, present=False)
    return stated


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
    proven: dict[str, list[str]] = {}
    for each in found:
        proven.setdefault(each.client, []).extend([str(each.seen)] if each.seen is not None else [])
    return proven


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
    doubts: dict[str, str] = {}
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
            doubts.setdefault(f"{AT_VIPS}{each.family.value.lower()}", said)
    return doubts


def behind_nat(
    found: Iterable[DiscoveredAddress], client: str, held: Iterable[IPAddress] = ()
) -> Mapping[IPAddress, IPAddress]:
    """The translated address of each of a client's own addresses behind NAT.

    Args:
        found: the discovered addresses.
        client: the client's name.
        held: all addresses that it holds: an address that the user gives is the translated one of each.
    """
    held = list(held)
    rewritten: dict[IPAddress, IPAddress] = {}
    for each in found:
        if each.client != client or each.seen is None:
            continue
        if each.finding is Finding.NAT and each.own is not None:
            rewritten[each.own] = each.seen
        if each.finding is Finding.GIVEN:
            rewritten |= {own: each.seen for own in held if own.version == each.seen.version}
    return rewritten


def _and(addresses: Iterable[IPAddress]) -> str:
    return " and ".join(sorted(map(str, addresses)))


def _say(name: str, nodes: Sequence[str]) -> str:
    """A listener in words: a node's, or that of a client outside."""
    return f"node {name}" if name in nodes else name


def _names(nodes: Sequence[str], others: Sequence[str]) -> str:
    named = [("nodes " if len(nodes) > 1 else "node ") + " and ".join(nodes)] if nodes else []
    return " and ".join([*named, *others])
