"""Nodes that go on sending to pods of before: of a deleted Service, or from a socket that is in use."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager

from esipp.checks.check import Check, is_about
from esipp.checks.stream import Reuse
from esipp.judging.topology import family_of
from esipp.scenarios.service_change.subject import At, Claim, ServiceChange
from tests.broken.breakage import Break, Group, RunOptions
from tests.broken.forwarding import handed_on
from tests.broken.matching import AT_THE_NODE, hands_to, to_port
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
            for port, address, _, target in live.targets(live.service(f"changes-{event}")):
                if port["protocol"] == protocol:
                    yield from rules(port, address, target, nodes)

        return nodes.live(lambda live: list(made(live)))

    return apply


def lives_on(port: dict[str, int], address: str, target: int, nodes: Nodes) -> Iterator[Rule]:
    yield from handed_on(port, address, target, True, nodes.containers)


def goes_on(port: dict[str, int], address: str, target: int, nodes: Nodes) -> Iterator[Rule]:
    first, *others = handed_on(port, address, target, True, nodes.containers)
    words = (*to_port(port, port["nodePort"]), *AT_THE_NODE, *SEEN_BEFORE, *hands_to(address, target))
    yield Rule(family_of(address), first.chain, words, first.nodes)
    yield from others


def at_node_ports(
    event: str, *reuse: Reuse, protocol: str, claims: tuple[Claim, ...] = (Claim.SERVED, Claim.GONE)
) -> Callable[[Check], bool]:
    """Checks of streams to the nodePorts of an event's Service."""

    def notices(check: Check) -> bool:
        if not is_about(check, ServiceChange):
            return False
        subject = check.subject
        own = subject.event.name == event and subject.at is not At.CLUSTER_IP
        sent = subject.stream.reuse in reuse and subject.stream.protocol.value == protocol
        return own and sent and subject.claim in claims

    return notices


BREAKS = (
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
