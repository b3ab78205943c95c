"""The evidence of endpoint changes: what happened behind each load balancer, on one clock. No I/O."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from esipp.base.plural import counted
from esipp.checks.endpoint_change import What
from esipp.checks.model import Balancer, Family
from esipp.judging.health_view import State
from esipp.judging.promise import Checking, Promise, Threshold
from esipp.judging.statistics import Distribution, binomial_p, power
from esipp.scenarios.endpoint_change.rest import Rest
from esipp.scenarios.endpoint_change.timeline import BalancerEvidence, Change, Timeline, timeline

LEAST_P = 0.001
"""Below this p-value a split is uneven: a fair load balancer fails once in a thousand tests."""

LEAST_POWER, UNEVEN = 0.95, 0.55
"""The power with which the test must tell a split of 55:45 from an equal one, or no split passes."""

FOR_POWER = 2463
"""Connections from which on it has this power (exact binomial test at ``LEAST_P``)."""

RIGHT = "503"
MOST_NAMED = 5


@dataclass(frozen=True)
class Observed:
    """Health probes in packets: the gaps between those of a node, and the failed ones before it was left."""

    sources: tuple[str, ...] = ()
    gaps: Distribution = field(default_factory=Distribution)
    failures: tuple[int, ...] = ()

    @property
    def checking(self) -> Checking:
        """The median gap, and the most failures before any node was left."""
        period = self.gaps.p50 if self.gaps.samples else None
        return Checking(period, max(self.failures) if self.failures else None)


@dataclass(frozen=True)
class Counted:
    """New connections through the VIP, by the node that answered; ``pods`` is the number of pods on each node.

    ``weights`` are those that the nodes' health checks reported meanwhile. ``control`` connections were made directly
    to nodePorts of these nodes at the same time; ``control_lost`` of them were lost.
    """

    nodes: Mapping[str, int]
    pods: Mapping[str, int]
    lost: int = 0
    weights: Mapping[str, int] = field(default_factory=dict)
    control: int = 0
    control_lost: int = 0

    @property
    def total(self) -> int:
        """The connections that were answered."""
        return sum(self.nodes.get(node, 0) for node in self.pods)

    @property
    def power(self) -> float:
        """The power to tell a split of 55:45 from an equal one with this number of connections."""
        return power(self.total, LEAST_P, UNEVEN) if self.total else 0.0

    @property
    def rest(self) -> Rest:
        """Their losses, which happened between endpoint changes."""
        return Rest(self.total + self.lost, self.lost, self.control, self.control_lost)

    @property
    def p_value(self) -> float:
        """The p-value of the split if both nodes are equally likely."""
        return self._p(0.5)

    @property
    def p_value_weighed(self) -> float | None:
        """The p-value of the split if each node gets the share of its weight; None without different weights."""
        weights = [self.weights.get(node, 0) for node in sorted(self.pods)]
        if len(weights) != 2 or set(self.weights) != set(self.pods) or not all(weights) or weights[0] == weights[1]:
            return None
        return self._p(weights[0] / sum(weights))

    def _p(self, share: float) -> float:
        first, *_ = (self.nodes.get(node, 0) for node in sorted(self.pods))
        return binomial_p(first, self.total, share) if self.total else 0.0


@dataclass(frozen=True)
class Health:
    """The load balancer's health view: the nodes that it reports as healthy, and those that should be."""

    healthy: frozenset[str]
    should: frozenset[str]


@dataclass(frozen=True)
class Result:
    """All results about one load balancer.

    Args:
        balancer: the load balancer.
        seen: its streams, marks and decisions.
        changes: its endpoint changes, pod by pod, in order; ``ends`` is the end of the time that belongs to each.
        opened: pods that were made ready apart from the changes, and when.
        sources: the addresses that pods may see as the source, by family; ``own`` are those of the client itself.
        reported: period and failures as the load balancer documents or reports them.
        observed: the same from packets.
        counted: the split between nodes, by family.
        views: the load balancer's health view, for a Service of each policy; under ``FREED`` the VIPs that it still has
            of a deleted Service.
        obstacle: why nothing could be probed.
        planned: the number of planned changes; 0 if unknown.
        promise: how fast it must follow, and who promises that.
        threshold: after how many failed health checks it leaves a node, by its profile.
        uncertainty: seconds by which the prober's clock may differ from ours.
        others: every known address of a node, a pod or a client.
        proxy: whether ``--provider`` says that the cluster's own load balancer is a proxy.
    """

    balancer: Balancer
    seen: BalancerEvidence
    changes: Sequence[Change] = ()
    ends: Mapping[int, float] = field(default_factory=dict)
    opened: Sequence[tuple[str, float]] = ()
    sources: Mapping[Family, frozenset[str]] = field(default_factory=dict)
    own: Mapping[Family, frozenset[str]] = field(default_factory=dict)
    reported: Checking = field(default_factory=Checking)
    observed: Observed = field(default_factory=Observed)
    counted: Mapping[Family, Counted] = field(default_factory=dict)
    views: Mapping[What, Health] = field(default_factory=dict)
    obstacle: str = ""
    planned: int = 0
    promise: Promise = field(default_factory=Promise)
    threshold: Threshold = field(default_factory=Threshold)
    uncertainty: float = 0.0
    others: frozenset[str] = frozenset()
    proxy: bool = False

    @property
    def cut_short(self) -> str:
        """A sentence if fewer changes were made than planned; empty if not."""
        made = len(self.changes)
        return f"only {made} of {self.planned} endpoint changes were made" if made < self.planned else ""

    def with_observed(self, observed: Observed) -> "Result":
        """The same result, with the load balancer's health checks as packets show them."""
        return replace(self, observed=observed)

    def timelines(self) -> list[Timeline]:
        """The timeline of each change."""
        return [timeline(change, self.ends[change.number], self.seen) for change in self.changes]


