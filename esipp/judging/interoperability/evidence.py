"""What was seen in the inter-operation trials: the evidence that the judge reads. Without any I/O."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from esipp.checks.health import Answer
from esipp.checks.interoperability import Kind
from esipp.checks.model import Family, Role
from esipp.judging.controls import Counts
from esipp.judging.course import Course
from esipp.judging.health.evidence import Node
from esipp.judging.reading import Reading

Lookup = tuple[str, str, Family]
"""A claim, a client's name and a family."""

WATCHER = "outside-1"
"""The client that asks and dials in the trials."""


@dataclass(frozen=True)
class Ways:
    """What the client's way to each node is worth.

    Args:
        reached: whether its reference listener answered at all.
        strange: what it saw instead of the client's own address, in words; empty where it saw just that.
        counts: how many requests to it were lost.
    """

    reached: Mapping[Node, bool] = field(default_factory=dict)
    strange: Mapping[Node, str] = field(default_factory=dict)
    counts: Mapping[Node, Counts] = field(default_factory=dict)

    def lost(self, family: Family | None) -> Counts:
        """What the way to all nodes lost, over one family or any."""
        own = [counts for (_, of), counts in self.counts.items() if family in (None, of)]
        return Counts(sum(each.lost for each in own), sum(each.requests for each in own))


@dataclass
class Neighbours:
    """What was seen of service A while its neighbour B was changed.

    Args:
        name: namespace and name of A.
        answers: of A's health check, by node.
        dialled: what A's nodePort gave, by node.
        other: what B's health check said meanwhile, in words, by node: that the changes reached the nodes.
        changes: what was done to B, in order, and after how many seconds B's health check told so.
        before, after: A's object, but for what the server keeps of its writers.
        ways: what the client's way to each node is worth, in the same window.
    """

    name: tuple[str, str] = ("", "")
    answers: dict[Node, list[Answer]] = field(default_factory=dict)
    dialled: dict[Node, list[Reading]] = field(default_factory=dict)
    other: dict[Node, Counter[str]] = field(default_factory=dict)
    changes: list[tuple[str, float]] = field(default_factory=list)
    before: Mapping[str, Any] = field(default_factory=dict)
    after: Mapping[str, Any] = field(default_factory=dict)
    ways: Ways = field(default_factory=Ways)


@dataclass
class Many:
    """What was seen of many services at once.

    Args:
        names: the services of each kind.
        seconds: from the first creation until all were created, programmed, and so on.
        late: how waiting for them ended, in words, where not all of them ever were programmed.
        dialled: what each service's nodePort gave, by kind and node.
        answers: what each health check said, by service and node.
        ports: every nodePort and health-check node port, by service.
        gone: after the deletion, what each node said at the ports that were health checks, in words.
        ways: what the client's way to each node is worth, in the same window.
    """

    names: dict[Kind, list[str]] = field(default_factory=dict)
    namespace: str = ""
    seconds: dict[str, float] = field(default_factory=dict)
    late: str = ""
    dialled: dict[tuple[Kind, Role], dict[str, list[Reading]]] = field(default_factory=dict)
    answers: dict[str, dict[Node, list[Answer]]] = field(default_factory=dict)
    ports: dict[str, list[int]] = field(default_factory=dict)
    gone: dict[str, Counter[str]] = field(default_factory=dict)
    ways: Ways = field(default_factory=Ways)


@dataclass
class Names:
    """What was resolved.

    Args:
        domain: the cluster domain, as our pods' resolvers have it.
        wanted: what each claim's name stands for, as the API server tells it, by claim and family.
        told: what was resolved, in words, by claim, client and family.
        dialled: what a client got at the address that it had resolved.
        direct: what it got at the pod's own address meanwhile, with no Service in the way.
        vips: the addresses that a name must not resolve to: the load balancer's.
        trouble: why a prober could not ask, by claim, client and family.
    """

    domain: str = ""
    wanted: dict[tuple[str, Family], str] = field(default_factory=dict)
    told: dict[Lookup, Counter[str]] = field(default_factory=dict)
    dialled: dict[tuple[str, Family], list[Reading]] = field(default_factory=dict)
    direct: dict[tuple[str, Family], list[Reading]] = field(default_factory=dict)
    vips: dict[Family, str] = field(default_factory=dict)
    trouble: dict[Lookup, str] = field(default_factory=dict)


@dataclass
class Seen(Course):
    """Everything that was seen."""

    neighbours: Neighbours | None = None
    many: Many | None = None
    names: Names | None = None
