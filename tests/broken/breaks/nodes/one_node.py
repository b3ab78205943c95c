"""One node is wrong, or one of its addresses, or the share of an endpoint; all others are right."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from itertools import product

from esipp.base.json import Json
from esipp.checks.check import Check, is_about
from esipp.checks.model import Family, Protocol, Role, TrafficPolicy
from esipp.checks.profile import PROXY_PORT
from esipp.judging.topology import family_of
from esipp.scenarios.every_node.evidence import CLUSTER, HEALTH, LOCAL, SOME, vip_service
from esipp.scenarios.every_node.objects import EVERY_LABEL, HIGHEST
from esipp.scenarios.every_node.subject import FURTHER, Entrance, EveryNode, Requires
from tests.broken.breakage import Break, Group, RunOptions, no_check
from tests.broken.breaks.delivery.connections import doubled, first, first_flows_rewritten, moved_ports
from tests.broken.forwarding import external_addresses, handed_on, internal_addresses, second_addresses
from tests.broken.health_proxies import health_ports, lying
from tests.broken.lost import node_port_dropped
from tests.broken.masquerading import pod_addresses
from tests.broken.matching import AT_THE_NODE, DROP, MASQUERADE, came_by, hands_to, to_port
from tests.broken.nodes import Live, Nodes, Placed, Rule

SUITE = RunOptions(("nodes",))
SERVICES = (CLUSTER, LOCAL, SOME)
REFUSED = {"TCP": ("--jump", "REJECT", "--reject-with", "tcp-reset"), "UDP": ("--jump", "REJECT")}
ALL = tuple(Family)

Making = Callable[[Nodes, Live], Iterator[Rule]]
Addresses = Callable[[Nodes, str], Mapping[Family, str]]
"""Addresses of a node, by its name."""


def _live(make: Making) -> Callable[[Nodes], AbstractContextManager[Placed]]:
    return lambda nodes: nodes.live(lambda live: make(nodes, live))


def _about(
    *entrances: Entrance,
    requires: Requires,
    protocols: tuple[Protocol, ...] = (),
    policy: TrafficPolicy | None = None,
    families: tuple[Family, ...] = ALL,
) -> Callable[[Check], bool]:
    """Checks of these entrances that require this, of these protocols, this policy and these families, or of all."""

    def notices(check: Check) -> bool:
        if not is_about(check, EveryNode) or check.subject.requires is not requires:
            return False
        fits = (not protocols or check.subject.protocol in protocols) and check.subject.family in families
        return check.subject.entrance in entrances and fits and policy in (None, check.subject.policy)

    return notices


def _any(*those: Callable[[Check], bool]) -> Callable[[Check], bool]:
    return lambda check: any(each(check) for each in those)


def _ports(live: Live, *names: str) -> Iterator[Json]:
    for name in names:
        for port in live.service(name)["spec"]["ports"]:
            if port["port"] == 80:
                yield port


def _control_plane(nodes: Nodes) -> tuple[str, ...]:
    return tuple(node for node in nodes.containers if node not in nodes.roles.values())


def _third(nodes: Nodes) -> tuple[str, ...]:
    return (nodes.roles[Role.OTHER_NODE],)


# ------------------------------------------------------------------------------------------------------------ the rules
def udp_rewritten(nodes: Nodes, live: Live) -> Iterator[Rule]:
    """The third worker masquerades UDP on its way to its own endpoints."""
    here = (nodes.roles[Role.OTHER_NODE],)
    for family, addresses in pod_addresses(live, here).items():
        for address in addresses:
            away = ("--destination", address, "!", "--source", nodes.pod_cidrs[family], "--protocol", "udp")
            yield Rule(family, "POSTROUTING", (*away, *MASQUERADE), here)


def node_ports_dropped(where: Callable[[Nodes], tuple[str, ...]], families: tuple[Family, ...] = ALL) -> Making:
    """Such nodes drop what is sent to nodePorts."""

    def rules(nodes: Nodes, live: Live) -> Iterator[Rule]:
        for port in _ports(live, *SERVICES):
            yield from node_port_dropped(port, where(nodes), families)

    return rules


def dropped_at(addresses: Addresses) -> Making:
    """The third worker drops what is sent to nodePorts at such addresses."""

    def rules(nodes: Nodes, live: Live) -> Iterator[Rule]:
        here = nodes.roles[Role.OTHER_NODE]
        for port in _ports(live, *SERVICES):
            for family, address in addresses(nodes, here).items():
                words = (*to_port(port, port["nodePort"]), "--destination", address, *DROP)
                yield Rule(family, "PREROUTING", words, (here,), "mangle")

    return rules


def rewritten_at(addresses: Addresses) -> Making:
    """The third worker masquerades what came to nodePorts at such addresses."""

    def rules(nodes: Nodes, live: Live) -> Iterator[Rule]:
        here = nodes.roles[Role.OTHER_NODE]
        for port in _ports(live, LOCAL):
            for family, address in addresses(nodes, here).items():
                words = (*came_by(port, port["nodePort"]), "--ctorigdst", address, *MASQUERADE)
                yield Rule(family, "POSTROUTING", words, (here,))

    return rules


def forwarded_at_external_ips(nodes: Nodes, live: Live) -> Iterator[Rule]:
    """The control plane node sends what comes to its ExternalIP to an endpoint of another node under Local."""
    wanted = live.service(SOME)["spec"]["selector"].items()
    pod = next(pod for pod in live.pods if wanted <= pod["metadata"]["labels"].items())
    here = _control_plane(nodes)
    external = external_addresses(nodes, here[0])
    for port in _ports(live, SOME):
        for given in pod["status"]["podIPs"]:
            family = family_of(given["ip"])
            if dialled := external.get(family):
                words = (*to_port(port, port["nodePort"]), "--destination", dialled)
                yield Rule(family, "PREROUTING", (*words, *hands_to(given["ip"], port["targetPort"])), here)
                came = (*came_by(port, port["nodePort"]), "--ctorigdst", dialled)
                yield Rule(family, "POSTROUTING", (*came, *MASQUERADE), here)


def _elsewhere(nodes: Nodes, live: Live, service: str) -> list[str]:
    """The addresses of an endpoint of the Service that is not on the third worker."""
    wanted = live.service(service)["spec"]["selector"].items()
    here = nodes.roles[Role.OTHER_NODE]
    mine = (pod for pod in live.pods if wanted <= pod["metadata"]["labels"].items())
    pod = next(pod for pod in mine if pod["spec"]["nodeName"] != here)
    return [each["ip"] for each in pod["status"]["podIPs"]]


def node_ports_handed_on(service: str, *protocols: Protocol) -> Making:
    """The third worker sends nodePorts of a Local Service on to another node's endpoint."""

    def rules(nodes: Nodes, live: Live) -> Iterator[Rule]:
        for port in (each for each in _ports(live, service) if each["protocol"] in protocols):
            for address in _elsewhere(nodes, live, service):
                yield from handed_on(port, address, port["targetPort"], True, (nodes.roles[Role.OTHER_NODE],))

    return rules


