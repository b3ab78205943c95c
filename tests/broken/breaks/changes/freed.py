"""Nodes that go on sending to pods of before: of a deleted Service, or from a socket that is in use."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager

from esipp.checks.check import Check, is_about
from esipp.checks.model import Role
from esipp.checks.stream import Reuse
from esipp.judging.topology import family_of
from esipp.scenarios.service_change.subject import At, Claim, ServiceChange, service_of
from tests.broken.breakage import Break, Group, RunOptions
from tests.broken.controllers import keeping_addresses
from tests.broken.forwarding import handed_on
from tests.broken.matching import AT_THE_NODE, MASQUERADE, came_by, hands_to, to_port, vips
from tests.broken.nodes import Live, Nodes, Placed, Rule


def run_of(event: str) -> RunOptions:
    """The event, and one that must not notice."""
    return RunOptions(("changes",), (f"changes.{event}.", "changes.taken-over."))


SEEN_BEFORE = (
    *("--match", "hashlimit", "--hashlimit-above", "1/minute", "--hashlimit-burst", "1"),
    *("--hashlimit-mode", "srcip,srcport", "--hashlimit-htable-expire", "60000", "--hashlimit-name", "esipp-broken"),
)
"""Flows from an address and port that had another one within a minute: connection tracking has forgotten it since.
Without the time to expire, which is 10 s by default, the node forgets such a port while a Service has no endpoints."""


def at_ports_of(
    event: str, protocol: str, rules: Callable[[dict[str, int], str, int, Nodes], Iterator[Rule]]
) -> Callable[[Nodes], AbstractContextManager[Placed]]:
    """Rules for the nodePorts of an event's Service, with the addresses of its first pod."""

    def apply(nodes: Nodes) -> AbstractContextManager[Placed]:
        def made(live: Live) -> Iterator[Rule]:
            for port, address, _, target in live.targets(live.service(service_of(event))):
                if port["protocol"] == protocol:
                    yield from rules(port, address, target, nodes)

        return nodes.live(made)

    return apply


def lives_on(port: dict[str, int], address: str, target: int, nodes: Nodes) -> Iterator[Rule]:
    yield from handed_on(port, address, target, True, nodes.containers)


def goes_on(port: dict[str, int], address: str, target: int, nodes: Nodes) -> Iterator[Rule]:
    first, *others = handed_on(port, address, target, True, nodes.containers)
    words = (*to_port(port, port["nodePort"]), *AT_THE_NODE, *SEEN_BEFORE, *hands_to(address, target))
    yield Rule(family_of(address), first.chain, words, first.nodes)
    yield from others


def stays_at_its_node(port: dict[str, int], address: str, target: int, nodes: Nodes) -> Iterator[Rule]:
    yield from handed_on(port, address, target, True, (nodes.roles[Role.ENDPOINT_NODE],))


def of_the_node(nodes: Nodes) -> AbstractContextManager[Placed]:
    """Datagrams that pods send to ClusterIPs go on to the pod of before, on the endpoint node."""

    def made(live: Live) -> Iterator[Rule]:
        service = live.service(service_of("replaced-local"))
        for port, address, _, target in live.targets(service):
            for own in service["spec"]["clusterIPs"] if port["protocol"] == "UDP" else ():
                if family_of(own) is family_of(address):
                    words = (*to_port(port), "--destination", own, *SEEN_BEFORE, *hands_to(address, target))
                    yield Rule(family_of(own), "PREROUTING", words, (nodes.roles[Role.ENDPOINT_NODE],))

    return nodes.live(made)


def keeps_vips(event: str) -> Callable[[Nodes], AbstractContextManager[Placed]]:
    """What comes to a VIP goes to the first pod for ever: nodes that clients know as those of the VIP keep it."""

    def apply(nodes: Nodes) -> AbstractContextManager[Placed]:
        def made(live: Live) -> Iterator[Rule]:
            service = live.service(service_of(event))
            for port, address, _, target in live.targets(service):
                for vip in (each for each in vips(service) if family_of(each) is family_of(address)):
                    words = (*to_port(port), "--destination", vip, *hands_to(address, target))
                    yield Rule(family_of(vip), "PREROUTING", words)
                    yield Rule(family_of(vip), "POSTROUTING", (*came_by(port, port["port"], vip), *MASQUERADE))

        return nodes.live(made)

    return apply


