"""Testbed objects that checks need, scenario by scenario: listed without a cluster, and deployed on one."""

from collections.abc import Iterable
from importlib import import_module
from importlib.util import find_spec

from esipp.checks.check import Check
from esipp.judging.scenario import FOLDER, scenarios
from esipp.testbed.objects import Ground, MakeObjects, Objects


def objects_by_scenario(asked: Iterable[Check], ground: Ground) -> dict[str, Objects]:
    """The objects that these checks need apart from those of their paths, by the name of the scenario.

    A scenario lists them in the function ``objects`` of its module ``objects``, if it has any.
    """
    checks = list(asked)
    found = {}
    for scenario in scenarios():
        own = scenario.own(checks)
        module = f"{FOLDER}.{scenario.name}.objects"
        if own and find_spec(module):
            make: MakeObjects = import_module(module).objects
            found[scenario.name] = make(own, ground)
    return found


def objects_of(asked: Iterable[Check], ground: Ground) -> Objects:
    """The same, all together."""
    return Objects.all_of(objects_by_scenario(asked, ground).values())