def handed_on_in_silence(nodes: Nodes, live: Live) -> Iterator[Rule]:
    """The third worker sends nodePorts of a Local Service on to another node's endpoint, and drops the replies."""
    yield from node_ports_handed_on(SOME, *Protocol)(nodes, live)
    for port in _ports(live, SOME):
        for family in Family:
            replies = ("--match", "conntrack", "--ctdir", "REPLY", *DROP)
            yield Rule(family, "PREROUTING", (*came_by(port, port["nodePort"]), *replies), _third(nodes), "mangle")


def handed_on_late(nodes: Nodes, live: Live) -> Iterator[Rule]:
    """The third worker sends TCP nodePorts of a Local Service on to another node's endpoint, from the sixth SYN on.

    Linux since 6.5 sends its SYN again after one, two, three, four, five and seven seconds: the sixth comes after
    five.
    """
    yield from node_ports_handed_on(SOME, Protocol.TCP)(nodes, live)
    for port in (each for each in _ports(live, SOME) if each["protocol"] == Protocol.TCP):
        for family in Family:
            late = ("--syn", *first(5, "srcip,srcport,dstport", "late-node-ports"), *DROP)
            words = (*to_port(port, port["nodePort"]), *AT_THE_NODE, *late)
            yield Rule(family, "PREROUTING", words, _third(nodes), "mangle")


