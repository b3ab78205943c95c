"""How fast a load balancer has to follow, and who says so: the user, the named profile, or the one found. Pure.

The load balancer's own word and what packets show are no promise: the accused would set its own bound. They stand
beside it in the verdict.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from esipp.checks.profile import Grade, LoadBalancer

NOBODY = "no profile and no --bound says how fast this load balancer has to follow"
BY_USER = "--bound"
AS_STARTED = "the settings that we started it with"


@dataclass(frozen=True)
class Promise:
    """What a load balancer has to keep.

    Args:
        seconds: from a node's 503 until no request is lost by way of it; None where nobody promises anything.
        source: who says so; where nobody does, a sentence that tells this.
        spreads: whether it uses all healthy nodes at once; None where that is not known.
        by_checks: whether it goes by health checks of the nodes, as far as is known.
        known: whether anything at all is known of this load balancer.
    """

    seconds: float | None = None
    source: str = NOBODY
    spreads: bool | None = None
    by_checks: bool = False
    known: bool = False

    @property
    def words(self) -> str:
        """The bound and whose it is."""
        return self.source if self.seconds is None else f"bound {self.seconds:.2f} s by {self.source}"


def promise_of(profiles: Sequence[LoadBalancer], *, sure: bool, bound: float | None = None) -> Promise:
    """What the cluster's own load balancer has to keep.

    Args:
        profiles: what it is taken for; where several fit, all of them must promise something, and the longest counts.
        sure: whether somebody named the profile; else only documented figures promise anything.
        bound: what the user says, which comes first.
    """
    spread = {each.spreads.value if each.spreads else None for each in profiles}
    spreads = spread.pop() if len(spread) == 1 else None
    by_checks = bool(profiles) and all(each.local.on for each in profiles)
    if bound is not None:
        return Promise(bound, BY_USER, spreads, by_checks, True)
    named = " or ".join(each.name for each in profiles)
    told = [(each.bound, each) for each in profiles if sure or _documented(each)]
    longest = max(((seconds, each) for seconds, each in told if seconds is not None), key=lambda x: x[0], default=None)
    if longest is None or any(seconds is None for seconds, _ in told) or len(told) < len(profiles):
        why = f"profile {named} has no bound, and no --bound was given" if named else NOBODY
        return Promise(None, why, spreads, by_checks, bool(profiles))
    seconds, profile = longest
    how = "--provider" if sure else "found"
    return Promise(seconds, f"profile {profile.name} ({how}): {_figures(profile)}", spreads, by_checks, True)


def promise_of_reference(settings: Mapping[str, Any]) -> Promise:
    """What the reference load balancer has to keep: an instrument of ours, held to the settings that we gave it."""
    if not {"period", "unhealthy"} <= settings.keys():
        return Promise(None, "the reference load balancer does not tell its settings", True, True, True)
    failures, period = int(settings["unhealthy"]), float(settings["period"])
    return Promise((failures + 1) * period, f"{AS_STARTED}: N={failures}, period {period:g} s", True, True, True)


def _documented(profile: LoadBalancer) -> bool:
    """Whether the figures of its bound are written by whoever makes it."""
    figures = [profile.own_bound] if profile.own_bound else [profile.local.period, profile.local.unhealthy]
    return all(each is not None and each.grade is Grade.DOCUMENTED for each in figures)


def _figures(profile: LoadBalancer) -> str:
    check = profile.local
    if profile.own_bound or check.unhealthy is None or check.period is None:
        return "its own bound"
    return f"(N+1) x period, N={check.unhealthy.value}, period {check.period.value:g} s"


@dataclass(frozen=True)
class Bound:
    """Seconds after which a load balancer must have left a node, and whose word that is."""

    seconds: float
    source: str
