"""Broken data planes: how each is made, and which rows must notice; none other may."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass

from esipp.model import AddressClass, Backends, Cell, Client, EntryKind, Family, Protocol, Role, TrafficPolicy, Vantage
from esipp.topology import family_of
from tests.broken.nodes import Live, Nodes, Placed, Rule

CLIENT, NODE = frozenset({AddressClass.CLIENT}), frozenset({AddressClass.NODE})
PROXY = frozenset({AddressClass.LOAD_BALANCER})


@dataclass(frozen=True)
class Break:
    """One way to break a cluster.

    Args:
        name: for people and for ``ci/test --broken NAME``.
        apply: breaks the nodes for as long as its context lasts.
        notices: whether a row must notice.
        status: what such a row must say.
        samples: connections a path, where the break is rare.
        by_hand: much like another one, and not in every run of these tests.
        share: of the rows that must notice, how many surely do; less than all only where chance decides.
    """

    name: str
    apply: Callable[[Nodes], AbstractContextManager[Placed]]
    notices: Callable[[Cell], bool]
    status: str = "fail"
    samples: int = 20
    share: float = 1.0
    by_hand: bool = False


def changed_into_pod_network(cell: Cell) -> bool:
    """Rows of clients that are no pods, and whose packets enter the pod network from another node.

    Those that are not masqueraded before then are not seen as themselves any more; and a host process on the endpoint's
    node whose packets come back masqueraded by another node is seen as its own node again.
    """
    path = cell.path
    elsewhere = path.client.vantage is Vantage.OUTSIDE or path.client.role is Role.OTHER_NODE
    backends = path.service.backends if path.service else Backends.POD
    into_pods = backends is not Backends.HOST_NETWORK
    if cell.accept == PROXY:  # whoever dials: the proxy does, from outside
        return into_pods
    comes_back = cell.accept == NODE and path.client.role is Role.ENDPOINT_NODE
    noticed = (cell.accept == CLIENT and elsewhere) or comes_back
    return noticed and path.client.vantage is not Vantage.POD and into_pods


def masquerading(
    *more: str, families: tuple[Family, ...] = tuple(Family)
) -> Callable[[Nodes], AbstractContextManager[Placed]]:
    """What enters the pod network from outside it is masqueraded, on every node."""

    def apply(nodes: Nodes) -> AbstractContextManager[Placed]:
        cidrs = {family: cidr for family, cidr in nodes.pod_cidrs.items() if family in families}
        return nodes.rules(
            *(
                Rule(
                    family, "POSTROUTING", ("--destination", cidr, "!", "--source", cidr, *more, "--jump", "MASQUERADE")
                )
                for family, cidr in cidrs.items()
            )
        )

    return apply


def masquerading_one_client(nodes: Nodes) -> AbstractContextManager[Placed]:
    """Only what comes from the first client outside is masqueraded."""

    def rules(live: Live) -> list[Rule]:
        found = []
        for address in live.addresses_of("outside-1"):
            family = family_of(address)
            words = ("--source", address, "--destination", nodes.pod_cidrs[family], "--jump", "MASQUERADE")
            found.append(Rule(family, "POSTROUTING", words))
        return found

    return nodes.live(rules)


def masquerading_cluster_ips(nodes: Nodes) -> AbstractContextManager[Placed]:
    """Every connection to a ClusterIP is masqueraded, as kube-proxy's masqueradeAll does."""
    return nodes.rules(
        *(
            Rule(family, "POSTROUTING", ("--match", "conntrack", "--ctorigdst", cidr, "--jump", "MASQUERADE"))
            for family, cidr in nodes.service_cidrs.items()
        )
    )


def leaking_internal_policy(nodes: Nodes) -> AbstractContextManager[Placed]:
    """Nodes without an endpoint hand traffic to ClusterIPs under internalTrafficPolicy Local on to the one that has."""

    def rules(live: Live) -> list[Rule]:
        found = []
        for service in live.services:
            if service["spec"].get("internalTrafficPolicy") != "Local":
                continue
            for port, address, home, target in live.targets(service):
                family = family_of(address)
                own = [ip for ip in service["spec"]["clusterIPs"] if family_of(ip) is family]
                words = ("--destination", *own, *_matches(port), *_hands_to(address, target))
                others = tuple(node for node in nodes.containers if node != home)
                found += [Rule(family, chain, words, others) for chain in ("PREROUTING", "OUTPUT") if own]
        return found

    return nodes.live(rules)