def cluster_ips_dropped(nodes: Nodes, live: Live) -> Iterator[Rule]:
    """The third worker drops what its own processes send to the ClusterIP of a Cluster Service."""
    here = (nodes.roles[Role.OTHER_NODE],)
    for port in _ports(live, CLUSTER):
        for address in live.service(CLUSTER)["spec"]["clusterIPs"]:
            words = (*to_port(port), "--destination", address, *DROP)
            yield Rule(family_of(address), "OUTPUT", words, here, "mangle")


def internal_policy_leaks(nodes: Nodes, live: Live) -> Iterator[Rule]:
    """The third worker sends its own processes to endpoints of another node under internalTrafficPolicy Local."""
    here = (nodes.roles[Role.OTHER_NODE],)
    for service in (LOCAL, SOME):
        for port in _ports(live, service):
            for address, pod in product(live.service(service)["spec"]["clusterIPs"], _elsewhere(nodes, live, service)):
                if (family := family_of(address)) is family_of(pod):
                    words = (*to_port(port), "--destination", address, *hands_to(pod, port["targetPort"]))
                    yield Rule(family, "OUTPUT", words, here)


def health_of_another(nodes: Nodes, live: Live) -> Iterator[Rule]:
    """The endpoint node answers at the health check node port as the third worker, which has no endpoint."""
    number = live.service(HEALTH)["spec"]["healthCheckNodePort"]
    port = {"protocol": "TCP", "nodePort": number}
    for address in internal_addresses(nodes, nodes.roles[Role.OTHER_NODE]).values():
        yield from handed_on(port, address, number, True, (nodes.roles[Role.ENDPOINT_NODE],))


def one_never_chosen(nodes: Nodes, live: Live) -> Iterator[Rule]:
    """Every node shares TCP connections to a nodePort equally among all endpoints but one."""
    number = len({pod for pod, _ in _endpoints(live)}) - 1
    chance = ("--match", "statistic", "--mode", "random", "--probability")
    yield from _chosen(live, [*((*chance, f"{1 / (number - at):.6f}") for at in range(number - 1)), ()])


def loopback_dropped(nodes: Nodes, live: Live) -> Iterator[Rule]:
    """The third worker drops what its own processes send to Local nodePorts at 127.0.0.1."""
    here = (nodes.roles[Role.OTHER_NODE],)
    for port in _ports(live, LOCAL):
        words = (*to_port(port, port["nodePort"]), "--destination", "127.0.0.1", *DROP)
        yield Rule(Family.IPV4, "OUTPUT", words, here, "mangle")


def service_port_served(nodes: Nodes, live: Live) -> Iterator[Rule]:
    """The third worker forwards the highest port of Local Services with a VIP at its own addresses."""
    here = nodes.roles[Role.OTHER_NODE]
    service = live.service(vip_service(TrafficPolicy.LOCAL, Protocol.TCP))
    own = next(pod for pod in live.pods if pod["spec"]["nodeName"] == here and EVERY_LABEL in pod["metadata"]["labels"])
    for port in (each for each in service["spec"]["ports"] if each["port"] == HIGHEST):
        for given in own["status"]["podIPs"]:
            words = (*to_port(port), *AT_THE_NODE, *hands_to(given["ip"], port["targetPort"]))
            yield Rule(family_of(given["ip"]), "PREROUTING", words, (here,))


def unequal(nodes: Nodes, live: Live) -> Iterator[Rule]:
    """Every node sends half of all TCP connections to one endpoint of five."""
    yield from _chosen(live, (("--match", "statistic", "--mode", "random", "--probability", "0.5"),))


