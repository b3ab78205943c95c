"""The evidence of the interoperability scenarios, as their judge reads it. No I/O."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from esipp.checks.health import Answer
from esipp.checks.interoperability import Kind
from esipp.checks.model import Family, Role
from esipp.judging.controls import Counts
from esipp.judging.frame import Interruptions
from esipp.judging.observation import Reading
from esipp.scenarios.health.evidence import Node

Lookup = tuple[str, str, Family]
"""A claim, a client's name and a family."""

WATCHER = "outside-1"
"""The client that probes in the scenarios."""


@dataclass(frozen=True)
class Ways:
    """The client's connectivity to each node without a Service.

    Args:
        reached: whether the node's control listener answered at all.
        strange: the source it saw instead of the client's own address, as text; empty if it saw the client's own.
        counts: the lost requests to it.
    """

    reached: Mapping[Node, bool] = field(default_factory=dict)
    strange: Mapping[Node, str] = field(default_factory=dict)
    counts: Mapping[Node, Counts] = field(default_factory=dict)

    def lost(self, family: Family | None) -> Counts:
        """The losses at all nodes, over one family or any."""
        own = [counts for (_, of), counts in self.counts.items() if family in (None, of)]
        return Counts(sum(each.lost for each in own), sum(each.requests for each in own))


@dataclass
class Neighbours:
    """The evidence about Service A while another Service B was changed.

    Args:
        name: namespace and name of A.
        answers: the answers of A's health check, by node.
        dialled: the results at A's nodePort, by node.
        other: the answers of B's health check meanwhile, as text by node: proof that the changes reached the nodes.
        changes: the changes of B, in order, with the seconds until B's health check showed each.
        before, after: A's object, without the server's record of its writers.
        ways: the client's connectivity to each node, in the same window.
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
    """The evidence about many Services at once.

    Args:
        names: the Services of each kind.
        seconds: from the first creation until all were created, programmed, and so on.
        late: the state at the end of the wait, as text, if not all of them were programmed.
        dialled: the results at each Service's nodePort, by kind and node.
        answers: the answers of each health check, by Service and node.
        ports: every nodePort and health-check node port, by Service.
        gone: the answers at the former health-check node ports after the deletion, as text.
        ways: the client's connectivity to each node, in the same window.
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
    """The evidence about DNS names.

    Args:
        domain: the cluster domain in the resolver configuration of our pods.
        wanted: the expected addresses of each claim's name, from the API server, by claim and family.
        resolved: the resolved addresses as text, by claim, client and family.
        dialled: the results of a client at the address that it resolved.
        direct: its results at the pod's own address meanwhile, without a Service.
        vips: the addresses of the load balancer, to which a name must not resolve.
        trouble: why a prober could not resolve, by claim, client and family.
    """

    domain: str = ""
    wanted: dict[tuple[str, Family], str] = field(default_factory=dict)
    resolved: dict[Lookup, Counter[str]] = field(default_factory=dict)
    dialled: dict[tuple[str, Family], list[Reading]] = field(default_factory=dict)
    direct: dict[tuple[str, Family], list[Reading]] = field(default_factory=dict)
    vips: dict[Family, str] = field(default_factory=dict)
    trouble: dict[Lookup, str] = field(default_factory=dict)


@dataclass
class InteroperabilityEvidence(Interruptions):
    """The whole evidence of the suite."""

    neighbours: Neighbours | None = None
    many: Many | None = None
    names: Names | None = None
