"""sessionAffinity ClientIP is ignored: each new connection goes to any backend."""

from collections.abc import Iterator
from contextlib import AbstractContextManager

from esipp.base.json import Json
from esipp.checks.model import Role
from esipp.checks.path import Spread
from esipp.judging.topology import family_of
from tests.broken.breakage import Break, Group, RunOptions, path_checks
from tests.broken.matching import AT_THE_NODE, hands_to, to_port, vips
from tests.broken.nodes import Live, Nodes, Placed, Rule

EVERY_SECOND = ("--match", "statistic", "--mode", "nth", "--every", "2", "--packet", "0")


def forgetting(nodes: Nodes) -> AbstractContextManager[Placed]:
    here = (nodes.roles[Role.ENDPOINT_NODE],)

    def in_turn(live: Live, service: Json) -> Iterator[Rule]:
        """Each rule is put in front of those before it: the first one decides only what the second leaves."""
        taken: dict[tuple[str, str], int] = {}
        for port, address, _, target in live.targets(service, most=2):
            family = family_of(address)
            number = taken[port["name"], family] = taken.get((port["name"], family), 0) + 1
            chance = EVERY_SECOND if number == 2 else ()
            to = hands_to(address, target)
            yield Rule(family, "PREROUTING", (*to_port(port, port["nodePort"]), *AT_THE_NODE, *chance, *to), here)
            for vip in (each for each in vips(service) if family_of(each) is family):
                yield Rule(family, "PREROUTING", ("--destination", vip, *to_port(port), *chance, *to), here)

    def rules(live: Live) -> list[Rule]:
        sticky = [each for each in live.services if each["spec"].get("sessionAffinity") == "ClientIP"]
        return [rule for each in sticky for rule in in_turn(live, each)]

    return nodes.live(rules)


BREAK = Break(
    "affinity-lost",
    Group.DELIVERY,
    "the endpoint node ignores sessionAffinity ClientIP: a client's connections alternate between both backends",
    RunOptions(("source_ip",)),
    forgetting,
    path_checks(lambda path_check: path_check.subject.spread is Spread.ONE),
    names="affinity ClientIP does not hold",
    scoped=True,
)
