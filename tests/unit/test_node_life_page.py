"""The tables of docs/node-life.md name each event with a disruption once, and what its checks need."""

import re
from functools import reduce

from esipp.checks.catalog import HOUSE, all_checks
from esipp.checks.check import OF_VERSIONS
from suites.changes.checks import SUITE as CHANGES
from suites.continuity.requirements import SUITE as CONTINUITY

COMMON = {"disruptive", "vantage.outside", "load-balancer", "nodes.three"}
"""Features that every event needs, or that the page names for many at once."""

PAGE = (HOUSE / "docs" / "node-life.md").read_text()


def rows(title: str) -> list[list[str]]:
    """The names in the first and in the last column of the table that begins so."""
    table = PAGE.partition(f"| {title} |")[2].partition("\n\n")[0]
    lines = [line.strip("|").split(" | ") for line in table.splitlines()[2:]]
    return [[*re.findall(r"`([^`]+)`", line[0]), "", *re.findall(r"`([^`]+)`", line[-1])] for line in lines]


def test_each_event_has_a_row_with_the_features_that_its_checks_need() -> None:
    wanted: dict[str, list[frozenset[str]]] = {}
    for check in all_checks():
        event = getattr(check.subject, "event", None)
        if check.suite in (CHANGES, CONTINUITY) and event is not None and event.disruptions:
            wanted.setdefault(f"{check.suite}.{event.name}", []).append(check.features)
    shared = {name: reduce(frozenset.__and__, features) - COMMON for name, features in wanted.items()}
    # another page has the versions
    needed = {
        name: {each for each in features if not each.startswith(OF_VERSIONS)} for name, features in shared.items()
    }
    said = [(name, {*row[row.index("") + 1 :]}) for row in rows("event") for name in row[: row.index("")]]
    assert len(said) == len({name for name, _ in said})
    assert dict(said) == needed


def test_each_feature_is_explained() -> None:
    explained = {name for row in rows("feature") for name in row[: row.index("")]}
    assert explained == {feature for row in rows("event") for feature in row[row.index("") + 1 :]}
