"""Testbed objects that checks need, suite by suite: listed without a cluster, and deployed on one."""

from collections.abc import Iterable, Mapping

from esipp.checks.check import Check
from esipp.scenarios.api.objects import props as compatibility_props
from esipp.scenarios.continuity.props import props as continuity_props
from esipp.scenarios.endpoint_change.objects import move_props
from esipp.scenarios.health.objects import props as health_props
from esipp.scenarios.interoperability.objects import props as interoperability_props
from esipp.testbed.objects import Ground, MakeObjects, Objects

PROPS: Mapping[str, MakeObjects] = {
    "health_checks": health_props,
    "interoperability": interoperability_props,
    "compatibility": compatibility_props,
    "convergence": move_props,
    "continuity": continuity_props,
}
"""The functions that list the objects of each suite."""


def props_by_suite(asked: Iterable[Check], ground: Ground) -> dict[str, Objects]:
    """The same, suite by suite."""
    checks = list(asked)
    by_suite = {name: [check for check in checks if check.suite == name] for name in PROPS}
    return {name: PROPS[name](some, ground) for name, some in by_suite.items() if some}


def props_of(asked: Iterable[Check], ground: Ground) -> Objects:
    """The objects that these checks need apart from those of their paths."""
    return Objects.all_of(props_by_suite(asked, ground).values())
