"""Faults that single connections do not show: first flows, lost SYNs, doubled datagrams, moved ports, late service."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager

from esipp.checks.check import Check, Profile, is_about
from esipp.checks.connections import Aspect, OnConnections
from esipp.checks.model import Family, Protocol
from esipp.judging.topology import family_of
from suites.clients import OUTSIDE_1
from tests.broken.breakage import Break, Group, RunOptions
from tests.broken.forwarding import forwarded
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
    return ("--match", "hashlimit", "--hashlimit-upto", "1/day", "--hashlimit-burst", str(number), *own)


def first_flows_rewritten(nodes: Nodes) -> AbstractContextManager[Placed]:
    """The first two flows of each client to each nodePort are masqueraded, at whichever node."""
    rules = []
    for family in Family:
        for protocol in ("tcp", "udp"):
            new = ("--protocol", protocol, *TO_A_NODE_PORT, "--match", "conntrack", "--ctstate", "NEW")
            mark = (*first(2, "srcip,dstport", f"first-{protocol}"), "--jump", "MARK", "--set-xmark", MARK)
            rules.append(Rule(family, "PREROUTING", (*new, *mark), table="mangle"))
        rules.append(Rule(family, "POSTROUTING", ("--match", "mark", "--mark", MARK, *MASQUERADE)))
    return nodes.rules(*rules)


def losing_syns(*to: str) -> Callable[[Nodes], AbstractContextManager[Placed]]:
    """Every node drops three in a hundred SYNs of these."""
    chance = ("--match", "statistic", "--mode", "random", "--probability", "0.03")

    def apply(nodes: Nodes) -> AbstractContextManager[Placed]:
        words = ("--protocol", "tcp", *to, "--syn", *chance, *DROP)
        return nodes.rules(*(Rule(family, "PREROUTING", words, table="mangle") for family in Family))

    return apply


def late_at_the_bare_node(nodes: Nodes) -> AbstractContextManager[Placed]:
    """The node without local endpoint drops the first SYN of each connection to a nodePort over IPv4."""
    syn = ("--protocol", "tcp", *TO_A_NODE_PORT, "--syn", *first(1, "srcip,srcport,dstport", "late"), *DROP)
    return nodes.rules(Rule(Family.IPV4, "PREROUTING", syn, (nodes.bare,), "mangle"))


def serving_late(nodes: Nodes) -> AbstractContextManager[Placed]:
    """The node without local endpoint forwards Local nodePort traffic from the fourth SYN on, after seven seconds."""

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
                        drop = (*to, *first(3, "srcip,srcport,dstport", name), *DROP)
                        yield Rule(family, "PREROUTING", drop, (nodes.bare,), "mangle")

    return nodes.live(lambda live: list(rules(live)))


def doubling(nodes: Nodes) -> AbstractContextManager[Placed]:
    """The pod's node sends datagrams that came to a nodePort of a Local Service twice to the pod.

    Of other Services the second one would have another source: it does not go through NAT again.
    """

    def rules(live: Live) -> Iterator[Rule]:
        for service in live.services:
            if service["spec"].get("externalTrafficPolicy") == "Local" and service["spec"]["type"] == "NodePort":
                for port, address, node, _ in live.targets(service):
                    if port["protocol"] == "UDP":
                        came = ("--destination", address, *came_by(port, port["nodePort"]))
                        words = (*came, "--jump", "TEE", "--gateway", address)
                        yield Rule(family_of(address), "POSTROUTING", words, (node,), "mangle")

    return nodes.live(lambda live: list(rules(live)))


def moving_ports(nodes: Nodes) -> AbstractContextManager[Placed]:
    """The nodes translate one client's source ports on the way to the pod, and keep its address."""

    def rules(live: Live) -> list[Rule]:
        own = grouped(filter(None, live.addresses_of(OUTSIDE_1.name)))
        found = []
        for family, addresses in own.items():
            for address in addresses:
                host = f"[{address}]" if family is Family.IPV6 else address
                words = ("--protocol", "tcp", "--source", address, "--destination", nodes.pod_cidrs[family])
                to = ("--jump", "SNAT", "--to-source", f"{host}:20000-60000", "--random-fully")
                found.append(Rule(family, "POSTROUTING", (*words, *to)))
        return found

    return nodes.live(rules)


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
) -> Break:
    run = RunOptions(RUN.suites, RUN.checks, samples=samples)
    return Break(name, Group.DELIVERY, what, run, apply, notices, names=names)


BREAKS = (
    _break(
        "first-flows-rewritten",
        "every node masquerades the first two flows of each client to each nodePort",
        first_flows_rewritten,
        of(Aspect.FIRST, Protocol.TCP, Protocol.UDP),
        "another way than those after them",
    ),
    _break(
        "three-in-a-hundred-syns-lost",
        "every node drops three in a hundred SYNs to nodePorts",
        losing_syns(*TO_A_NODE_PORT),
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
        "serves-after-seven-seconds",
        "the node without local endpoint forwards nodePort traffic of Local Services, but only after seven seconds",
        serving_late,
        of(Aspect.SILENCE, Protocol.TCP),
        "answers after seconds",
    ),
    _break(
        "datagrams-doubled",
        "the endpoint node sends datagrams that came to a nodePort of a Local Service twice to the pod",
        doubling,
        of(Aspect.COPIES, Protocol.UDP),
        "doubled on the way",
    ),
    _break(
        "source-ports-moved",
        "every node translates the source ports of one client outside over TCP, and keeps its address",
        moving_ports,
        of(Aspect.PORTS, Protocol.TCP),
        "from outside-1: ",
    ),
    Break(
        "network-loses-three-in-a-hundred-syns",
        Group.HARMLESS,
        "every node drops three in a hundred of all SYNs that come to it, whether to a Service or not",
        RunOptions(RUN.suites, RUN.checks, samples=200),
        losing_syns(),
        lambda _: False,
    ),
)
