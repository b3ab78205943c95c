"""The checks: for each thing that is done while traffic flows, and each way by which it flows, what must hold."""

from collections.abc import Iterator

from esipp.checks.check import Difference, Level
from esipp.checks.continuity import MOVED, REHASHED, UNREWRITTEN, ContinuityCheck
from esipp.checks.disruption import feature_of
from esipp.checks.endpoint_change import PROXIED
from esipp.checks.model import Balancer, Family, TrafficPolicy
from suites.continuity.requirements import *
from suites.known_differences.proxies import by_proxy
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
"""In these a node says 503, or drops, while a load balancer still sends requests to it: it may lose them for as long as
its health checks need."""

LAST_POD_GOES = {Phase.ROLLING_UPDATE, Phase.DELETED, Phase.DRAIN, Phase.FLAPS, Phase.KUBELET}
"""In these the endpoint node has no pod for a while: its nodePort of a Local service must not be answered then."""

OWN_DOING = {Phase.EXCLUDE, Phase.SPEAKER, Phase.KUBELET}
"""In these the cluster's own load balancer is itself what is disturbed, or may change its nodes."""

MOVES = {*LAST_POD_GOES, Phase.FLIPS}
"""In these the cluster's own load balancer may change its nodes for a Local service. What that costs is held against
its bound. Where nobody promises one it is recorded: MetalLB, say, makes no health checks."""


def about_losses(phase: Phase, way: Way) -> What:
    """What is promised of losses."""
    if way.by == DEFAULT:
        unsure = phase in OWN_DOING or (way.local and phase in MOVES)
        return What.LOSSES if unsure else What.NO_LOSS
    if way == Way(NODEPORT, LOCAL):
        return What.LOSSES if phase in LAST_POD_GOES else What.NO_LOSS
    return What.GAP if way.local and phase in BY_HEALTH_CHECKS else What.NO_LOSS


def asked(phase: Phase, way: Way) -> Iterator[What]:
    yield about_losses(phase, way)
    yield What.SOURCE
    if phase is Phase.FLIPS and way.local:
        yield What.PROMPT
    yield What.PLACE
    yield What.LASTING
    if way == Way(NODEPORT, LOCAL) and phase in (Phase.ROLLING_UPDATE, Phase.DELETED, Phase.DRAIN):
        yield What.TERMINATING


def level(phase: Phase, way: Way, what: What) -> Level:
    """Extended where it is only asked with leave to disturb others: else no usual run would be whole."""
    if what is What.LOSSES:
        bounded = way.by == DEFAULT and phase is not Phase.SPEAKER
        return Level.EXTENDED if bounded else Level.RECORD
    if phase.disruption or what in (What.NO_LOSS, What.GAP, What.LASTING, What.PROMPT):
        return Level.EXTENDED
    by_contract = what in (What.PLACE, What.TERMINATING) or (way.local and way.by not in PROXIES)
    return Level.CORE if by_contract else Level.EXTENDED


STATELESS = Difference(
    when=(),
    seen=REHASHED,
    reason="a forwarder without connection tracking (ECMP) moves connections that are open while its routes change to "
    "another node, which resets them",
    references=(RFC_2992,),
    by_chance=True,
    evidence="Nothing but connections that were open while the balancer changed its routes was lost, and these were "
    "reset.",
    hides="A node that resets connections while routes change.",
)


MOVED_VIP = Difference(
    when=(),
    seen=MOVED,
    reason="the cluster's own load balancer moved the VIP to another node because of what was done; that node knows "
    "nothing of connections that are open",
    references=(METALLB_LAYER_2,),
    by_chance=True,
    evidence="Another node took new connections right after the break, something was done to one of the two nodes, and "
    "the break came within the load balancer's bound after that, or within 10 s.",
    hides="A VIP that wanders without a reason within that time.",
)

UNTOUCHED = Difference(
    when=(("service-proxy", "cilium"),),
    seen=UNREWRITTEN,
    reason="Cilium does not rewrite the source on the way to a backend of the same node",
    references=(CILIUM_NO_REWRITE,),
    evidence="All other sources that were seen under Cluster are the client's own.",
    hides="Nothing that the API promises: the answer came back, and the source is the true one.",
)


def differences(phase: Phase, way: Way, what: What) -> Iterator[Difference]:
    """What may be seen instead, and why."""
    if way.by == ECMP and what in (What.NO_LOSS, What.LASTING):
        yield STATELESS
    if way.by == DEFAULT and what is What.LASTING and phase in ((MOVES if way.local else set()) | OWN_DOING):
        yield MOVED_VIP
    if what in (What.SOURCE, What.PROMPT) and way.by == DEFAULT:
        yield from by_proxy(PROXIED)
    if what is What.SOURCE and not way.local:
        yield UNTOUCHED


def check(phase: Phase, way: Way, family: Family, what: What) -> ContinuityCheck:
    features = {"vantage.outside", "nodes.three", f"family.{family.value.lower()}"}
    if way.by != NODEPORT:
        features.add("load-balancer" if way.by == DEFAULT else f"load-balancer.{way.by}")
    if phase.disruption:
        features |= {"disruptive", feature_of(phase.disruption)}
    return ContinuityCheck(
        id=f"{SUITE}.{phase.value}.{way.slug}.{family.value.lower()}.{what.value}",
        requirement=requirement(phase, way, what),
        level=level(phase, way, what),
        suite=SUITE,
        references=references(phase, way, what),
        features=frozenset(features),
        phase=phase,
        way=way,
        family=family,
        what=what,
        differences=tuple(differences(phase, way, what)),
    )


CHECKS = [
    check(phase, way, family, what)
    for phase in Phase
    for way in WAYS
    for family in Family
    for what in asked(phase, way)
]
"""Continuity; the checks say what is required, the timeline of all requests whether it holds."""