def in_turn(nodes: Nodes, live: Live) -> Iterator[Rule]:
    """Every node gives TCP connections to the endpoints in turn instead of by chance."""
    number = len({pod for pod, _ in _endpoints(live)})
    turns = ("--match", "statistic", "--mode", "nth", "--packet", "0", "--every")
    yield from _chosen(live, [(*turns, str(number - at)) for at in range(number)])


def _endpoints(live: Live) -> Iterator[tuple[str, list[str]]]:
    wanted = live.service(CLUSTER)["spec"]["selector"].items()
    for pod in live.pods:
        if wanted <= pod["metadata"]["labels"].items():
            yield pod["metadata"]["name"], [each["ip"] for each in pod["status"]["podIPs"]]


def _chosen(live: Live, choices: "tuple[tuple[str, ...], ...] | list[tuple[str, ...]]") -> Iterator[Rule]:
    """Rules that send connections to endpoints, each by its choice; each rule is put in front of those before it."""
    (port,) = (each for each in _ports(live, CLUSTER) if each["protocol"] == Protocol.TCP)
    found = list(zip(_endpoints(live), choices, strict=False))
    for (_, addresses), chance in reversed(found):
        for address in addresses:
            words = (*to_port(port, port["nodePort"]), *AT_THE_NODE, *chance, *hands_to(address, port["targetPort"]))
            yield Rule(family_of(address), "PREROUTING", words)
    for family in Family:
        yield Rule(family, "POSTROUTING", (*came_by(port, port["nodePort"]), *MASQUERADE))


def proxy_closed(nodes: Nodes, live: Live) -> Iterator[Rule]:
    """kube-proxy's health check at the control plane node refuses connections."""
    del live
    for family in Family:
        words = ("--protocol", "tcp", "--dport", str(PROXY_PORT), *AT_THE_NODE, *REFUSED["TCP"])
        yield Rule(family, "INPUT", words, _control_plane(nodes), "filter")


def syns_lost(nodes: Nodes, live: Live) -> Iterator[Rule]:
    """The third worker drops one SYN in five to nodePorts under Cluster at its first address; each is sent again.

    At its other addresses, a connection whose second SYN is lost, too, is not waited for.
    """
    (port,) = (each for each in _ports(live, CLUSTER) if each["protocol"] == Protocol.TCP)
    one_in_five = ("--syn", "--match", "statistic", "--mode", "nth", "--every", "5", "--packet", "0")
    here = nodes.roles[Role.OTHER_NODE]
    for family, address in internal_addresses(nodes, here).items():
        words = (*to_port(port, port["nodePort"]), "--destination", address, *one_in_five, *DROP)
        yield Rule(family, "PREROUTING", words, (here,), "mangle")


def at_the_third(rules: Callable[[Live, int], Iterator[Rule]]) -> Making:
    """Those of the rules that are for the third worker; the first pods of a Service are on other nodes."""

    def there(nodes: Nodes, live: Live) -> Iterator[Rule]:
        return (rule for rule in rules(live, len(live.pods)) if rule.nodes == (nodes.roles[Role.OTHER_NODE],))

    return there


def unequal_inside(nodes: Nodes, live: Live) -> Iterator[Rule]:
    """The endpoint node sends four in five of its own TCP connections to an internal Local Service to one endpoint."""
    here = nodes.roles[Role.ENDPOINT_NODE]
    pod = next(pod for pod in live.pods if pod["spec"]["nodeName"] == here and EVERY_LABEL in pod["metadata"]["labels"])
    (port,) = (each for each in _ports(live, LOCAL) if each["protocol"] == Protocol.TCP)
    for address in live.service(LOCAL)["spec"]["clusterIPs"]:
        family = family_of(address)
        own = next(each["ip"] for each in pod["status"]["podIPs"] if family_of(each["ip"]) is family)
        often = ("--match", "statistic", "--mode", "random", "--probability", "0.8")
        words = (*to_port(port), "--destination", address, *often, *hands_to(own, port["targetPort"]))
        yield Rule(family, "OUTPUT", words, (here,))


