"""What a suite that moves things needs on the testbed: pods and services of its own, created with all others."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from esipp.checks.check import Check, Feature
from esipp.checks.model import Client, Role
from esipp.judging.topology import Node

Json = dict[str, Any]


@dataclass(frozen=True)
class Ground:
    """What is known of the cluster and the run when props are chosen.

    ``steering`` is how many seconds a load balancer may take to steer away from a node, as far as is known.
    """

    run: str
    image: str
    nodes: Mapping[str, Node]
    roles: Mapping[Role, str]
    features: Mapping[str, Feature]
    steering: float | None = None


@dataclass(frozen=True)
class Objects:
    """Pods (waited for; those with a readiness gate need not be Ready), Services, and clients that are needed.

    ``announced`` names those Services that must get their VIPs before anything begins. ``passing`` are Services that a
    trial makes itself, for a while: they are not on the testbed, and only counted.
    """

    pods: tuple[Json, ...] = ()
    services: tuple[Json, ...] = ()
    announced: frozenset[str] = frozenset()
    clients: frozenset[Client] = frozenset()
    passing: tuple[Json, ...] = ()

    @classmethod
    def all_of(cls, several: Iterable["Objects"]) -> "Objects":
        """Everything that several suites need."""
        each = list(several)
        return cls(
            tuple(pod for props in each for pod in props.pods),
            tuple(service for props in each for service in props.services),
            frozenset(name for props in each for name in props.announced),
            frozenset(client for props in each for client in props.clients),
            tuple(service for props in each for service in props.passing),
        )


MakeObjects = Callable[[list[Check], Ground], Objects]
"""From the checks of a suite that can be asked here to what they need."""