@dataclass(frozen=True)
class Poll:
    """One request and its answer, in seconds of our monotonic clock.

    Args:
        asked: when the request began.
        answered: when it was over.
        service: the Service of the load balancer.
        states: the reported state of each node that is a target.
        words: the provider's own terms, by node.
        times: the time of each state, by node, in seconds since the epoch, if the provider gives one.
        trouble: why there was no answer; empty if there was one.
    """

    asked: float
    answered: float
    service: str
    states: Mapping[str, State] = field(default_factory=dict)
    words: Mapping[str, str] = field(default_factory=dict)
    times: Mapping[str, float] = field(default_factory=dict)
    trouble: str = ""

    @property
    def healthy(self) -> frozenset[str]:
        """The nodes that it reported as healthy."""
        return frozenset(node for node, state in self.states.items() if state is State.HEALTHY)


@dataclass(frozen=True)
class Answers:
    """Equal answers of a node in a row, on our clock: a status or a failure, the time span, and the number.

    Where two of a node overlap, its answers took turns.
    """

    said: str
    since: float
    until: float
    count: int


@dataclass(frozen=True)
class Bystanders:
    """The answers of nodes without endpoint changes in a large cluster, which must say 503 all the time.

    Args:
        service: the Service of the health check.
        agents: the number of probing agents.
        pace: seconds between two probes of a node.
        answers: the answers of each probed node.
        asked: the number of nodes to probe.
        trouble: why they were not probed, or not to the end.
    """

    service: str
    agents: int
    pace: float
    answers: Mapping[str, Sequence[Answers]]
    asked: int
    trouble: str = ""

    @property
    def wrong(self) -> dict[str, list[Answers]]:
        """The nodes with other answers than 503, and these answers."""
        found = {
            node: [each for each in answers if each.said != RIGHT] for node, answers in sorted(self.answers.items())
        }
        return {node: stretches for node, stretches in found.items() if stretches}

    @property
    def finding(self) -> str:
        """The fault as a sentence; empty if there is none."""
        named = [f"{node} ({_said(answers)})" for node, answers in list(self.wrong.items())[:MOST_NAMED]]
        more = f" and {len(self.wrong) - MOST_NAMED} more" if len(self.wrong) > MOST_NAMED else ""
        if not named:
            return ""
        return (
            f"of {counted(len(self.answers), 'node')} that never had a pod of {self.service}, {len(self.wrong)} "
            f"answered its health check with something other than {RIGHT}: {', '.join(named)}{more}"
        )

    def lines(self) -> list[str]:
        """The lines of the summary; empty without such nodes."""
        if not self.asked:
            return []
        answers = sum(each.count for stretches in self.answers.values() for each in stretches)
        said = f"{counted(self.asked, 'node')} without endpoint changes, probed by {counted(self.agents, 'agent')}"
        said += f" every {self.pace:.1f} s"
        said += f": {counted(answers, 'answer')} from {counted(len(self.answers), 'node')}"
        said += f", all {RIGHT}" if self.answers and not self.wrong else ""
        lines = [said, *([f"  {self.finding}"] if self.wrong else [])]
        return lines + ([f"  incomplete: {self.trouble}"] if self.trouble else [])


def _said(stretches: Sequence[Answers]) -> str:
    counts: dict[str, int] = {}
    for each in stretches:
        counts[each.said] = counts.get(each.said, 0) + each.count
    return ", ".join(f"{said} x{count}" for said, count in sorted(counts.items()))


@dataclass(frozen=True)
class Moved:
    """The whole evidence: the results behind each load balancer, and how they were measured.

    Args:
        results: those of each load balancer.
        spacing: seconds between two requests through a VIP; ``timeout``: after which one is lost.
        packets: why the load balancers' own health checks were not captured on every node; empty if they were.
        bystanders: the answers of nodes without endpoint changes, if there were any to probe.
        polls: the polled health views of each load balancer that must be polled.
    """

    results: Mapping[Balancer, Result] = field(default_factory=dict)
    spacing: float = 0.0
    timeout: float = 0.0
    packets: str = ""
    bystanders: Bystanders | None = None
    polls: Mapping[Balancer, Sequence[Poll]] = field(default_factory=dict)

    @property
    def uncertainty(self) -> float:
        """Seconds by which the clock of any prober may differ from ours."""
        return max((result.uncertainty for result in self.results.values()), default=0.0)