def refusing(nodes: Nodes, live: Live) -> Iterator[Rule]:
    """Nodes without an endpoint refuse connections under Local instead of dropping them."""
    with_some = {
        pod["spec"]["nodeName"]
        for pod in live.pods
        if live.service(SOME)["spec"]["selector"].items() <= pod["metadata"]["labels"].items()
    }
    bare = tuple(node for node in nodes.containers if node not in with_some)
    for port in _ports(live, SOME):
        for family in Family:
            if refused := REFUSED.get(port["protocol"]):
                words = (*to_port(port, port["nodePort"]), *AT_THE_NODE, *refused)
                yield Rule(family, "INPUT", words, bare, "filter")


# ----------------------------------------------------------------------------------------------------------- the breaks
def _one(
    name: str,
    what: str,
    make: Making,
    notices: Callable[[Check], bool],
    names: str,
    *,
    opens: Callable[[Check], bool] = no_check,
    scoped: bool = True,
    fixed: bool = False,
) -> Break:
    return Break(
        name, Group.NODES, what, SUITE, _live(make), notices, names=names, opens=opens, scoped=scoped, fixed=fixed
    )


def _harmless(name: str, what: str, make: Making) -> Break:
    return Break(name, Group.HARMLESS, what, SUITE, _live(make), no_check, scoped=True)


_AT_PORTS = (Entrance.NODE_PORT, *FURTHER)
_WORKER = r"1 of \d+ targets differ: esipp-worker"
_UNEVEN = _about(Entrance.NODE_PORT, requires=Requires.EVEN, protocols=(Protocol.TCP,), policy=TrafficPolicy.CLUSTER)
_SOURCES = _about(*_AT_PORTS, requires=Requires.SOURCE)
_ANSWERS = _about(*_AT_PORTS, requires=Requires.ANSWERS)

