"""Faults that single connections do not show: first flows, lost SYNs and data, doubled datagrams, moved ports."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager

from esipp.checks.check import Check, Profile, is_about
from esipp.checks.connections import Aspect, OnConnections
from esipp.checks.model import Family, Protocol
from esipp.judging.topology import family_of
from suites.clients import OUTSIDE_1, OUTSIDE_2
from tests.broken.breakage import Break, Group, RunOptions, no_check, path_checks
from tests.broken.forwarding import forwarded, refused_at_bare_node
from tests.broken.masquerading import grouped
from tests.broken.matching import AT_THE_NODE, DROP, MASQUERADE, came_by
from tests.broken.nodes import Live, Nodes, Placed, Rule

NODE_PORTS = "30000:32767"
TO_A_NODE_PORT = ("--dport", NODE_PORTS, *AT_THE_NODE)
MARK = "0x4000000/0x4000000"
"""The bit of a packet's mark by which the node knows what it rewrites."""

RUN = RunOptions(("source_ip",), ("nodeport.local.", "nodeport.cluster.", "connections.nodeport."))


def first(number: int, what: str, name: str) -> tuple[str, ...]:
    """The first packets of each such thing."""
    own = ("--hashlimit-mode", what, "--hashlimit-name", name, "--hashlimit-htable-expire", "900000")
    return ("--match", "hashlimit", "--hashlimit-upto", "1/hour", "--hashlimit-burst", str(number), *own)


def first_flows_rewritten(nodes: Nodes, *where: str) -> AbstractContextManager[Placed]:
    """The first two flows of each client to each nodePort are masqueraded, at whichever node, or at these."""
    rules = []
    for family in Family:
        for protocol in ("tcp", "udp"):
            new = ("--protocol", protocol, *TO_A_NODE_PORT, "--match", "conntrack", "--ctstate", "NEW")
            mark = (*first(2, "srcip,dstport", f"first-{protocol}"), "--jump", "MARK", "--set-xmark", MARK)
            rules.append(Rule(family, "PREROUTING", (*new, *mark), where, "mangle"))
        rules.append(Rule(family, "POSTROUTING", ("--match", "mark", "--mark", MARK, *MASQUERADE), where))
    return nodes.rules(*rules)


def addresses_outside(live: Live) -> dict[Family, list[str]]:
    """The addresses of both clients outside."""
    return grouped(address for each in (OUTSIDE_1, OUTSIDE_2) for address in live.addresses_of(each.name) if address)


LOSE = ("--syn", "--match", "statistic", "--mode", "random", "--probability", "0.03", *DROP)
"""Three in a hundred SYNs."""


def losing_syns(nodes: Nodes) -> AbstractContextManager[Placed]:
    """Every node drops some SYNs to nodePorts."""
    words = ("--protocol", "tcp", *TO_A_NODE_PORT, *LOSE)
    return nodes.rules(*(Rule(family, "PREROUTING", words, table="mangle") for family in Family))


def losing_of_clients(nodes: Nodes, lose: tuple[str, ...]) -> AbstractContextManager[Placed]:
    """Every node drops such segments of clients outside, whatever they dial."""

    def rules(live: Live) -> list[Rule]:
        return [
            Rule(family, "PREROUTING", ("--protocol", "tcp", "--source", address, *lose), table="mangle")
            for family, addresses in addresses_outside(live).items()
            for address in addresses
        ]

    return nodes.live(rules)


LOSE_DATA = ("--tcp-flags", "PSH", "PSH", *first(4, "srcip,srcport,dstport", "data"), *DROP)
"""The first segment with data of each connection, and three repetitions. Linux sends it again after 0.2, 0.4, 0.8 and
1.6 s, so answers take 1.7 s."""


def losing_data_at_the_bare_node(nodes: Nodes) -> AbstractContextManager[Placed]:
    """The node without local endpoint accepts connections to nodePorts, and drops their first data."""
    words = ("--protocol", "tcp", *TO_A_NODE_PORT, *LOSE_DATA)
    return nodes.rules(*(Rule(family, "PREROUTING", words, (nodes.bare,), "mangle") for family in Family))


def late_at_the_bare_node(nodes: Nodes) -> AbstractContextManager[Placed]:
    """The node without local endpoint drops the first SYN of each connection to a nodePort over IPv4."""
    syn = ("--protocol", "tcp", *TO_A_NODE_PORT, "--syn", *first(1, "srcip,srcport,dstport", "late"), *DROP)
    return nodes.rules(Rule(Family.IPV4, "PREROUTING", syn, (nodes.bare,), "mangle"))


def serving_late(nodes: Nodes) -> AbstractContextManager[Placed]:
    """The node without local endpoint forwards Local nodePort traffic from the sixth SYN on.

    Linux since 6.5 sends its SYN again after one, two, three, four, five and seven seconds: the sixth comes after
    five.
    """

    def rules(live: Live) -> Iterator[Rule]:
        for service in live.services:
            spec = service["spec"]
            for rule in forwarded(nodes, live, service, masquerade=True):
                if "tcp" in rule.words:
                    yield rule
            if spec.get("externalTrafficPolicy") == "Local" and spec["type"] != "ClusterIP":
                for port in (each["nodePort"] for each in spec["ports"] if each["protocol"] == "TCP"):
                    to = ("--protocol", "tcp", "--dport", str(port), *AT_THE_NODE, "--syn")
                    name = f"{service['metadata']['name']}-{port}"[-15:]
                    for family in Family:
                        drop = (*to, *first(5, "srcip,srcport,dstport", name), *DROP)
                        yield Rule(family, "PREROUTING", drop, (nodes.bare,), "mangle")

    return nodes.live(rules)


