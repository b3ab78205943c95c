"""Timeouts: how long a run waits for load balancers, by their profiles or by defaults. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from esipp.base.json import Json
from esipp.checks.model import Family
from esipp.checks.profile import Figure, LoadBalancer
from esipp.checks.timing import promise_of_reference
from esipp.loadbalancers.profiles.words import takes

ASSIGNED, ANSWERING, REMOVED = 60.0, 30.0, 90.0
"""Seconds where nothing is known of it: until a VIP is there, until it answers, until it is gone with our namespace."""

MORE_ASSIGNED, MORE_ANSWERING = 10.0, 4.0
"""So many times what the user bounds its steering by (``--bound``) are waited besides: what follows pods slowly is made
slowly, too. The slowest of the profiles with both figures (a Classic ELB, 70 s) is made within six of its bounds."""


@dataclass(frozen=True)
class Timeouts:
    """The limits in seconds.

    Args:
        assigned: until a VIP is there.
        answering: from then until every path that must answer does.
        removed: until the namespace is gone, and its load balancers with it.
        steering: until traffic follows a pod, as far as is known.
        remark: how long that takes as a rule, for whoever waits: ``an NLB takes 3 to 5 minutes``.
        families: those that a VIP can have; empty where nothing is known: every one.
        protocols: those that are carried; likewise.
    """

    assigned: float = ASSIGNED
    answering: float = ANSWERING
    removed: float = REMOVED
    steering: float | None = None
    remark: str = ""
    families: frozenset[str] = frozenset()
    protocols: frozenset[str] = frozenset()

    def after(self, set_up: float) -> "Timeouts":
        """The same, after all Services got their VIPs in this time: first answers get at least as long.

        A load balancer that nobody knows, and that took minutes to give VIPs, is not done within half of one.
        """
        return replace(self, answering=max(self.answering, set_up))

    def named(self, name: str) -> str:
        """What is waited for, with how long that takes as a rule."""
        return f"{name} ({self.remark})" if self.remark else name

    def expected(self, service: Json) -> set[Family]:
        """The families in which a Service gets a VIP; none where no port of it is carried.

        A class of ours says nothing of the cluster's own load balancer.
        """
        spec = service["spec"]
        families = {Family(each) for each in spec.get("ipFamilies") or ()}
        if spec.get("loadBalancerClass"):
            return families
        ports = {port.get("protocol", "TCP") for port in spec.get("ports") or ()}
        if self.protocols and not ports <= self.protocols:
            return set()
        return {family for family in families if not self.families or family.value in self.families}


USUAL = Timeouts()


def timeouts_of(profiles: Sequence[LoadBalancer], *, sure: bool = True, bound: float | None = None) -> Timeouts:
    """The timeouts for these profiles: the most that any of them needs.

    Args:
        profiles: what the load balancer is taken for.
        sure: whether somebody said so. What was only found may get more time, and nothing is ruled out there.
        bound: what the user says that it takes to steer; waits grow with it, and never shrink by it.
    """
    known = _known(profiles, sure=sure)
    if bound is None:
        return known
    return replace(
        known,
        assigned=max(known.assigned, ASSIGNED + MORE_ASSIGNED * bound),
        answering=max(known.answering, ANSWERING + MORE_ANSWERING * bound),
        steering=max(known.steering or 0.0, bound),
    )


def slowest(profiles: Iterable[LoadBalancer]) -> float:
    """Seconds that the slowest profile takes to follow a pod, up or down: the limit for an unknown load balancer."""
    return max((each for profile in profiles for each in (profile.bound, profile.rise) if each), default=0.0)


def _known(profiles: Sequence[LoadBalancer], *, sure: bool) -> Timeouts:
    """See ``timeouts_of``, without what the user says."""
    if not profiles:
        return USUAL

    def most(name: str, usual: float) -> float:
        figures: Iterable[Figure[float] | None] = (getattr(each.times, name) for each in profiles)
        return max([usual, *(each.value for each in figures if each)])

    steering = [
        each
        for profile in profiles
        for each in (profile.bound or profile.local.bound, profile.rise)
        if each is not None
    ]
    families = frozenset(family.value for profile in profiles for family in profile.carries.families.value)
    protocols = frozenset(protocol.value for profile in profiles for protocol in profile.carries.protocols.value)
    return Timeouts(
        most("created", ASSIGNED),
        most("answering", ANSWERING),
        most("removed", REMOVED),
        max(steering, default=None),
        next((remark for remark in map(takes, profiles) if remark), ""),
        families if sure else frozenset(),
        protocols if sure else frozenset(),
    )


def steering_of(
    profiles: Sequence[LoadBalancer], settings: Mapping[str, Any], bound: float | None = None
) -> float | None:
    """The known maximum time in seconds until any load balancer here has left a node.

    Args:
        profiles: what the cluster's own load balancer is taken for.
        settings: the reference load balancer's, if there is one.
        bound: what the user says of the cluster's own.
    """
    bounds = [timeouts_of(profiles, bound=bound).steering, promise_of_reference(settings).seconds]
    return max((each for each in bounds if each is not None), default=None)