def forwarding_bare_node(*, masquerade: bool) -> Callable[[Nodes], AbstractContextManager[Placed]]:
    """The bare node hands traffic to Local nodePorts on to the node with the endpoint, with or without rewriting."""

    def apply(nodes: Nodes) -> AbstractContextManager[Placed]:
        def rules(live: Live) -> list[Rule]:
            return [rule for service in live.services for rule in forwarded(nodes, live, service, masquerade)]

        return nodes.live(rules)

    return apply


def forwarded(nodes: Nodes, live: Live, service: dict[str, object], masquerade: bool) -> Iterator[Rule]:
    """The rules by which the bare node hands a Local service's nodePorts on."""
    spec: dict[str, object] = service["spec"]  # type: ignore[assignment]
    if spec.get("externalTrafficPolicy") != "Local" or spec["type"] == "ClusterIP":
        return
    families = spec["ipFamilies"]
    for port, address, _, target in live.targets(service):
        family, node_port = family_of(address), str(port["nodePort"])
        if family.value not in families:  # type: ignore[operator]
            continue
        local = ("--match", "addrtype", "--dst-type", "LOCAL")
        words = (*_matches(port, node_port), *local, *_hands_to(address, target))
        yield Rule(family, "PREROUTING", words, (nodes.bare,))
        if masquerade:
            back = ("--match", "conntrack", "--ctorigdstport", node_port, "--jump", "MASQUERADE")
            yield Rule(family, "POSTROUTING", ("--protocol", port["protocol"].lower(), *back), (nodes.bare,))


def _matches(port: dict[str, object], number: str = "") -> tuple[str, ...]:
    return ("--protocol", str(port["protocol"]).lower(), "--dport", number or str(port["port"]))


def _hands_to(address: str, port: int) -> tuple[str, ...]:
    host = f"[{address}]" if ":" in address else address
    return ("--jump", "DNAT", "--to-destination", f"{host}:{port}")


def _refused_at_bare_node(cell: Cell) -> bool:
    """Rows that claim silence at a bare node's nodePort."""
    kinds = (EntryKind.NODE_PORT, EntryKind.SECOND_ADDRESS)
    return cell.is_negative and cell.path.entry.kind in kinds and cell.path.entry.role is Role.BARE_NODE


def _stays_on_the_node(cell: Cell) -> bool:
    """Whether the packets go to a process of the client's own node, past POSTROUTING."""
    service = cell.path.service
    host_network = service is not None and service.backends is Backends.HOST_NETWORK
    return host_network and cell.path.client.role is Role.ENDPOINT_NODE


def _of(client: Client, name: str) -> bool:
    return client.name == name


BREAKS = (
    Break("source-rewritten", masquerading(), changed_into_pod_network, by_hand=True),
    Break(
        "source-rewritten-ipv6-only",
        masquerading(families=(Family.IPV6,)),
        lambda cell: changed_into_pod_network(cell) and cell.path.family is Family.IPV6,
        by_hand=True,
    ),
    Break(
        "source-rewritten-udp-only",
        masquerading("--protocol", "udp"),
        lambda cell: changed_into_pod_network(cell) and cell.path.protocol is Protocol.UDP,
        by_hand=True,
    ),
    Break(
        "source-rewritten-one-in-fifty",
        masquerading("--match", "statistic", "--mode", "nth", "--every", "50", "--packet", "0"),
        lambda cell: changed_into_pod_network(cell) and not cell.path.one_socket,
        "flaky",
        samples=200,
        share=0.95,
        by_hand=True,
    ),
    Break(
        "source-rewritten-one-client",
        masquerading_one_client,
        lambda cell: changed_into_pod_network(cell) and cell.accept != PROXY and _of(cell.path.client, "outside-1"),
    ),
    Break(
        "clusterip-masqueraded",
        masquerading_cluster_ips,
        lambda cell: (
            cell.accept == CLIENT
            and cell.path.client.vantage is Vantage.POD
            and cell.path.entry.kind is EntryKind.CLUSTER_IP
            and not _stays_on_the_node(cell)
        ),
        by_hand=True,
    ),
    Break(
        "internal-policy-leaks",
        leaking_internal_policy,
        lambda cell: (
            cell.is_negative
            and cell.path.entry.kind is EntryKind.CLUSTER_IP
            and cell.path.service is not None
            and cell.path.service.internal is TrafficPolicy.LOCAL
        ),
        by_hand=True,
    ),
    Break("bare-node-forwards", forwarding_bare_node(masquerade=True), _refused_at_bare_node, by_hand=True),
    Break(
        "bare-node-forwards-unmasqueraded",  # silent to the client: only packets tell. Of pods it is known anyway
        forwarding_bare_node(masquerade=False),
        lambda cell: _refused_at_bare_node(cell) and cell.path.client.vantage is not Vantage.POD,
        by_hand=True,
    ),
)