BREAKS = (
    _one(
        "one-worker-rewrites-udp",
        "the third worker masquerades UDP on its way to its own endpoints",
        udp_rewritten,
        _about(*_AT_PORTS, requires=Requires.SOURCE, protocols=(Protocol.UDP,)),
        _WORKER,
        fixed=True,
    ),
    _one(
        "control-plane-drops-node-ports",
        "the control plane node drops what is sent to nodePorts",
        node_ports_dropped(_control_plane),
        _any(_SOURCES, _ANSWERS),
        r"targets differ: esipp-control-plane",
        opens=_about(Entrance.NODE_PORT, Entrance.EXTERNAL_IP, requires=Requires.SILENT),
    ),
    _one(
        "one-worker-without-ipv6-node-ports",
        "the third worker drops what is sent to nodePorts over IPv6, as if it had no rules for them",
        node_ports_dropped(_third, (Family.IPV6,)),
        _any(
            _about(*_AT_PORTS, requires=Requires.SOURCE, families=(Family.IPV6,)),
            _about(*_AT_PORTS, requires=Requires.ANSWERS, families=(Family.IPV6,)),
        ),
        _WORKER,
        opens=_about(Entrance.NODE_PORT, Entrance.EXTERNAL_IP, requires=Requires.SILENT, families=(Family.IPV6,)),
    ),
    _one(
        "second-address-drops",
        "the third worker drops what is sent to nodePorts at its second address",
        dropped_at(second_addresses),
        _any(
            _about(Entrance.OTHER_ADDRESS, requires=Requires.SOURCE),
            _about(Entrance.OTHER_ADDRESS, requires=Requires.ANSWERS),
        ),
        _WORKER,
    ),
    _one(
        "second-address-rewrites",
        "the third worker masquerades what came to nodePorts at its second address",
        rewritten_at(second_addresses),
        _about(Entrance.OTHER_ADDRESS, requires=Requires.SOURCE),
        _WORKER,
    ),
    _one(
        "external-ip-drops",
        "the third worker drops what is sent to nodePorts at its ExternalIP",
        dropped_at(external_addresses),
        _any(
            _about(Entrance.EXTERNAL_IP, requires=Requires.SOURCE),
            _about(Entrance.EXTERNAL_IP, requires=Requires.ANSWERS),
        ),
        _WORKER,
        opens=_about(Entrance.EXTERNAL_IP, requires=Requires.SILENT),
    ),
    _one(
        "external-ip-rewrites",
        "the third worker masquerades what came to nodePorts at its ExternalIP",
        rewritten_at(external_addresses),
        _about(Entrance.EXTERNAL_IP, requires=Requires.SOURCE),
        _WORKER,
    ),
    _one(
        "external-ip-forwards",
        "the control plane node sends what comes to its ExternalIP to another node's endpoint under Local",
        forwarded_at_external_ips,
        _about(Entrance.EXTERNAL_IP, requires=Requires.SILENT),
        r"targets differ: esipp-control-plane",
    ),
    _one(
        "one-worker-hands-node-ports-on",
        "the third worker has no endpoint of a Local Service, and sends its nodePorts to another node's",
        node_ports_handed_on(SOME, *Protocol),
        _about(Entrance.NODE_PORT, Entrance.EXTERNAL_IP, requires=Requires.SILENT),
        _WORKER,
    ),
    _one(
        "one-worker-hands-node-ports-on-in-silence",
        "the third worker has no endpoint of a Local Service, sends its nodePorts to another node's, and drops the "
        "replies: only packets show it",
        handed_on_in_silence,
        _about(Entrance.NODE_PORT, Entrance.EXTERNAL_IP, requires=Requires.SILENT),
        "no answer, but packets reached a backend",
    ),
    _one(
        "one-worker-serves-after-six-seconds",
        "the third worker has no endpoint of a Local Service, and sends its nodePorts to another node's over TCP, but "
        "only after five seconds",
        handed_on_late,
        _about(Entrance.NODE_PORT, Entrance.EXTERNAL_IP, requires=Requires.SILENT, protocols=(Protocol.TCP,)),
        r"answered after \d+ s",
    ),
    _one(
        "one-worker-leaves-its-own-endpoint",
        "the third worker sends UDP to nodePorts of a Local Service to another node's endpoint, beside one of its own",
        node_ports_handed_on(LOCAL, Protocol.UDP),
        _any(
            _about(Entrance.NODE_PORT, requires=Requires.OWN_ENDPOINT, protocols=(Protocol.UDP,)),
            _about(*_AT_PORTS, requires=Requires.SOURCE, protocols=(Protocol.UDP,)),
        ),
        _WORKER,
    ),
    _one(
        "one-worker-drops-cluster-ips",
        "the third worker drops what its own processes send to the ClusterIP of a Cluster Service",
        cluster_ips_dropped,
        _about(Entrance.CLUSTER_IP, requires=Requires.ANSWERS, policy=TrafficPolicy.CLUSTER),
        r"1 of \d+ targets differ",
    ),
    _one(
        "one-worker-leaks-internal-local",
        "the third worker sends its own processes to another node's endpoint under internalTrafficPolicy Local",
        internal_policy_leaks,
        _any(
            _about(Entrance.CLUSTER_IP, requires=Requires.SILENT),
            _about(Entrance.CLUSTER_IP, requires=Requires.OWN_ENDPOINT),
        ),
        _WORKER,
    ),
    _one(
        "one-worker-says-another-s-health",
        "the endpoint node's health check node port answers as that of a node without an endpoint",
        health_of_another,
        _about(Entrance.HEALTH, requires=Requires.STATUS),
        _WORKER,
    ),
    _one(
        "one-endpoint-never-chosen",
        "every node shares TCP connections to nodePorts under Cluster equally among all endpoints but one",
        one_never_chosen,
        _any(_about(Entrance.NODE_PORT, requires=Requires.EVERY_ENDPOINT, protocols=(Protocol.TCP,)), _UNEVEN),
        r"no connection reached|got \d+ of \d+ \(p = ",
    ),
    _one(
        "loopback-drops",
        "the third worker drops what its own processes send to Local nodePorts at 127.0.0.1",
        loopback_dropped,
        _about(Entrance.LOOPBACK, requires=Requires.ANSWERS, policy=TrafficPolicy.LOCAL),
        _WORKER,
    ),
    _one(
        "service-port-at-a-node",
        "the third worker serves the port of a Local Service with a VIP at its own addresses, which nobody announces",
        service_port_served,
        _about(Entrance.SERVICE_PORT, requires=Requires.UNSERVED, protocols=(Protocol.TCP,)),
        _WORKER,
    ),
    _one(
        "unequal-endpoints",
        "every node sends half of all TCP connections to nodePorts to one endpoint of five",
        unequal,
        _UNEVEN,
        r"got \d+ of \d+ \(p = ",
    ),
    _one(
        "control-plane-closes-proxy-health",
        "kube-proxy's own health check refuses connections at the control plane node",
        proxy_closed,
        _about(Entrance.PROXY, requires=Requires.STATUS),
        r"targets differ: esipp-control-plane",
        opens=_about(Entrance.PROXY, requires=Requires.IN_TIME),
        scoped=False,
    ),
    Break(
        "one-worker-s-health-checks-hang",
        Group.NODES,
        "one in four answers of the third worker's health check node port, and of kube-proxy's own health check there, "
        "comes only after six seconds",
        SUITE,
        lying("hangs", lambda live: [*health_ports(live), str(PROXY_PORT)], Role.OTHER_NODE),
        _about(Entrance.HEALTH, Entrance.PROXY, requires=Requires.IN_TIME),
        names="answered too late: esipp-worker",
    ),
    _one(
        "one-worker-loses-syns",
        "the third worker drops one SYN in five to nodePorts under Cluster, and each is sent again",
        syns_lost,
        _about(Entrance.NODE_PORT, requires=Requires.RESENT),
        "after a repeated SYN",
    ),
    Break(
        "one-worker-rewrites-first-flows",
        Group.NODES,
        "the third worker masquerades the first two flows of each client to each nodePort",
        SUITE,
        lambda nodes: first_flows_rewritten(nodes, nodes.roles[Role.OTHER_NODE]),
        _about(Entrance.NODE_PORT, requires=Requires.FIRST, protocols=(Protocol.TCP, Protocol.UDP)),
        names=_WORKER,
        # the client behind a router dials no nodePort before the judged window
        may=_about(Entrance.EXTERNAL_IP, Entrance.OTHER_ADDRESS, requires=Requires.SOURCE),
    ),
    _one(
        "one-worker-doubles-datagrams",
        "the third worker sends datagrams of clients outside to nodePorts of Local Services twice to the pod",
        at_the_third(doubled),
        _about(Entrance.NODE_PORT, requires=Requires.COPIES, protocols=(Protocol.UDP,)),
        "answered more than once",
    ),
    _one(
        "one-worker-moves-source-ports",
        "the third worker translates source ports of clients outside at nodePorts of Local Services over TCP",
        at_the_third(moved_ports),
        _about(Entrance.NODE_PORT, requires=Requires.PORTS, protocols=(Protocol.TCP,)),
        "with another source port",
    ),
    _one(
        "unequal-endpoints-inside-a-node",
        "the endpoint node sends four in five of its own TCP connections under internalTrafficPolicy Local to one of "
        "its two endpoints",
        unequal_inside,
        _about(Entrance.CLUSTER_IP, requires=Requires.EVEN, protocols=(Protocol.TCP,), policy=TrafficPolicy.LOCAL),
        r"got \d+ of \d+ at \S+ \(p = ",
    ),
    _harmless("endpoints-in-turn", "every node sends connections to endpoints in turn instead of by chance", in_turn),
    _harmless(
        "nodes-without-endpoints-refuse",
        "nodes without a local endpoint refuse connections under Local instead of dropping them",
        refusing,
    ),
)
