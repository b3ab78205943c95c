"""Nodes that are cordoned, tainted, cut off or full, and what breaks although it need not."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

from esipp.checks.check import is_about
from esipp.checks.continuity import NODEPORT, Continuity, Phase, Way, What
from esipp.checks.disruption import Disruption
from esipp.checks.health import PROXY_PORT
from esipp.checks.model import Balancer, Family, Role, TrafficPolicy
from esipp.disruption.marks import Mark
from esipp.judging.topology import family_of
from esipp.scenarios.continuity.objects import service_name
from esipp.scenarios.service_change.subject import At, Claim, Health, service_of
from tests.broken.breakage import Break, Group
from tests.broken.breaks.delivery.streams import by_chance
from tests.broken.during import in_effect, marked, of_change, of_phase, run_of, run_of_change, so_for, while_so
from tests.broken.forwarding import internal_addresses
from tests.broken.matching import AT_THE_NODE, DROP, MASQUERADE, hands_to, vips
from tests.broken.nodes import Live, Nodes, Placed, Rule

OWN_VIPS = tuple(Way(Balancer.DEFAULT.value, policy) for policy in TrafficPolicy)
UNWANTED, CORDONED = "unwanted-node", "cordoned"
Apply = Callable[[Nodes], AbstractContextManager[Placed]]


def withdrawn_while_cordoned(event: str, after: float = 0.0) -> Apply:
    """No node takes the VIP while one is cordoned, from some seconds on, as if it was withdrawn."""

    @contextmanager
    def apply(nodes: Nodes) -> Iterator[Placed]:
        def rules(live: Live) -> list[Rule]:
            given = vips(live.service(service_of(event)))
            return [Rule(family_of(each), "PREROUTING", ("--destination", each, *DROP), (), "mangle") for each in given]

        yield from while_so(nodes, service_of(event), so_for(after, lambda: marked(nodes, Mark.CORDONED)), rules)

    return apply


@contextmanager
def says_that_it_stays(nodes: Nodes) -> Iterator[Placed]:
    """The endpoint node's port 10256 answers as that of another node."""
    endpoint = nodes.roles[Role.ENDPOINT_NODE]
    to = ("--protocol", "tcp", "--dport", str(PROXY_PORT))
    rules = []
    for family, address in internal_addresses(nodes, nodes.bare).items():
        rules.append(Rule(family, "PREROUTING", (*to, *AT_THE_NODE, *hands_to(address, PROXY_PORT)), (endpoint,)))
        rules.append(Rule(family, "POSTROUTING", (*to, "--destination", address, *MASQUERADE), (endpoint,)))
    with nodes.live(lambda _: rules) as placed:
        yield placed


def lost_elsewhere(what: Disruption) -> Apply:
    """The endpoint node takes nothing at a nodePort while another node is disturbed."""
    way = Way(NODEPORT, TrafficPolicy.LOCAL)

    @contextmanager
    def apply(nodes: Nodes) -> Iterator[Placed]:
        there = (nodes.roles[Role.ENDPOINT_NODE],)

        def rules(live: Live) -> list[Rule]:
            port = live.service(service_name(way))["spec"]["ports"][0]["nodePort"]
            words = ("--protocol", "tcp", "--dport", str(port), *AT_THE_NODE, *DROP)
            return [Rule(family, "PREROUTING", words, there, "mangle") for family in Family]

        yield from while_so(nodes, service_name(way), lambda: in_effect(nodes.bare, what), rules)

    return apply


@contextmanager
def stays_at_the_lost_node(nodes: Nodes) -> Iterator[Placed]:
    """No other node takes the VIPs of a node that is cut off."""

    def rules(live: Live) -> list[Rule]:
        addresses = [vip for way in OWN_VIPS for vip in vips(live.service(service_name(way)))]
        return [Rule(family_of(each), "PREROUTING", ("--destination", each, *DROP), (), "mangle") for each in addresses]

    endpoint = nodes.roles[Role.ENDPOINT_NODE]
    yield from while_so(nodes, service_name(OWN_VIPS[0]), lambda: in_effect(endpoint, Disruption.CUT_OFF), rules)


