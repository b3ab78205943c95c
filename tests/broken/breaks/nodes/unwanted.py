"""Nodes that are cordoned, tainted, cut off or full, and what breaks although it need not."""

from collections.abc import Iterator
from contextlib import AbstractContextManager

from esipp.checks.check import is_about
from esipp.checks.continuity import NODEPORT, Continuity, Phase, Way, What
from esipp.checks.disruption import Disruption
from esipp.checks.model import Balancer, Family, Role, TrafficPolicy
from esipp.disruption.marks import Mark
from esipp.scenarios.continuity.objects import service_name
from esipp.scenarios.service_change.subject import At, Claim, Health, service_of
from tests.broken.breakage import Apply, Break, Group
from tests.broken.breaks.delivery.streams import by_chance
from tests.broken.breaks.nodes.returned import given_up
from tests.broken.during import (
    at_bare_node,
    at_endpoint_node,
    effect_of,
    marked,
    of_change,
    of_phase,
    run_of,
    run_of_change,
    so_for,
    while_so,
)
from tests.broken.forwarding import as_other_proxy
from tests.broken.lost import node_port_dropped
from tests.broken.matching import DROP, to_port
from tests.broken.nodes import Live, Nodes, Placed, Rule

OWN_VIPS = tuple(Way(Balancer.DEFAULT.value, policy) for policy in TrafficPolicy)
UNWANTED, CORDONED = "unwanted-node", "cordoned"


def withdrawn_while_cordoned(event: str, after: float = 0.0) -> Apply:
    """No node takes the VIP while one is cordoned, from some seconds on, as if it was withdrawn."""
    return given_up(while_so, lambda nodes: so_for(after, lambda: marked(nodes, Mark.CORDONED)), service_of(event))


def says_that_it_stays(nodes: Nodes) -> AbstractContextManager[Placed]:
    """The endpoint node's kube-proxy answers health checks as another node's."""
    return nodes.live(lambda _: as_other_proxy(nodes))


def lost_elsewhere(what: Disruption) -> Apply:
    """The endpoint node takes nothing at a nodePort while another node is disturbed."""
    name = service_name(Way(NODEPORT, TrafficPolicy.LOCAL))

    def apply(nodes: Nodes) -> AbstractContextManager[Placed]:
        def rules(live: Live) -> Iterator[Rule]:
            return node_port_dropped(live.service(name)["spec"]["ports"][0], (nodes.roles[Role.ENDPOINT_NODE],))

        return while_so(nodes, (name,), effect_of(what, at_bare_node)(nodes), rules)

    return apply


def known_flows_reset(nodes: Nodes) -> AbstractContextManager[Placed]:
    """The node without endpoints resets what it knows while it takes no new flows."""
    name = service_name(Way(NODEPORT, TrafficPolicy.CLUSTER))

    def rules(live: Live) -> list[Rule]:
        port = live.service(name)["spec"]["ports"][0]
        old = (*to_port(port, port["nodePort"]), "--match", "conntrack", "--ctstate", "ESTABLISHED")
        return [Rule(family, "PREROUTING", (*old, *DROP), (nodes.bare,), "mangle") for family in Family]

    return while_so(nodes, (name,), effect_of(Disruption.CONNTRACK_FULL, at_bare_node)(nodes), rules)


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
        given_up(while_so, effect_of(Disruption.CUT_OFF, at_endpoint_node), *map(service_name, OWN_VIPS)),
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
