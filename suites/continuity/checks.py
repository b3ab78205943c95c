"""Checks of the continuity suite: for each change during steady traffic, and each way into the cluster."""

from collections.abc import Iterator

from esipp.checks.check import Check, Level
from esipp.checks.continuity import MOVED, Continuity
from esipp.checks.known_differences import PROXIED, KnownDifference
from esipp.checks.model import Balancer, Family, TrafficPolicy
from suites.clients import OUTSIDE_1
from suites.continuity.requirements import *
from suites.known_differences.balancers import STATELESS, by_proxy
from suites.known_differences.cilium import DURING_CHANGES
from suites.needs import needs
from suites.references import *

LOCAL, CLUSTER = TrafficPolicy.LOCAL, TrafficPolicy.CLUSTER
DEFAULT, ECMP, PROXY = (each.value for each in (Balancer.DEFAULT, Balancer.ECMP, Balancer.PROXY))

WAYS = (
    Way(DEFAULT, LOCAL),
    Way(ECMP, LOCAL),
    Way(PROXY, LOCAL),
    Way(NODEPORT, LOCAL),
    Way(DEFAULT, CLUSTER),
    Way(ECMP, CLUSTER),
    Way(NODEPORT, CLUSTER),
)

BY_HEALTH_CHECKS = {Phase.FLAPS, Phase.FLIPS, Phase.KUBELET}
"""Phases in which a node answers 503, or drops, while a load balancer still sends requests to it. The load balancer may
lose requests for as long as its health checks need."""

LAST_POD_GOES = {Phase.ROLLING_UPDATE, Phase.DELETED, Phase.DRAIN, Phase.FLAPS, Phase.KUBELET}
"""Phases in which the endpoint node has no pod for a while, so its nodePort of a Local Service must not answer then."""

DISTURBS_BALANCER = {Phase.EXCLUDE, Phase.SPEAKER, Phase.KUBELET}
"""Phases that disturb the cluster's own load balancer itself, or may make it change its nodes."""

CHANGES_NODES = {*LAST_POD_GOES, Phase.FLIPS}
"""Phases in which the cluster's own load balancer may change its nodes for a Local Service. Losses are compared with
its bound, or recorded if there is none. MetalLB, for example, has no health checks."""


def about_losses(phase: Phase, way: Way) -> What:
    """Return which claim about losses holds."""
    if way.by == DEFAULT:
        unsure = phase in DISTURBS_BALANCER or (way.local and phase in CHANGES_NODES)
        return What.LOSSES if unsure else What.NO_LOSS
    if way == Way(NODEPORT, LOCAL):
        return What.LOSSES if phase in LAST_POD_GOES else What.NO_LOSS
    return What.GAP if way.local and phase in BY_HEALTH_CHECKS else What.NO_LOSS


def claims(phase: Phase, way: Way) -> Iterator[What]:
    yield about_losses(phase, way)
    yield What.SOURCE
    if phase is Phase.FLIPS and way.local:
        yield What.PROMPT
    yield What.PLACE
    yield What.LASTING
    if way == Way(NODEPORT, LOCAL) and phase in (Phase.ROLLING_UPDATE, Phase.DELETED, Phase.DRAIN):
        yield What.TERMINATING


def level(phase: Phase, way: Way, what: What) -> Level:
    """Return the level. Checks of disruptions are extended, because core ones would make every usual run PARTIAL."""
    if what is What.LOSSES:
        bounded = way.by == DEFAULT and phase is not Phase.SPEAKER
        return Level.EXTENDED if bounded else Level.RECORD
    if phase.disruption or what in (What.NO_LOSS, What.GAP, What.LASTING, What.PROMPT):
        return Level.EXTENDED
    by_contract = what in (What.PLACE, What.TERMINATING) or (way.local and way.by not in PROXIES)
    return Level.CORE if by_contract else Level.EXTENDED


MOVED_VIP = KnownDifference(
    when=(),
    covers=MOVED,
    reason="the cluster's own load balancer moved the VIP to another node because of the change; that node does not "
    "know established connections",
    references=(METALLB_LAYER_2,),
    by_chance=True,
    evidence="Another node accepted new connections right after the break, something changed on one of the two nodes, "
    "and the break came within the load balancer's bound after that, or within 10 s.",
    hides="A VIP that changes its node for another reason within that time.",
)


def differences(phase: Phase, way: Way, what: What) -> Iterator[KnownDifference]:
    """Yield the known differences of a check."""
    if way.by == ECMP and what in (What.NO_LOSS, What.LASTING):
        yield STATELESS
    unsettled = DISTURBS_BALANCER | (CHANGES_NODES if way.local else set())
    if way.by == DEFAULT and what is What.LASTING and phase in unsettled:
        yield MOVED_VIP
    if what in (What.SOURCE, What.PROMPT) and way.by == DEFAULT:
        yield from by_proxy(PROXIED)
    if what is What.SOURCE and not way.local:
        yield DURING_CHANGES


def check(phase: Phase, way: Way, family: Family, what: What) -> Check[Continuity]:
    return Check(
        id=f"{SUITE}.{phase.value}.{way.slug}.{family.value.lower()}.{what.value}",
        requirement=requirement(phase, way, what),
        level=level(phase, way, what),
        suite=SUITE,
        references=references(phase, way, what),
        features=needs(
            "nodes.three", client=OUTSIDE_1, family=family, balancer=way.balancer, disruption=phase.disruption
        ),
        subject=Continuity(phase, way, family, what),
        expected=EXPECTED[what],
        fails_if=FAILS_IF[what],
        asked=ASKED,
        differences=tuple(differences(phase, way, what)),
    )


CHECKS = [
    check(phase, way, family, what)
    for phase in Phase
    for way in WAYS
    for family in Family
    for what in claims(phase, way)
]
"""Continuity; the checks say what is required, the timeline of all requests whether it holds."""