@contextmanager
def known_flows_reset(nodes: Nodes) -> Iterator[Placed]:
    """The node without endpoints resets what it knows while it takes no new flows."""
    way = Way(NODEPORT, TrafficPolicy.CLUSTER)

    def rules(live: Live) -> list[Rule]:
        port = live.service(service_name(way))["spec"]["ports"][0]["nodePort"]
        old = ("--protocol", "tcp", "--dport", str(port), "--match", "conntrack", "--ctstate", "ESTABLISHED")
        return [Rule(family, "PREROUTING", (*old, *DROP), (nodes.bare,), "mangle") for family in Family]

    yield from while_so(nodes, service_name(way), lambda: in_effect(nodes.bare, Disruption.CONNTRACK_FULL), rules)


BREAKS = (
    Break(
        "vip-withdrawn-while-its-node-is-cordoned",
        Group.NODES,
        "no node takes a Service's VIP while the node of its only pod is cordoned",
        run_of_change(UNWANTED),
        withdrawn_while_cordoned(UNWANTED),
        lambda check: of_change(check, UNWANTED, At.VIP, Claim.SERVED, Claim.NO_LOSS),
        names="excludes a node that still serves",
        at_once=False,
    ),
    Break(
        "vip-withdrawn-once-its-node-has-been-cordoned-for-long",
        Group.NODES,
        "no node takes a Service's VIP from 20 s after the node of its only pod was cordoned, as long as it is",
        run_of_change(CORDONED),
        withdrawn_while_cordoned(CORDONED, after=20.0),
        lambda check: of_change(check, CORDONED, At.VIP, Claim.SERVED, Claim.NO_LOSS),
        names="excludes a node that still serves",
        at_once=False,
    ),
    Break(
        "tainted-node-says-that-it-stays",
        Group.NODES,
        "kube-proxy of a node that an autoscaler will delete goes on to say 200 at port 10256",
        run_of_change(UNWANTED),
        says_that_it_stays,
        lambda check: of_change(check, UNWANTED, At.ENDPOINT_NODE, Claim.STATUS) and Health.PROXY in check.id,
        names="while it must say 503",
        at_once=False,
    ),
    Break(
        "idle-node-not-ready-disturbs-another",
        Group.NODES,
        "the endpoint node drops new connections to a Local Service while the kubelet of another node is stopped",
        run_of(Phase.IDLE_KUBELET),
        lost_elsewhere(Disruption.KUBELET),
        lambda check: of_phase(
            check, Phase.IDLE_KUBELET, Way(NODEPORT, TrafficPolicy.LOCAL), What.NO_LOSS, What.LASTING
        ),
        names="a node drops a connection",
        at_once=False,
    ),
    Break(
        "node-that-leaves-disturbs-another",
        Group.NODES,
        "the endpoint node drops what comes to a Local nodePort while a node without endpoints is gone",
        run_of(Phase.IDLE_LEFT),
        lost_elsewhere(Disruption.NODE_LEFT),
        lambda check: of_phase(check, Phase.IDLE_LEFT, Way(NODEPORT, TrafficPolicy.LOCAL), What.NO_LOSS, What.LASTING),
        names="a node drops a connection",
        may=lambda check: (
            by_chance(check) or of_phase(check, Phase.IDLE_LEFT, Way(NODEPORT, TrafficPolicy.LOCAL), What.NO_DELAY)
        ),
        at_once=False,
    ),
    Break(
        "vip-stays-at-a-node-that-is-cut-off",
        Group.NODES,
        "no other node takes the VIPs of the cluster's own load balancer while the endpoint node is cut off",
        run_of(Phase.CUT_OFF),
        stays_at_the_lost_node,
        lambda check: (
            is_about(check, Continuity) and (check.subject.phase, check.subject.what) == (Phase.CUT_OFF, What.FAIL_OVER)
        ),
        names="stays for too long at a node that is gone",
        may=by_chance,
        at_once=False,
    ),
    Break(
        "full-node-forgets-open-connections",
        Group.NODES,
        "a node that takes no new flows drops what is open through it, too",
        run_of(Phase.CONNTRACK_FULL),
        known_flows_reset,
        lambda check: of_phase(check, Phase.CONNTRACK_FULL, Way(NODEPORT, TrafficPolicy.CLUSTER), What.LASTING),
        names="flushes connection tracking",
        may=lambda check: of_phase(  # a forwarder's routes change, and break what is open, by chance
            check, Phase.CONNTRACK_FULL, Way(Balancer.ECMP.value, TrafficPolicy.CLUSTER), What.LASTING
        ),
        at_once=False,
    ),
)
