"""What goes wrong while kube-proxy is slow, or once another agent, or a load balancer's controller, was away."""

from collections.abc import Iterator
from contextlib import AbstractContextManager

from esipp.checks.disruption import Disruption
from esipp.checks.model import Role
from esipp.scenarios.service_change.subject import At, Claim, service_of
from tests.broken.balancing import OWN, PROFILE
from tests.broken.breakage import Break, Group, RunOptions
from tests.broken.breaks.nodes.returned import (
    GIVES_UP,
    OF_BEFORE,
    given_up,
    keeps_its_endpoint,
)
from tests.broken.during import (
    at_bare_node,
    at_control_plane,
    at_endpoint_node,
    effect_of,
    end_of,
    of_change,
    once_so,
    run_of_change,
    while_so,
)
from tests.broken.lost import connections_ended
from tests.broken.matching import DROP
from tests.broken.nodes import Live, Nodes, Placed, Rule

SLOW, NETWORK = "proxy-slow", "network-agent-stopped"
ANNOUNCER, SPEAKER, CUT_OFF = "announcer-stopped", "speaker-stopped", "balancer-cut-off"


def lost_without_its_agent(nodes: Nodes) -> AbstractContextManager[Placed]:
    """A node drops new TCP connections to its nodePort while its network add-on's agent is stopped."""

    def rules(live: Live) -> Iterator[Rule]:
        for port in live.service(service_of(NETWORK))["spec"]["ports"]:
            if port["protocol"] == "TCP":
                yield from connections_ended(port, (nodes.bare,), {"NEW": DROP})

    is_stopped = effect_of(Disruption.NETWORK_STOPPED, at_bare_node)(nodes)
    return while_so(nodes, (service_of(NETWORK),), is_stopped, rules)


BREAKS = (
    Break(
        "node-of-a-slow-proxy-keeps-its-endpoint",
        Group.NODES,
        "a node goes on sending to the endpoint that a Service had before kube-proxy became slow",
        run_of_change(SLOW),
        keeps_its_endpoint(SLOW, Role.BARE_NODE),
        lambda check: of_change(check, SLOW, At.BARE_NODE, Claim.SERVED, Claim.GONE),
        names=OF_BEFORE,
        at_once=False,
    ),
    Break(
        "node-keeps-its-endpoint-after-the-start-of-the-network-add-on",
        Group.NODES,
        "a node goes on sending to the endpoint from before its network add-on's agent was stopped, and after the "
        "deletion of the Service",
        run_of_change(NETWORK),
        keeps_its_endpoint(NETWORK, Role.BARE_NODE),
        lambda check: of_change(check, NETWORK, At.BARE_NODE, Claim.SERVED, Claim.GONE),
        names=OF_BEFORE,
        at_once=False,
    ),
    Break(
        "connections-lost-while-the-network-add-on-is-stopped",
        Group.NODES,
        "a node drops new TCP connections to its nodePort while its network add-on's agent is stopped",
        run_of_change(NETWORK),
        lost_without_its_agent,
        lambda check: of_change(check, NETWORK, At.BARE_NODE, Claim.NO_LOSS),
        names="depend on an agent that is stopped",
        at_once=False,
    ),
    Break(
        "vip-given-up-while-another-speaker-is-stopped",
        Group.NODES,
        "no node takes the VIP of a Local Service while the speaker of a node without endpoints is stopped",
        run_of_change(SPEAKER),
        given_up(while_so, effect_of(Disruption.SPEAKER_STOPPED, at_bare_node), service_of(SPEAKER)),
        lambda check: of_change(check, SPEAKER, At.VIP, Claim.NO_LOSS),
        names=GIVES_UP,
        at_once=False,
    ),
    Break(
        "vip-given-up-after-its-speaker-was-away",
        Group.NODES,
        "no node takes the VIP of a Local Service any longer once the speaker that announces it has started again",
        run_of_change(ANNOUNCER),
        given_up(once_so, end_of(Disruption.SPEAKER_STOPPED, at_endpoint_node), service_of(ANNOUNCER)),
        lambda check: of_change(check, ANNOUNCER, At.VIP, Claim.SERVED),
        names=GIVES_UP,
        at_once=False,
    ),
    Break(
        "vip-given-up-after-its-balancer-was-cut-off",
        Group.NODES,
        "no node takes a VIP of the ECMP forwarder any longer once that reaches the API server again",
        RunOptions(("changes",), (f"changes.{CUT_OFF}.",), disruptive=True, own=OWN, options=PROFILE),
        given_up(once_so, end_of(Disruption.BALANCER_CUT_OFF, at_control_plane), service_of(CUT_OFF)),
        lambda check: of_change(check, CUT_OFF, At.VIP, Claim.SERVED, Claim.NO_LOSS),
        names=GIVES_UP,
        at_once=False,
    ),
)
