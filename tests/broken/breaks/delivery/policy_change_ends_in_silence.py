"""A Service gets no answer at its nodePort, or at its VIP, once its policy has returned to Local."""

from collections.abc import Callable
from contextlib import AbstractContextManager

from esipp.base.json import Json
from esipp.checks.model import Family, Role, TrafficPolicy
from esipp.checks.policy_change import At, ChangingService, PolicyClaim
from esipp.judging.topology import family_of
from tests.broken.breakage import Break, Group
from tests.broken.matching import AT_THE_NODE, DROP, to_port, vips
from tests.broken.nodes import Live, Nodes, Placed, Rule
from tests.broken.policy_changes import OF_POLICY_CHANGES, after_the_first_change, is_change_check


def at_node_port(nodes: Nodes, service: Json) -> list[Rule]:
    """The endpoint node drops what comes to the nodePort."""
    here = nodes.roles[Role.ENDPOINT_NODE]
    (port,) = service["spec"]["ports"]
    words = (*to_port(port, port["nodePort"]), *AT_THE_NODE, *DROP)
    return [Rule(family, "PREROUTING", words, (here,), "mangle") for family in Family]


def at_vip(nodes: Nodes, service: Json) -> list[Rule]:
    """All nodes drop what comes to the VIP."""
    return [
        Rule(family_of(address), "PREROUTING", ("--destination", address, *DROP), table="mangle")
        for address in vips(service)
    ]


Rules = Callable[[Nodes, Json], list[Rule]]


def silent(service: ChangingService, rules: Rules) -> Callable[[Nodes], AbstractContextManager[Placed]]:
    """Rules from the first return to Local on."""

    def apply(nodes: Nodes) -> AbstractContextManager[Placed]:
        def make(live: Live) -> list[Rule]:
            return rules(nodes, live.service(service.object_name))

        return after_the_first_change(nodes, service.object_name, make, TrafficPolicy.LOCAL)

    return apply


def ends_in_silence(name: str, where: str, service: ChangingService, at: At, rules: Rules) -> Break:
    """A break of this table."""
    return Break(
        name,
        Group.DELIVERY,
        f"a Service gets no answer at its {where} once its policy has returned to Local",
        OF_POLICY_CHANGES,
        silent(service, rules),
        lambda check: is_change_check(check, service, at, PolicyClaim.SETTLES),
        may=lambda check: is_change_check(check, service, at, *PolicyClaim),
        at_once=False,
        scoped=True,
    )


BREAKS = (
    ends_in_silence(
        "flip-silences-the-node-port", "nodePort", ChangingService.NODE_PORT, At.ENDPOINT_NODE, at_node_port
    ),
    ends_in_silence("flip-silences-the-vip", "VIP", ChangingService.DEFAULT, At.VIP, at_vip),
)
