"""Checks of scenarios: isolation of two Services, many Services at once, and DNS names. Data only."""

from collections.abc import Iterator

from suites.interoperability.requirements import *

Checks = Iterator[InteroperabilityCheck]


def neighbours() -> Checks:
    """Yield checks of isolation: one Service on every node, while another one changes in every way.

    In the health check suite, only pods of other Services change. Here the other Service changes its policy, is deleted
    and reclaims its port. The checks also cover documents, the data path, and the Service object.
    """
    for family in FAMILIES:
        for place in NODES:
            for claim, level in (("status", Level.CORE), ("document", Level.EXTENDED), ("served", Level.CORE)):
                said = NEIGHBOURS[claim, place is Place.ENDPOINT_NODE]
                yield scenario_check("neighbours", claim, level, said, "vantage.outside", place=place, family=family)
    yield scenario_check("neighbours", "kept", Level.CORE, KEPT, "vantage.outside")


def many() -> Checks:
    """Yield checks of scale: each check covers all Services of a kind, and names those that are wrong."""

    def check(claim: str, level: Level, place: Place | None = None, kind: Kind | None = None) -> InteroperabilityCheck:
        return scenario_check("many", claim, level, MANY[claim], "vantage.outside", place=place, kind=kind)

    for kind in Kind:
        if kind.is_local:
            yield check("preserved", Level.CORE, Place.ENDPOINT_NODE, kind)
            yield check("silent", Level.CORE, Place.BARE_NODE, kind)
            continue
        for place in (Place.ENDPOINT_NODE, Place.BARE_NODE):
            yield check("answers", Level.CORE, place, kind)
            yield check("rewritten", Level.EXTENDED, place, kind)
    for place in NODES:
        yield check("status", Level.CORE, place, Kind.BALANCER_LOCAL)
        yield check("document", Level.EXTENDED, place, Kind.BALANCER_LOCAL)
    yield check("distinct", Level.CORE)
    yield check("gone", Level.CORE, kind=Kind.BALANCER_LOCAL)
    yield check("programmed", Level.RECORD)


def names() -> Checks:
    """Yield checks of DNS from pods on every kind of node, and of the source address at the resolved address."""
    for family in FAMILIES:
        for claim in ("clusterip", "headless", "published", "balancer", "dialled"):
            needs = ("dns", "load-balancer") if claim == "balancer" else ("dns",)
            for client in ASKING:
                yield scenario_check("names", claim, Level.CORE, NAMES[claim], *needs, family=family, client=client)
        for claim in ("namespace", "short"):
            yield scenario_check(
                "names", claim, Level.CORE, NAMES[claim], "dns", family=family, client=POD_ON_BARE_NODE
            )


CHECKS: tuple[InteroperabilityCheck, ...] = (*neighbours(), *many(), *names())
