"""Events on the time line of a scenario: what our watches saw, and what load balancers report. Pure."""

from dataclasses import dataclass
from typing import NamedTuple

UNREADY_BESIDE = "slice-unready-beside"


@dataclass(frozen=True)
class Mark:
    """An event of our watches: when it arrived, its pod, and its kind.

    ``what``: ``ready``, ``unready``, ``deleting``, ``gone`` for a Pod; ``slice-ready``, ``slice-unready``,
    ``slice-gone`` for an endpoint in the EndpointSlice of ``family``; ``slice-unready-beside`` for one that is no
    longer a ready endpoint of another Service over the same pods.
    """

    at: float
    what: str
    pod: str
    family: str = ""


@dataclass(frozen=True)
class Decision:
    """A decision that the load balancer reports: a node is healthy or not from ``at`` on, on our clock.

    ``family`` is that of the VIP it is about; empty for all of them.
    """

    at: float
    node: str
    healthy: bool
    family: str = ""


class Steer(NamedTuple):
    """The load balancer's report that it changed the nodes to which it sends requests."""

    at: float
    family: str
    nodes: tuple[str, ...]
    why: str = ""
