"""What rows need on the stage, suite by suite: told without a cluster, and deployed on one."""

from collections.abc import Iterable, Mapping

from esipp.checks.check import Row
from esipp.scenarios.api.objects import props as compatibility_props
from esipp.scenarios.continuity.props import props as continuity_props
from esipp.scenarios.endpoint_change.objects import move_props
from esipp.scenarios.health.objects import props as health_props
from esipp.scenarios.interoperability.objects import props as interoperability_props
from esipp.testbed.objects import Ground, MakeProps, Props

PROPS: Mapping[str, MakeProps] = {
    "health_checks": health_props,
    "interoperability": interoperability_props,
    "compatibility": compatibility_props,
    "convergence": move_props,
    "continuity": continuity_props,
}
"""How each suite that moves things says what it needs."""


def props_by_suite(asked: Iterable[Row], ground: Ground) -> dict[str, Props]:
    """The same, suite by suite."""
    rows = list(asked)
    by_suite = {name: [row for row in rows if row.suite == name] for name in PROPS}
    return {name: PROPS[name](some, ground) for name, some in by_suite.items() if some}


def props_of(asked: Iterable[Row], ground: Ground) -> Props:
    """What these rows need besides their own paths, of those that can be asked there."""
    return Props.all_of(props_by_suite(asked, ground).values())
