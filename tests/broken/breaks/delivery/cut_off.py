"""Clients that get no answer although they must: the effects of bugs that really happened (docs/bugs.md)."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager

from esipp.base.json import Json
from esipp.checks.check import Level
from esipp.checks.model import Balancer, EntryKind, Family, Path, TrafficPolicy, Vantage
from esipp.checks.path import PathCheck
from esipp.judging.topology import family_of
from tests.broken.balancing import OWN, PROFILE, WITH_PROXY
from tests.broken.breakage import Break, Group, RunOptions, path_checks
from tests.broken.matching import AT_THE_NODE, DROP, to_port, vips
from tests.broken.nodes import Live, Nodes, Placed, Rule
from tests.broken.ways import NODE_PORTS, rests_on

Rules = Callable[[Nodes, Json], Iterator[Rule]]


def dropping(rules: Rules) -> Callable[[Nodes], AbstractContextManager[Placed]]:
    """Rules for each Service of the run."""

    def apply(nodes: Nodes) -> AbstractContextManager[Placed]:
        def make(live: Live) -> list[Rule]:
            return [rule for service in live.services for rule in rules(nodes, service)]

        return nodes.live(make)

    return apply


def own_vips(families: Sequence[Family]) -> Rules:
    """All nodes drop what clients outside send to VIPs of the cluster's own load balancer."""

    def rules(nodes: Nodes, service: Json) -> Iterator[Rule]:
        if "reference" in (service["spec"].get("loadBalancerClass") or ""):
            return
        for address in vips(service):
            family = family_of(address)
            if family in families:
                outside = ("!", "--source", nodes.pod_cidrs[family], "--destination", address)
                yield Rule(family, "PREROUTING", (*outside, *DROP), table="mangle")

    return rules


def host_to_node_ports(nodes: Nodes, service: Json) -> Iterator[Rule]:
    """All nodes drop what their own processes send to nodePorts of Services with the policy Cluster."""
    for port in node_ports_under_cluster(service):
        for family in Family:
            yield Rule(family, "OUTPUT", (*to_port(port, port["nodePort"]), *DROP), table="mangle")


def pods_to_node_ports(nodes: Nodes, service: Json) -> Iterator[Rule]:
    """All nodes drop what pods send to nodePorts of Services with the policy Cluster."""
    for port in node_ports_under_cluster(service):
        for family in Family:
            words = ("--source", nodes.pod_cidrs[family], *to_port(port, port["nodePort"]), *AT_THE_NODE, *DROP)
            yield Rule(family, "PREROUTING", words, table="mangle")


def admitted(nodes: Nodes, service: Json) -> Iterator[Rule]:
    """All nodes drop what comes over IPv4 to Services with source ranges, from whomever."""
    if not service["spec"].get("loadBalancerSourceRanges"):
        return
    for address in (each for each in vips(service) if family_of(each) is Family.IPV4):
        yield Rule(Family.IPV4, "PREROUTING", ("--destination", address, *DROP), table="mangle")
    for port in service["spec"]["ports"]:
        words = ("!", "--source", nodes.pod_cidrs[Family.IPV4], *to_port(port, port["nodePort"]), *AT_THE_NODE, *DROP)
        yield Rule(Family.IPV4, "PREROUTING", words, table="mangle")


def second_families(_: Nodes, service: Json) -> Iterator[Rule]:
    """All nodes drop what comes in the second family to Services that have an order of families of their own."""
    spec = service["spec"]
    if spec.get("ipFamilyPolicy") != "RequireDualStack":
        return
    second = Family(spec["ipFamilies"][1])
    for address in (each for each in (*spec["clusterIPs"], *vips(service)) if family_of(each) is second):
        yield Rule(second, "PREROUTING", ("--destination", address, *DROP), table="mangle")
    for port in (each for each in spec["ports"] if each.get("nodePort")):
        words = (*to_port(port, port["nodePort"]), *AT_THE_NODE, *DROP)
        yield Rule(second, "PREROUTING", words, table="mangle")


def node_ports_under_cluster(service: Json) -> Iterator[Json]:
    """The ports of a Service that have a nodePort, if its external policy is Cluster."""
    if service["spec"].get("externalTrafficPolicy") == "Cluster":
        yield from (port for port in service["spec"]["ports"] if port.get("nodePort"))


