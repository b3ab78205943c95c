"""Objects of scenarios: their own pods and Services, which the testbed creates with all others."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from esipp.base.json import Json
from esipp.checks.check import Check, Feature
from esipp.checks.model import Client, Role
from esipp.judging.scenario import scenarios
from esipp.judging.topology import Node


@dataclass(frozen=True)
class Ground:
    """What is known about the cluster and the run when a scenario chooses its objects.

    ``steering`` is how many seconds a load balancer may take to stop using a node, if known. ``sampled`` are the nodes
    that run an agent.
    """

    run: str
    image: str
    nodes: Mapping[str, Node]
    roles: Mapping[Role, str]
    features: Mapping[str, Feature]
    steering: float | None = None
    sampled: tuple[str, ...] = ()


@dataclass(frozen=True)
class Objects:
    """The pods, Services and clients that a scenario needs. Set-up waits for the pods, but not for readiness gates.

    ``announced`` names the Services that must have their VIPs before the run begins. ``passing`` are temporary Services
    that a scenario creates itself; the testbed only counts them. ``raw`` names clients that need raw sockets, for SCTP.
    """

    pods: tuple[Json, ...] = ()
    services: tuple[Json, ...] = ()
    announced: frozenset[str] = frozenset()
    clients: frozenset[Client] = frozenset()
    passing: tuple[Json, ...] = ()
    raw: frozenset[str] = frozenset()

    @classmethod
    def all_of(cls, several: Iterable["Objects"]) -> "Objects":
        """Combine the objects of several suites."""
        each = list(several)
        return cls(
            tuple(pod for scenario_objects in each for pod in scenario_objects.pods),
            tuple(service for scenario_objects in each for service in scenario_objects.services),
            frozenset(name for scenario_objects in each for name in scenario_objects.announced),
            frozenset(client for scenario_objects in each for client in scenario_objects.clients),
            tuple(service for scenario_objects in each for service in scenario_objects.passing),
            frozenset(name for scenario_objects in each for name in scenario_objects.raw),
        )


MakeObjects = Callable[[list[Any], Ground], Objects]
"""Returns the objects for those checks of the scenario that can run."""


def objects_by_scenario(asked: Iterable[Check], ground: Ground) -> dict[str, Objects]:
    """The objects that these checks need apart from those of their paths, by the name of the scenario.

    A scenario lists them in the function ``objects`` of its module ``objects``, if it has any.
    """
    checks = list(asked)
    found = {}
    for scenario in scenarios():
        own = scenario.own(checks)
        make: MakeObjects | None = scenario.part("objects", "objects") if own else None
        if make:
            found[scenario.name] = make(own, ground)
    return found


def objects_of(asked: Iterable[Check], ground: Ground) -> Objects:
    """The same, all together."""
    return Objects.all_of(objects_by_scenario(asked, ground).values())
