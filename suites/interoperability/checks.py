"""All checks of the interoperability suite: clients inside the cluster, isolation, scale and DNS. Data only."""

from collections.abc import Iterator

from esipp.checks.check import OUTSIDE
from suites.interoperability import inside
from suites.interoperability.requirements import *

Checks = Iterator[Check[Interoperability]]


def neighbours() -> Checks:
    """Yield checks of isolation: one Service on every node, while another one changes in every way.

    In the health check suite, only pods of other Services change. Here the other Service changes its policy, is deleted
    and reclaims its port. The checks also cover documents, the data path, and the Service object.
    """
    for family in FAMILIES:
        for place in NODES:
            for claim in ("status", "document", "served"):
                said = NEIGHBOURS[claim, place is Place.ENDPOINT_NODE]
                yield scenario_check("neighbours", claim, said, OUTSIDE, place=place, family=family)
    yield scenario_check("neighbours", "kept", KEPT, OUTSIDE)


def many() -> Checks:
    """Yield checks of scale: each check covers all Services of a kind, and names those that are wrong."""

    def check(claim: str, place: Place | None = None, kind: Kind | None = None) -> Check[Interoperability]:
        return scenario_check("many", claim, MANY[claim], OUTSIDE, place=place, kind=kind)

    for kind in Kind:
        if kind.is_local:
            yield check("preserved", Place.ENDPOINT_NODE, kind)
            yield check("silent", Place.BARE_NODE, kind)
            continue
        for place in (Place.ENDPOINT_NODE, Place.BARE_NODE):
            yield check("answers", place, kind)
            yield check("rewritten", place, kind)
    for place in NODES:
        yield check("status", place, Kind.BALANCER_LOCAL)
        yield check("document", place, Kind.BALANCER_LOCAL)
    yield check("distinct")
    yield check("gone", kind=Kind.BALANCER_LOCAL)
    yield check("programmed")


def names() -> Checks:
    """Yield checks of DNS from pods on every kind of node, and of the source address at the resolved address."""
    for family in FAMILIES:
        for claim in ("clusterip", "headless", "published", "balancer", "dialled"):
            others = ("dns", "load-balancer") if claim == "balancer" else ("dns",)
            for client in ASKING:
                yield scenario_check("names", claim, NAMES[claim], *others, family=family, client=client)
        for claim in ("namespace", "short"):
            yield scenario_check("names", claim, NAMES[claim], "dns", family=family, client=POD_ON_BARE_NODE)


OF_SCENARIOS: tuple[Check[Interoperability], ...] = (*neighbours(), *many(), *names())
CHECKS: tuple[Check, ...] = (*inside.CHECKS, *OF_SCENARIOS)
