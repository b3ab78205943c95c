"""Losses between endpoint changes, compared with a control of the same client at the same time. Pure."""

import math
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from esipp.checks.model import Family
from esipp.judging.statistics import least_share, more_lost_p
from esipp.judging.timeline import SLICE_GONE, Mark, Stream
from esipp.scenarios.endpoint_change.timeline import QUIET, BalancerEvidence, Change, Doubt, Timeline

SETTLING = QUIET
"""Seconds after the last sign of a change that do not count as rest; a deleted pod settles only when it is gone."""

LEAST_LOST, LEAST_P = 3, 0.01
"""The load balancer is blamed from ``LEAST_LOST`` lost requests on, if a control that loses as often would show such a
difference in less than one of a hundred runs: losses of the network are not blamed on the load balancer."""

POWER = 0.95
"""The probability with which a loss must be detected that the verdict calls detectable."""

LEAST_CONTROL = 100
"""The fewest requests of the control: with fewer, losses cannot be judged."""

Window = tuple[float, float]


@dataclass(frozen=True)
class Rest:
    """Requests through the VIP between endpoint changes, and control requests to nodePorts of serving nodes."""

    asked: int = 0
    lost: int = 0
    control_asked: int = 0
    control_lost: int = 0

    def __add__(self, other: "Rest") -> "Rest":
        return Rest(
            self.asked + other.asked,
            self.lost + other.lost,
            self.control_asked + other.control_asked,
            self.control_lost + other.control_lost,
        )

    @property
    def p_value(self) -> float:
        """The probability of at least this difference to the control, if both lose as often."""
        return more_lost_p(self.lost, self.asked, self.control_lost, self.control_asked)

    @property
    def blames(self) -> bool:
        """Whether the losses count against the load balancer."""
        return self.lost >= LEAST_LOST and self.control_asked >= LEAST_CONTROL and self.p_value < LEAST_P

    @property
    def open(self) -> bool:
        """Whether there are losses without a sufficient control."""
        return self.lost >= LEAST_LOST and self.control_asked < LEAST_CONTROL

    @property
    def least_blamed(self) -> int:
        """The fewest losses that count against the load balancer if the control has none; 0 if no number does."""
        enough = (
            lost for lost in range(LEAST_LOST, self.asked + 1)
            if more_lost_p(lost, self.asked, 0, self.control_asked) < LEAST_P
        )  # fmt: skip
        return next(enough, 0) if self.control_asked >= LEAST_CONTROL else 0

    @property
    def sees(self) -> str:
        """The losses that would be detected, as text."""
        least = self.least_blamed
        if not least:
            return f"losses among the {self.asked} requests between changes cannot be distinguished from the control's"
        share = least_share(least, self.asked, POWER)
        return (
            f"with {self.asked} requests between changes, a loss of {share:.2%} or more is detected with a probability "
            f"of {POWER:.0%}"
        )

    @property
    def words(self) -> str:
        """The numbers as text."""
        said = f"{self.lost} of {self.asked} requests lost between endpoint changes"
        control = f"the control at nodePorts lost {self.control_lost} of {self.control_asked}"
        return f"{said}; {control}" + (f" (p={self.p_value:.2g})" if self.lost else "")


def windows(lines: Sequence[Timeline], marks: Iterable[Mark], doubts: Iterable[Doubt]) -> list[Window]:
    """The times of rest: no change in progress, no terminating pod, and no wrong health check."""
    gone: dict[str, float] = {mark.pod: mark.at for mark in marks if mark.what in ("gone", SLICE_GONE)}
    busy = [(line.change.cause - 0.1, _settled(line, gone) + SETTLING) for line in lines]
    busy += [(each.since, each.until) for each in doubts]
    if not lines:
        return []
    found, free = [], min(line.change.cause for line in lines)
    end = max(line.until for line in lines)
    for since, until in sorted(busy):
        if since > free:
            found.append((free, min(since, end)))
        free = max(free, until)
    return [*found, *([(free, end)] if free < end else [])]


def _settled(line: Timeline, gone: Mapping[str, float]) -> float:
    if not line.health_followed or (
        not line.change.up and any(not seen.steady for seen in line.traffic.values() if seen.used)
    ):
        return line.until
    moments = [line.change.cause, line.trigger, line.slice, line.path, *line.health.values()]
    moments += [each for seen in line.traffic.values() for each in (seen.at, seen.decision)]
    if line.change.graceful:
        moments.append(gone.get(line.change.pod, math.inf))
    return max(at for at in moments if at is not None)


def at_rest(seen: BalancerEvidence, family: Family, changes: Sequence[Change], found: Sequence[Window]) -> Rest:
    """The losses in these windows at the VIP, and at the nodePorts of nodes with a ready pod."""
    vip = _count([seen.vip[family]], found)
    control = Rest()
    streams = seen.ports if family is next(iter(seen.vip)) or not seen.beside else seen.beside
    for node, stream in streams.items():
        control += _count([stream], [window for window in found if serves(node, window[0], changes)])
    return Rest(vip.asked, vip.lost, control.asked, control.lost)


def serves(node: str, at: float, changes: Sequence[Change]) -> bool:
    """Whether a node has a ready pod at a time: its last change added one, or its first change will remove one."""
    own = [change for change in changes if change.node == node]
    before = bisect_right([change.cause for change in own], at)
    return own[before - 1].up if before else bool(own) and not own[0].up


def _count(streams: Iterable[Stream], found: Iterable[Window]) -> Rest:
    samples = [each for stream in streams for since, until in found for each in stream.view(since, until)]
    return Rest(len(samples), sum(not each.answered for each in samples))