def own_vip_from_outside(*families: Family) -> Callable[[Path], bool]:
    """Whether a client outside dials a VIP of the cluster's own load balancer."""

    def spoils(path: Path) -> bool:
        own = path.service is not None and path.service.balancer is Balancer.DEFAULT
        outside = path.client.vantage is Vantage.OUTSIDE and path.family in families
        return own and outside and path.entry.kind is EntryKind.VIP

    return spoils


def node_port_from(vantage: Vantage) -> Callable[[Path], bool]:
    """Whether such a client dials a nodePort of a Service with the policy Cluster."""

    def spoils(path: Path) -> bool:
        under_cluster = path.service is not None and path.service.policy is not TrafficPolicy.LOCAL
        return under_cluster and path.client.vantage is vantage and path.entry.kind in NODE_PORTS

    return spoils


def of_an_admitted_client(path: Path) -> bool:
    """Whether a client outside dials the VIP of a Service with source ranges."""
    ranged = path.service is not None and bool(path.service.ranges)
    return ranged and path.family is Family.IPV4 and path.client.vantage is Vantage.OUTSIDE


def in_the_second_family(path: Path) -> bool:
    """Whether a client dials a Service with an order of families of its own, in the second one."""
    return path.service is not None and path.service.first is path.family.other


def must_answer(spoils: Callable[[Path], bool]) -> Callable[[PathCheck], bool]:
    """Whether a check that binds requires an answer on such a path."""

    def must(check: PathCheck) -> bool:
        binds = not check.subject.is_negative and check.level is not Level.RECORD
        return spoils(check.subject.path) and binds and not rests_on(spoils)(check)

    return must


def cut_off(
    name: str,
    what: str,
    rules: Rules,
    spoils: Callable[[Path], bool],
    *checks: str,
    own: tuple[str, ...] = (),
    options: tuple[str, ...] = (),
    names: str = "no answer|not answered|silent",
) -> Break:
    """A break of this table; ``own`` and ``options`` as in ``RunOptions``, ``names`` as in ``Break``."""
    return Break(
        name,
        Group.DELIVERY,
        what,
        RunOptions(("source_ip",), checks, own=own, options=options),
        dropping(rules),
        path_checks(must_answer(spoils)),
        names=names,
        opens=rests_on(spoils),
        scoped=True,
    )


BREAKS = (
    cut_off(
        "vips-without-rules",
        "all nodes drop what clients outside send to VIPs of the cluster's own load balancer, as if it had no rules",
        own_vips(tuple(Family)),
        own_vip_from_outside(*Family),
        "loadbalancer.",
    ),
    cut_off(
        "vips-without-rules-ipv6",
        "all nodes drop what clients outside send to IPv6 VIPs of the cluster's own load balancer",
        own_vips((Family.IPV6,)),
        own_vip_from_outside(Family.IPV6),
        "loadbalancer.",
    ),
    cut_off(
        "second-family-not-served",
        "all nodes drop what comes over IPv4 to dual-stack Services whose first family is IPv6, as if a Service had "
        "only its first ClusterIP",
        second_families,
        in_the_second_family,
        ".first-ipv6.",
        "nodeport.local.tcp.",
    ),
    cut_off(
        "hosts-cut-off-from-node-ports",
        "processes of nodes get no answer from nodePorts of Services with the policy Cluster",
        host_to_node_ports,
        node_port_from(Vantage.NODE),
        "nodeport.",
    ),
    cut_off(
        "pods-cut-off-from-node-ports",
        "pods get no answer from nodePorts of Services with the policy Cluster",
        pods_to_node_ports,
        node_port_from(Vantage.POD),
        "nodeport.",
    ),
    cut_off(
        "admitted-clients-dropped-behind-ecmp",
        "nodes drop what an ECMP router sends over IPv4 to a VIP with source ranges, also from clients in them",
        admitted,
        of_an_admitted_client,
        "loadbalancer.local.source-ranges.",
        own=OWN,
        options=PROFILE,
    ),
    cut_off(
        "admitted-clients-dropped-behind-a-proxy",
        "nodes drop what a proxy sends over IPv4 to nodePorts of a Service with source ranges that hold its clients",
        admitted,
        of_an_admitted_client,
        "loadbalancer.local.source-ranges.",
        own=("--default", Balancer.PROXY.value),
        options=WITH_PROXY,
        names="accepts the connection and then finds no backend",
    ),
)
