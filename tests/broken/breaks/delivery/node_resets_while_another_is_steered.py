"""A node resets some connections while the load balancer legitimately reroutes another Service."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from threading import Event

from esipp.checks.model import Balancer, EntryKind, Protocol, Role, TrafficPolicy, Vantage
from esipp.checks.path import PathCheck
from esipp.judging.topology import family_of
from tests.broken.balancing import OWN, PROFILE
from tests.broken.breakage import Break, Group, RunOptions, path_checks
from tests.broken.health_proxies import CLOSED, redirected
from tests.broken.matching import vips
from tests.broken.nodes import Live, Nodes, Placed, Rule
from tests.broken.policy_changes import in_background

RESET, STEERED = "loadbalancer-reference-ecmp-local-tcp", "loadbalancer-reference-forward-local-tcp"
SOME = ("--match", "statistic", "--mode", "random", "--probability", "0.08")
STEADY_SECONDS = 4.0
"""How long the other Service has its node, and how long not: each is enough for the health checks."""


def resetting(nodes: Nodes, live: Live) -> list[Rule]:
    """The endpoint node answers some requests by a VIP with a reset."""
    here = (nodes.roles[Role.ENDPOINT_NODE],)
    data = ("--protocol", "tcp", "--tcp-flags", "PSH", "PSH")
    reset = ("--jump", "REJECT", "--reject-with", "tcp-reset")
    return [
        Rule(
            family_of(vip),
            "FORWARD",
            (*data, "--match", "conntrack", "--ctdir", "ORIGINAL", "--ctorigdst", vip, *SOME, *reset),
            here,
            "filter",
        )
        for vip in vips(live.service(RESET))
    ]


@contextmanager
def while_another_is_steered(nodes: Nodes, live: Live) -> Iterator[None]:
    """Resets at one Service, while the endpoint node's health check of another one comes and goes."""
    port = str(live.service(STEERED)["spec"]["healthCheckNodePort"])
    refused = redirected([port], CLOSED, (nodes.roles[Role.ENDPOINT_NODE],))

    def toggle(ended: Event) -> None:
        while not ended.wait(STEADY_SECONDS):
            with nodes.rules(*refused):
                ended.wait(STEADY_SECONDS)

    with nodes.rules(*resetting(nodes, live)), in_background(toggle):
        yield


def beginning(nodes: Nodes) -> AbstractContextManager[Placed]:
    return nodes.once_arranged(lambda live: while_another_is_steered(nodes, live))


def of_service(path_check: PathCheck, balancer: Balancer) -> bool:
    """Paths by the VIP of a Local Service of this class."""
    service = path_check.subject.path.service
    ours = service is not None and service.balancer is balancer and service.policy is TrafficPolicy.LOCAL
    return ours and path_check.subject.path.entry.kind is EntryKind.VIP


def notices(path_check: PathCheck) -> bool:
    reset = of_service(path_check, Balancer.ECMP) and path_check.subject.path.protocol is Protocol.TCP
    return reset and path_check.subject.path.client.vantage is Vantage.OUTSIDE


BREAK = Break(
    "node-resets-while-another-service-is-steered",
    Group.DELIVERY,
    "the endpoint node resets one in twelve connections through a VIP while the load balancer reroutes another Service",
    RunOptions(("source_ip",), samples=60, own=OWN, options=PROFILE),
    beginning,
    path_checks(notices),
    names="reset",
    may=path_checks(
        lambda path_check: of_service(path_check, Balancer.FORWARD) or of_service(path_check, Balancer.ECMP)
    ),
)
