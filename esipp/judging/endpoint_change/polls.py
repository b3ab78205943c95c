"""What a load balancer that is asked again and again said of its nodes, held against the moves. Pure.

A poll is no decision: a node turned somewhere between the last poll that did not show it and the first that did, and
what is shown may be older still. So polls give bounds, beside the timeline, and no verdict rests on their times.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from esipp.checks.endpoint_change import What
from esipp.judging.endpoint_change.judge import Health
from esipp.judging.endpoint_change.timeline import Change
from esipp.judging.health_view import Share, State


@dataclass(frozen=True)
class Poll:
    """One question and its answer: seconds of our monotonic clock.

    Args:
        asked: when it began.
        answered: when it was over.
        service: whose load balancer was asked.
        states: what each node was taken for; nodes that are no targets are not in it.
        words: the provider's own words, by node.
        times: of when that is, by node, in seconds since the epoch, where the provider says so.
        trouble: why there was no answer; empty if there was.
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
        """The nodes that it took for healthy."""
        return frozenset(node for node, state in self.states.items() if state is State.HEALTHY)

    def share(self, nodes: int) -> Share:
        """How many of so many nodes that is."""
        return Share(len(self.healthy), nodes)

    def as_json(self) -> dict[str, Any]:
        """The poll as the ledger keeps it."""
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
    """When a change was shown: later than ``after`` and at ``by``, in seconds since its cause.

    ``after`` is 0 where the first poll after the cause showed it.
    """

    change: Change
    after: float
    by: float

    def as_json(self) -> dict[str, Any]:
        """The same as the ledger keeps it."""
        which = {"number": self.change.number, "node": self.change.node, "up": self.change.up}
        return {**which, "after": round(self.after, 4), "by": round(self.by, 4)}


def shown(polls: Sequence[Poll], changes: Sequence[Change], ends: Mapping[int, float]) -> list[Shown]:
    """The changes that polls show before their node's next one; there may be few, where moves are faster than polls.

    Args:
        polls: of one Service, in order.
        changes: its moves.
        ends: when what followed each was over.
    """
    found = []
    for number, change in enumerate(changes):
        same = (each.cause for each in changes[number + 1 :] if each.node == change.node)
        until = next(same, max(ends.values(), default=change.cause) + 1e9)
        before = [poll for poll in polls if poll.answered <= change.cause and not poll.trouble]
        if not before or (change.node in before[-1].healthy) is change.up:
            continue  # it was so before, as far as is known: nothing would follow from seeing it
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
    """What a summary says of it."""
    answered = [poll for poll in polls if not poll.trouble]
    told = f"the balancer's own view ({provider}): asked {len(polls)} times, every {interval:.0f} s or more"
    if len(answered) < len(polls):
        told += f", {len(polls) - len(answered)} of them in vain"
    said = [told]
    if seen:
        by = sorted(each.by for each in seen)
        said.append(f"  {len(seen)} of {moves} changes were shown, the last after {by[-1]:.0f} s at most")
    elif answered:
        said.append("  no change was shown before the next one: it is asked, or tells, too seldom")
    return said


def shares(views: Mapping[What, Health], nodes: Collection[str]) -> list[str]:
    """The share of healthy nodes after the moves, as the Azure portal shows it.

    Args:
        views: what was seen last, by check.
        nodes: those that load balancers must use.
    """
    said = []
    for what, policy in ((What.VIEW_CLUSTER, "Cluster"), (What.VIEW_LOCAL, "Local")):
        if view := views.get(what):
            share, should = Share(len(view.healthy), len(nodes)), Share(len(view.should), len(nodes))
            right = "as it should be" if view.healthy == view.should else f"where it should be {should}"
            said.append(f"  after the moves, {policy}: {share} of the nodes healthy, {right}")
    return said
