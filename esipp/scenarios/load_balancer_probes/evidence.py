"""The evidence of this scenario: the figures of profiles, and what packets showed. No I/O."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from ipaddress import ip_network

from esipp.checks.model import Balancer, TrafficPolicy
from esipp.checks.profile import Destination, Target
from esipp.judging.frame import Interruptions
from esipp.scenarios.load_balancer_probes.subject import What

Key = tuple[Balancer, TrafficPolicy]


@dataclass(frozen=True)
class Figures:
    """What one profile says of a load balancer under one policy.

    Args:
        profile: its name.
        target: the target of health checks; None if they are off unless a user asks for them.
        path: the path of their URL; empty if they are not HTTP.
        period: seconds between two of one node; None without health checks.
        sources: the networks that they come from; empty if the profile names none.
        destination: the destination address of packets that arrive at a node.
        documented: the figures that the vendor documents; others are only reported.
    """

    profile: str
    target: Target | None = None
    path: str = ""
    period: float | None = None
    sources: tuple[str, ...] = ()
    destination: Destination = Destination.VIP
    documented: frozenset[What] = frozenset()


def networks(said: Iterable[str]) -> tuple[str, ...]:
    """The networks among a profile's sources; none if any of them is a description."""
    found = []
    for each in said:
        try:
            found.append(str(ip_network(each, strict=False)))
        except ValueError:
            return ()
    return tuple(found)


@dataclass(frozen=True)
class Probe:
    """A health check in packets, by its SYN.

    Args:
        at: seconds of the node's clock.
        node: the node that it reached.
        source: the address that it came from.
        target: what it asked there.
        path: the path of its HTTP request; empty if none was captured.
    """

    at: float
    node: str
    source: str
    target: Target
    path: str = ""


@dataclass(frozen=True)
class Observed:
    """What packets showed of one Service.

    Args:
        seconds: the length of the window; the capture was longer.
        nodes: the nodes whose packets were captured.
        probes: the health checks, in order.
        answered: our connections to the VIP that were answered, by source address and port at the client.
        arrived: how many of them reached a captured node, by the destination that they had there.
        obstacle: why nothing could be observed; empty if something could.
    """

    seconds: float = 0.0
    nodes: tuple[str, ...] = ()
    probes: tuple[Probe, ...] = ()
    answered: int = 0
    arrived: Mapping[Destination, int] = field(default_factory=dict)
    obstacle: str = ""


@dataclass
class ProbeEvidence(Interruptions):
    """The evidence on all load balancers.

    Args:
        figures: what the profiles say of each load balancer and policy; several if it is not certain which one fits.
        certain: the load balancers whose profile is certain: the user named it, or it is the reference load balancer.
        observed: what packets showed.
        incomplete: why the captures may lack packets; empty if nothing is known against them.
    """

    figures: dict[Key, tuple[Figures, ...]] = field(default_factory=dict)
    certain: frozenset[Balancer] = frozenset()
    observed: dict[Key, Observed] = field(default_factory=dict)
    incomplete: str = ""
