"""Checks of what a load balancer's profile says of its health checks and packets."""

from esipp.checks.check import Check, Level
from esipp.checks.model import Balancer, TrafficPolicy
from esipp.checks.required_features import PACKETS
from esipp.scenarios.load_balancer_probes.subject import ProfileFigure, What
from suites.clients import OUTSIDE_1
from suites.needs import needs
from suites.references import *

BALANCERS = (Balancer.DEFAULT, Balancer.ECMP, Balancer.PROXY)
POLICIES = {
    TrafficPolicy.LOCAL: tuple(What),
    TrafficPolicy.CLUSTER: (What.PORT, What.PATH, What.SOURCE),
}
"""Under Cluster, a node is asked for all Services at once, which hides the period; packets may cross a second node."""

UNDER = "of a Service with externalTrafficPolicy {policy}"
REQUIREMENTS = {
    What.PORT: f"Health checks {UNDER} use the port that the load balancer's profile names",
    What.PATH: f"Health checks {UNDER} request the path that the load balancer's profile names",
    What.SOURCE: f"Health checks {UNDER} come from the addresses that the load balancer's profile names",
    What.PERIOD: f"The load balancer probes each node {UNDER} as often as its profile says",
    What.DESTINATION: f"Packets {UNDER} reach nodes with the destination that the load balancer's profile names",
}
EXPECTED = {
    What.PORT: "the profile's port",
    What.PATH: "the profile's path",
    What.SOURCE: "the profile's sources",
    What.PERIOD: "the profile's period, within a half",
    What.DESTINATION: "the profile's destination",
}
FAILS_IF = {
    What.PORT: "the load balancer asks another port, or none: its view of nodes is not that of the Service",
    What.PATH: "the load balancer asks for another path, which a node may answer differently",
    What.SOURCE: "a health check comes from another address: a firewall for the documented ones would drop it",
    What.PERIOD: "the load balancer probes less or more often: every time that follows from its profile is wrong",
    What.DESTINATION: "packets have another destination, at which nodes treat them differently",
}
ASKED = "packets at all nodes with an agent for 4.5 periods, 6 to 45 s, while a client outside dials the VIP"


def figure(balancer: Balancer, policy: TrafficPolicy, what: What) -> Check[ProfileFigure]:
    """Return one check."""
    return Check(
        id=f"healthcheck.profile.{balancer.value}.{policy.value.lower()}.{what.value}",
        requirement=REQUIREMENTS[what].format(policy=policy.value) + ".",
        level=Level.EXTENDED,
        suite="health_checks",
        references=(DESIGN_HEALTH, TUTORIAL_LB),
        features=needs(PACKETS, client=OUTSIDE_1, balancer=balancer),
        subject=ProfileFigure(balancer, policy, what),
        expected=EXPECTED[what],
        fails_if=FAILS_IF[what],
        asked=ASKED,
    )


CHECKS: tuple[Check, ...] = tuple(
    figure(balancer, policy, what) for balancer in BALANCERS for policy, whats in POLICIES.items() for what in whats
)