def of_stream(event: str, *names: str, claims: tuple[Claim, ...], at: tuple[At, ...] = ()) -> Callable[[Check], bool]:
    """Checks of streams of these names during an event, at these entries or all."""

    def notices(check: Check) -> bool:
        if not is_about(check, ServiceChange):
            return False
        subject = check.subject
        own = subject.event.name == event and subject.stream.name in names and subject.claim in claims
        return own and (not at or subject.at in at)

    return notices


AT_NODES = (At.ENDPOINT_NODE, At.BARE_NODE)


def at_node_ports(
    event: str, *reuse: Reuse, protocol: str, claims: tuple[Claim, ...] = (Claim.SERVED, Claim.GONE)
) -> Callable[[Check], bool]:
    """Checks of streams to the nodePorts of an event's Service."""

    def notices(check: Check) -> bool:
        if not is_about(check, ServiceChange):
            return False
        subject = check.subject
        own = subject.event.name == event and subject.at.role is not None
        sent = subject.stream.reuse in reuse and subject.stream.protocol.value == protocol
        return own and sent and subject.claim in claims

    return notices


BREAKS = (
    Break(
        "deleted-node-port-of-udp-lives-on",
        Group.CHANGES,
        "nodes keep the rule of a deleted Service's nodePort, and send all datagrams to its pod",
        run_of("deleted"),
        at_ports_of("deleted", "UDP", lives_on),
        at_node_ports("deleted", Reuse.NEW, Reuse.ONE_SOCKET, Reuse.ONE_WAY, protocol="UDP"),
        names="keeps the rules of a deleted Service",
        at_once=False,
        scoped=True,
    ),
    Break(
        "deleted-node-port-lives-on",
        Group.CHANGES,
        "nodes keep the rule of a deleted Service's nodePort, and send TCP connections to its pod",
        run_of("deleted"),
        at_ports_of("deleted", "TCP", lives_on),
        at_node_ports("deleted", Reuse.NEW, protocol="TCP"),
        names="keeps the rules of a deleted Service",
        at_once=False,
        scoped=True,
        fixed=True,
    ),
    Break(
        "heir-gets-a-node-port-that-serves-the-pod-of-before",
        Group.CHANGES,
        "nodes keep the rule of a deleted Service's nodePort, also once another Service has that nodePort",
        RunOptions(("changes",), ("changes.taken-over.", "changes.replaced.")),
        at_ports_of("taken-over", "TCP", lives_on),
        at_node_ports("taken-over", Reuse.NEW, protocol="TCP"),
        names="keeps the rules of a deleted Service|does not follow a change",
        at_once=False,
        scoped=True,
    ),
    *(
        Break(
            f"node-port-of-a-retyped-{kind.lower()}-service-lives-on",
            Group.CHANGES,
            f"nodes go on serving the nodePort of a {kind} Service that became a ClusterIP Service, over TCP",
            run_of(event),
            at_ports_of(event, "TCP", lives_on),
            at_node_ports(event, Reuse.NEW, protocol="TCP", claims=(Claim.GONE,)),
            names="keeps the rules of a deleted Service",
            at_once=False,
            scoped=True,
        )
        for kind, event in (("NodePort", "retyped"), ("LoadBalancer", "retyped-otherwise"))
    ),
    Break(
        "sctp-goes-on-to-a-replaced-pod",
        Group.CHANGES,
        "nodes go on sending all that comes to an SCTP nodePort to the pod that was replaced",
        run_of("replaced"),
        at_ports_of("replaced", "SCTP", lives_on),
        of_stream("replaced", "sctp-new", claims=(Claim.SERVED, Claim.GONE)),
        names="keeps the rules of a deleted Service|does not follow a change",
        may=of_stream("replaced", "sctp-port", claims=(Claim.SERVED, Claim.GONE)),
        at_once=False,
        scoped=True,
    ),
    Break(
        "used-ports-go-on-to-a-replaced-pod",
        Group.CHANGES,
        "nodes send new connections from a source port that was used before to the pod that was replaced",
        run_of("replaced"),
        at_ports_of("replaced", "TCP", goes_on),
        of_stream("replaced", "tcp-port", claims=(Claim.SERVED, Claim.GONE), at=AT_NODES),
        names="connection tracking still",
        at_once=False,
        scoped=True,
    ),
    Break(
        "used-ports-go-on-to-the-node-of-before",
        Group.CHANGES,
        "nodes send new connections from a source port that was used before to the endpoint of before, on another node",
        run_of("moved"),
        at_ports_of("moved", "TCP", goes_on),
        of_stream("moved", "tcp-port", claims=(Claim.SERVED, Claim.GONE), at=AT_NODES),
        names="connection tracking still",
        at_once=False,
        scoped=True,
    ),
    Break(
        "socket-goes-on-to-the-node-of-before",
        Group.CHANGES,
        "nodes go on sending datagrams from a socket that is in use to the endpoint of before, on another node",
        run_of("moved"),
        at_ports_of("moved", "UDP", goes_on),
        at_node_ports("moved", Reuse.ONE_SOCKET, protocol="UDP"),
        names="connection tracking still",
        at_once=False,
        scoped=True,
    ),
    Break(
        "node-serves-the-endpoint-that-it-had",
        Group.CHANGES,
        "the node of a Local Service's only endpoint goes on sending TCP connections to it when the endpoint is on "
        "another node",
        run_of("moved-local"),
        at_ports_of("moved-local", "TCP", stays_at_its_node),
        of_stream("moved-local", "tcp-new", claims=(Claim.GONE,)),
        names="keeps the rules of a deleted Service|connection tracking still",
        at_once=False,
        scoped=True,
    ),
    Break(
        "pods-of-a-node-go-on-to-a-replaced-pod",
        Group.CHANGES,
        "the endpoint node sends datagrams of its pods from a socket in use to the pod that was replaced, under "
        "internalTrafficPolicy Local",
        run_of("replaced-local"),
        of_the_node,
        of_stream("replaced-local", "udp-socket", claims=(Claim.SERVED, Claim.GONE), at=(At.OWN_CLUSTER_IP,)),
        names="connection tracking still",
        at_once=False,
        scoped=True,
    ),
    Break(
        "vip-of-a-retyped-service-lives-on",
        Group.CHANGES,
        "nodes go on serving the VIP of a LoadBalancer that became a ClusterIP Service",
        run_of("vip-retyped"),
        keeps_vips("vip-retyped"),
        of_stream("vip-retyped", "tcp-new", claims=(Claim.GONE,)),
        names="keeps the rules of a deleted Service",
        at_once=False,
        scoped=True,
    ),
    Break(
        "addresses-taken-after-a-finalizer",
        Group.CHANGES,
        "after a finalizer delayed the deletion of a Service, its ClusterIPs stay allocated: no Service can get them",
        run_of("finalizer"),
        lambda nodes: keeping_addresses(nodes, service_of("finalizer")),
        of_stream("finalizer", "tcp-new", claims=(Claim.SERVED,)),
        names="ports and addresses were free",
        opens=of_stream("finalizer", "tcp-new", claims=(Claim.GONE,)),
        at_once=False,
    ),
    Break(
        "affinity-never-over",
        Group.CHANGES,
        "nodes go on sending a client's TCP connections to the pod that it reached first, long after its affinity's "
        "timeout",
        run_of("affinity-outlived"),
        at_ports_of("affinity-outlived", "TCP", lives_on),
        at_node_ports("affinity-outlived", Reuse.NEW, protocol="TCP", claims=(Claim.OUTLIVED,)),
        names="ignore timeoutSeconds",
        at_once=False,
        scoped=True,
    ),
    Break(
        "socket-goes-on-to-a-replaced-pod",
        Group.CHANGES,
        "nodes go on sending datagrams from a socket that is in use to the pod that was replaced",
        run_of("replaced"),
        at_ports_of("replaced", "UDP", goes_on),
        at_node_ports("replaced", Reuse.ONE_SOCKET, Reuse.ONE_WAY, protocol="UDP"),
        names="connection tracking still",
        at_once=False,
        scoped=True,
    ),
    Break(
        "socket-goes-on-after-no-endpoints",
        Group.CHANGES,
        "nodes send datagrams from a socket that was in use before a Service lost all its endpoints to the pod of "
        "before, also once it has another one",
        run_of("scaled-to-zero"),
        at_ports_of("scaled-to-zero", "UDP", goes_on),
        at_node_ports("scaled-to-zero", Reuse.ONE_SOCKET, Reuse.ONE_WAY, protocol="UDP", claims=(Claim.SERVED,)),
        names="connection tracking still",
        at_once=False,
        scoped=True,
    ),
)
