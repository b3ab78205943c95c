"""Polled health views of a load balancer, compared with the endpoint changes. Pure.

A poll is no decision: a node's state changed between the last poll with the old state and the first with the new one,
and a report may be older still. So polls give bounds next to the timeline, and no verdict depends on their times.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from esipp.checks.endpoint_change import What
from esipp.judging.health_view import Share, State
from esipp.scenarios.endpoint_change.judge import Health
from esipp.scenarios.endpoint_change.timeline import Change


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

    def share(self, nodes: int) -> Share:
        """The share of healthy nodes."""
        return Share(len(self.healthy), nodes)

    def as_json(self) -> dict[str, Any]:
        """The poll as a ledger record."""
        told: dict[str, Any] = {
            "asked": round(self.asked, 4),
            "answered": round(self.answered, 4),
            "service": self.service,
            "states": {node: state.value for node, state in sorted(self.states.items())},
            "words": dict(sorted(self.words.items())),
        }
        told |= {"times": dict(sorted(self.times.items()))} if self.times else {}
        return told | ({"trouble": self.trouble} if self.trouble else {})


@dataclass(frozen=True)
class Shown:
    """When polls showed a change: later than ``after`` and by ``by``, in seconds since its cause.

    ``after`` is 0 if the first poll after the cause showed it.
    """

    change: Change
    after: float
    by: float

    def as_json(self) -> dict[str, Any]:
        """The same as a ledger record."""
        which = {"number": self.change.number, "node": self.change.node, "up": self.change.up}
        return {**which, "after": round(self.after, 4), "by": round(self.by, 4)}


def shown(polls: Sequence[Poll], changes: Sequence[Change], ends: Mapping[int, float]) -> list[Shown]:
    """The changes that polls show before their node's next one; few, if changes are faster than polls.

    Args:
        polls: those of one Service, in order.
        changes: its endpoint changes.
        ends: the end of the time that belongs to each change.
    """
    found = []
    for number, change in enumerate(changes):
        same = (each.cause for each in changes[number + 1 :] if each.node == change.node)
        until = next(same, max(ends.values(), default=change.cause) + 1e9)
        before = [poll for poll in polls if poll.answered <= change.cause and not poll.trouble]
        if not before or (change.node in before[-1].healthy) is change.up:
            continue  # as far as known, the state was the same before: a poll would prove nothing
        last = 0.0
        for poll in polls:
            if poll.trouble or poll.asked < change.cause or poll.asked >= until:
                continue
            if (change.node in poll.healthy) is change.up:
                found.append(Shown(change, last, poll.answered - change.cause))
                break
            last = poll.asked - change.cause
    return found


def lines(provider: str, interval: float, polls: Sequence[Poll], seen: Sequence[Shown], moves: int) -> list[str]:
    """The lines of the summary."""
    answered = [poll for poll in polls if not poll.trouble]
    told = f"the load balancer's health view ({provider}): polled {len(polls)} times, every {interval:.0f} s or more"
    if len(answered) < len(polls):
        told += f", {len(polls) - len(answered)} of them without an answer"
    said = [told]
    if seen:
        by = sorted(each.by for each in seen)
        said.append(f"  polls showed {len(seen)} of {moves} endpoint changes, each within {by[-1]:.0f} s")
    elif answered:
        said.append("  polls showed no change before the next one: they are too rare, or the reports too old")
    return said


def shares(views: Mapping[What, Health], nodes: Collection[str]) -> list[str]:
    """The share of healthy nodes after the endpoint changes, as the Azure portal shows it.

    Args:
        views: the last views, by check.
        nodes: those that load balancers must use.
    """
    said = []
    for what, policy in ((What.VIEW_CLUSTER, "Cluster"), (What.VIEW_LOCAL, "Local")):
        if view := views.get(what):
            share, should = Share(len(view.healthy), len(nodes)), Share(len(view.should), len(nodes))
            right = "as expected" if view.healthy == view.should else f"expected {should}"
            said.append(f"  after the endpoint changes, {policy}: {share} of the nodes healthy, {right}")
    return said