def to_local_node_ports(live: Live, protocol: str, most: int) -> Iterator[tuple[Family, str, str, tuple[str, ...]]]:
    """Family, pod's address and node, and the match for what came to the pod by a nodePort of a Local Service.

    There the pod's node is the one that is dialled, and no other NAT changes the source. ``most`` pods of each Service.
    """
    for service in live.services:
        if service["spec"].get("externalTrafficPolicy") == "Local" and service["spec"]["type"] == "NodePort":
            for port, address, node, _ in live.targets(service, most):
                if port["protocol"] == protocol:
                    words = ("--destination", address, *came_by(port, port["nodePort"]))
                    yield family_of(address), address, node, words


def doubled(live: Live, most: int = 1) -> Iterator[Rule]:
    """The pod's node sends datagrams of clients outside to a nodePort of a Local Service twice to the pod."""
    own = addresses_outside(live)
    for family, address, node, came in to_local_node_ports(live, "UDP", most):
        for source in own[family]:
            words = ("--source", source, *came, "--jump", "TEE", "--gateway", address)
            yield Rule(family, "POSTROUTING", words, (node,), "mangle")


def moved_ports(live: Live, most: int = 1) -> Iterator[Rule]:
    """The pod's node translates the source ports of clients outside to nodePorts of Local Services."""
    own = addresses_outside(live)
    for family, _, node, came in to_local_node_ports(live, "TCP", most):
        for source in own[family]:
            host = f"[{source}]" if family is Family.IPV6 else source
            to = ("--jump", "SNAT", "--to-source", f"{host}:20000-60000", "--random-fully")
            yield Rule(family, "POSTROUTING", ("--source", source, *came, *to), (node,))


def of(aspect: Aspect, *protocols: Protocol, families: tuple[Family, ...] = tuple(Family)) -> Callable[[Check], bool]:
    """The checks of an aspect of connections to nodePorts."""

    def notices(check: Check) -> bool:
        if not is_about(check, OnConnections):
            return False
        subject = check.subject
        there = subject.kind is Profile.NODE_PORT and subject.protocol in protocols and subject.family in families
        return there and subject.aspect is aspect

    return notices


def _break(
    name: str,
    what: str,
    apply: Callable[[Nodes], AbstractContextManager[Placed]],
    notices: Callable[[Check], bool],
    names: str,
    *,
    samples: int = 20,
    may: Callable[[Check], bool] = no_check,
) -> Break:
    run = RunOptions(RUN.suites, RUN.checks, samples=samples)
    return Break(name, Group.DELIVERY, what, run, apply, notices, names=names, may=may)


BREAKS = (
    _break(
        "first-flows-rewritten",
        "every node masquerades the first two flows of each client to each nodePort",
        first_flows_rewritten,
        of(Aspect.FIRST, Protocol.TCP, Protocol.UDP),
        "another way than those after them",
        may=path_checks(
            refused_at_bare_node
        ),  # those of pods are known to be forwarded, and first ones are masqueraded
    ),
    _break(
        "three-in-a-hundred-syns-lost",
        "every node drops three in a hundred SYNs to nodePorts",
        losing_syns,
        of(Aspect.LATE, Protocol.TCP),
        "lost and sent again",
        samples=200,
    ),
    _break(
        "late-at-one-node",
        "the node without local endpoint drops the first SYN of each connection to a nodePort over IPv4",
        late_at_the_bare_node,
        of(Aspect.LATE, Protocol.TCP, families=(Family.IPV4,)),
        "at bare-node: ",
    ),
    _break(
        "first-data-lost-at-one-node",
        "the node without local endpoint accepts connections to nodePorts at once, and drops their first data",
        losing_data_at_the_bare_node,
        of(Aspect.LATE_AFTER_ACCEPT, Protocol.TCP),
        "bare-node: ",
    ),
    _break(
        "serves-after-six-seconds",
        "the node without local endpoint forwards nodePort traffic of Local Services, but only after five seconds",
        serving_late,
        of(Aspect.SILENCE, Protocol.TCP),
        "answers after seconds",
        may=path_checks(refused_at_bare_node),  # those of pods are known to be forwarded, and these are dropped, too
    ),
    _break(
        "datagrams-doubled",
        "the endpoint node sends datagrams of clients outside to nodePorts of Local Services twice to the pod",
        lambda nodes: nodes.live(doubled),
        of(Aspect.COPIES, Protocol.UDP),
        "duplicated on the way",
    ),
    _break(
        "source-ports-moved",
        "the endpoint node translates source ports of clients outside at nodePorts of Local Services over TCP",
        lambda nodes: nodes.live(moved_ports),
        of(Aspect.PORTS, Protocol.TCP),
        "translates the source port although it keeps the address",
    ),
    Break(
        "network-loses-three-in-a-hundred-syns",
        Group.HARMLESS,
        "every node drops three in a hundred of all SYNs of clients outside, whether to a Service or not",
        RunOptions(RUN.suites, RUN.checks, samples=200),
        lambda nodes: losing_of_clients(nodes, LOSE),
        lambda _: False,
    ),
    Break(
        "network-loses-first-data",
        Group.HARMLESS,
        "every node drops the first data of all TCP connections of clients outside, whether to a Service or not",
        RUN,
        lambda nodes: losing_of_clients(nodes, LOSE_DATA),
        lambda _: False,
    ),
)
