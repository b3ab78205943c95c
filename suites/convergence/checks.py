"""Checks of the convergence suite: each load balancer, and the nodes, while endpoints change."""

from esipp.checks.check import HEALTH_VIEW, Check, Level
from esipp.checks.endpoint_change import AFTER_503, PROXIES, WEIGHED, EndpointChange, What
from esipp.checks.known_differences import PROXIED, KnownDifference, Nature
from esipp.checks.model import Balancer, Family
from esipp.checks.required_features import PACKETS
from suites.clients import OUTSIDE_1
from suites.convergence.requirements import *
from suites.known_differences.balancers import STATELESS, by_proxy
from suites.needs import needs
from suites.references import *

BALANCERS = (Balancer.DEFAULT, Balancer.ECMP, Balancer.PROXY)

AT_VIP = (
    What.STEERS, What.PLACE, What.SOURCE, What.BLACK_HOLE, What.NO_LOSS, What.BALANCE, What.TIMES_UP, What.TIMES_DOWN,
)  # fmt: skip
AT_NODES = (What.HEALTH, What.OTHERS, What.HEALTH_PROMPT, What.PATH, What.PATH_PROMPT, What.PLACE, What.SOURCE)
OWN_VIEWS = (What.VIEW_LOCAL, What.VIEW_CLUSTER)
VIEWS = (*OWN_VIEWS, What.FREED)

CORE_OF_OWN = frozenset({What.BLACK_HOLE})
"""Claims that are core for the cluster's own load balancer and extended for the reference ones. The check is recorded
if neither a profile nor the user gives a bound (``Judge.unpromised``)."""


WEIGHING = KnownDifference(
    when=(),
    covers=WEIGHED,
    reason="the load balancer uses the weights that the nodes' health checks report: the distribution fits these, and "
    "not an equal one",
    references=(HEALTH_WEIGHT,),
    evidence="The nodes' health checks reported unequal weights; the distribution fits these and not an equal one.",
    hides="A load balancer with a skew that equals the weights by chance.",
)


OTHER_FAMILYS_503 = KnownDifference(
    when=(("service-proxy", "kube-proxy"), ("families.services", "IPv4, IPv6")),
    covers=AFTER_503,
    reason="kube-proxy's proxiers of both families share one health-check node port, and the first one answers for "
    "both: the node said 503 and stopped serving the nodePort of one family, while the other still led to the pod",
    references=(SHARED_HEALTH_PORT, SHARED_HEALTH_PORT_FIX),
    before="kube-proxy-version 1.36",
    nature=Nature.DEFECT,
    by_chance=True,
    evidence="At the moment of each such answer, the same pod answered the node's nodePort of that family, and the "
    "nodePort of the other family was probed and silent; at most 3 s after the 503.",
    hides="A service proxy that is late by up to 3 s in one family, for another reason.",
)


def differences(balancer: Balancer, what: What) -> tuple[KnownDifference, ...]:
    """Return the known differences of a check."""
    if what is What.BALANCE:
        return (WEIGHING,)
    if what is What.PLACE:
        return (OTHER_FAMILYS_503,)
    if what is What.SOURCE and balancer is Balancer.DEFAULT:
        return by_proxy(PROXIED)
    return (STATELESS,) if balancer is Balancer.ECMP and what is What.NO_LOSS else ()


def check(
    balancer: Balancer,
    what: What,
    place: str,
    family: Family | None,
    level: Level,
    sentence: str,
    *references: Reference,
) -> Check[EndpointChange]:
    """Return one check; its features follow from its load balancer, claim and family."""
    others = [HEALTH_VIEW] if what in OWN_VIEWS and balancer is Balancer.DEFAULT else []
    others += ["nodes.four"] if what is What.OTHERS else []
    others += [PACKETS] if what is What.THRESHOLD else []
    return Check(
        id=f"{SUITE}.{balancer.value}.{place}.{what.value}",
        requirement=sentence,
        level=level,
        suite=SUITE,
        references=references,
        features=needs(*others, client=OUTSIDE_1, family=family, balancer=balancer),
        subject=EndpointChange(balancer, what, family),
        expected=EXPECTED[what],
        fails_if=FAILS_IF.get(what, ""),
        asked=PACKETS_ASKED if what is What.THRESHOLD else ASKED,
        differences=differences(balancer, what),
    )


def at_vip(balancer: Balancer, what: What, family: Family) -> Check[EndpointChange]:
    level = Level.CORE if balancer is Balancer.DEFAULT and what in CORE_OF_OWN else LEVELS[what]
    said = REQUIREMENTS[what]
    if what is What.SOURCE and balancer in PROXIES:
        level, said = Level.EXTENDED, SOURCE_BEHIND_PROXY
    return check(balancer, what, family.value.lower(), family, level, *said)


def at_nodes(balancer: Balancer, what: What) -> Check[EndpointChange]:
    said = {What.PLACE: PLACE_AT_NODES, What.SOURCE: SOURCE_AT_NODES}.get(what, REQUIREMENTS[what])
    return check(balancer, what, "nodes", None, LEVELS[what], *said)


def of_balancer(balancer: Balancer, what: What) -> Check[EndpointChange]:
    return check(balancer, what, "balancer", None, LEVELS[what], *REQUIREMENTS[what])


CHECKS = [
    *(at_vip(balancer, what, family) for balancer in BALANCERS for family in Family for what in AT_VIP),
    *(at_nodes(balancer, what) for balancer in BALANCERS for what in AT_NODES),
    *(of_balancer(each, What.THRESHOLD) for each in BALANCERS),
    *(of_balancer(each, what) for each in BALANCERS for what in (OWN_VIEWS if each is Balancer.DEFAULT else VIEWS)),
]
