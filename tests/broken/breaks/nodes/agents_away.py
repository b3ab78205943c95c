"""What goes wrong while kube-proxy is slow, or once another agent, or a load balancer's controller, was away."""

from collections.abc import Iterator
from contextlib import contextmanager

from esipp.checks.disruption import Disruption
from esipp.checks.model import Family, Role
from esipp.scenarios.service_change.subject import At, Claim, service_of
from tests.broken.balancing import OWN, PROFILE
from tests.broken.breakage import Break, Group, RunOptions
from tests.broken.breaks.nodes.returned import (
    GIVES_UP,
    OF_BEFORE,
    at_bare_node,
    at_control_plane,
    at_endpoint_node,
    given_up_after,
    given_up_while,
    keeps_its_endpoint,
)
from tests.broken.during import in_effect, of_change, run_of_change, while_so
from tests.broken.matching import DROP, came_by
from tests.broken.nodes import Live, Nodes, Placed, Rule

SLOW, NETWORK = "proxy-slow", "network-agent-stopped"
ANNOUNCER, SPEAKER, CUT_OFF = "announcer-stopped", "speaker-stopped", "balancer-cut-off"


@contextmanager
def lost_without_its_agent(nodes: Nodes) -> Iterator[Placed]:
    """A node drops new TCP connections to its nodePort while its network add-on's agent is stopped."""

    def rules(live: Live) -> list[Rule]:
        ports = [each for each in live.service(service_of(NETWORK))["spec"]["ports"] if each["protocol"] == "TCP"]
        new = ("--ctdir", "ORIGINAL", "--ctstate", "NEW", *DROP)
        return [
            Rule(family, "FORWARD", (*came_by(port, port["nodePort"]), *new), (nodes.bare,), "filter")
            for port in ports
            for family in Family
        ]

    yield from while_so(nodes, service_of(NETWORK), lambda: in_effect(nodes.bare, Disruption.NETWORK_STOPPED), rules)


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
        given_up_while(SPEAKER, Disruption.SPEAKER_STOPPED, at_bare_node),
        lambda check: of_change(check, SPEAKER, At.VIP, Claim.NO_LOSS),
        names=GIVES_UP,
        at_once=False,
    ),
    Break(
        "vip-given-up-after-its-speaker-was-away",
        Group.NODES,
        "no node takes the VIP of a Local Service any longer once the speaker that announces it has started again",
        run_of_change(ANNOUNCER),
        given_up_after(ANNOUNCER, Disruption.SPEAKER_STOPPED, at_endpoint_node),
        lambda check: of_change(check, ANNOUNCER, At.VIP, Claim.SERVED),
        names=OF_BEFORE,
        at_once=False,
    ),
    Break(
        "vip-given-up-after-its-balancer-was-cut-off",
        Group.NODES,
        "no node takes a VIP of the ECMP forwarder any longer once that reaches the API server again",
        RunOptions(("changes",), (f"changes.{CUT_OFF}.",), disruptive=True, own=OWN, options=PROFILE),
        given_up_after(CUT_OFF, Disruption.BALANCER_CUT_OFF, at_control_plane),
        lambda check: of_change(check, CUT_OFF, At.VIP, Claim.SERVED, Claim.NO_LOSS),
        names=GIVES_UP,
        at_once=False,
    ),
)
