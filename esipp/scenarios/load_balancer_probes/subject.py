"""``ProfileFigure``: a figure of a load balancer's profile that packets at the nodes can contradict. No I/O."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from esipp.checks.check import Check, Subject
from esipp.checks.model import ANYTHING, Balancer, Protocol, TrafficPolicy, Vantage


class What(StrEnum):
    """The figure: of health checks, the port, path, source and period; of traffic, the destination at the node."""

    PORT = "port"
    PATH = "path"
    SOURCE = "source"
    PERIOD = "period"
    DESTINATION = "destination"


def service_name(balancer: Balancer, policy: TrafficPolicy) -> str:
    """Return the name of the Service whose health checks are captured."""
    return f"probes-{balancer.value}-{policy.value.lower()}"


@dataclass(frozen=True)
class ProfileFigure(Subject):
    """A figure of one load balancer, under one policy."""

    balancer: Balancer
    policy: TrafficPolicy
    what: What

    @property
    def part(self) -> str:
        """Return the load balancer and the policy."""
        return f"{self.balancer.value} {self.policy.value}"

    @property
    def traits(self) -> Mapping[str, str]:
        """Return the figure."""
        return {"what": self.what.value}

    @property
    def balanced(self) -> frozenset[str]:
        """Return what the cluster's own load balancer must carry."""
        if self.balancer is not Balancer.DEFAULT:
            return frozenset()
        words = (ANYTHING, Protocol.TCP.value, self.policy.value, Vantage.OUTSIDE.value)
        return frozenset(word.lower() for word in words)

    @property
    def dials_nodes(self) -> bool:
        """Return False: the client outside dials the VIP alone."""
        return False

    @property
    def own_service(self) -> str:
        """Return the Service, if it belongs to the cluster's own load balancer."""
        return service_name(self.balancer, self.policy) if self.balancer is Balancer.DEFAULT else ""


ProfileFigureCheck = Check[ProfileFigure]
