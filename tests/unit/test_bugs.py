"""The list of public bugs: what it names exists, and a bug counts as noticed only by the record of a run."""

import re

import pytest

from ci import lane_file
from esipp.checks.catalog import all_checks
from tests.broken import bugs
from tests.broken.breaks import BREAKS

BUGS = bugs.load()
BY_NAME = {each.name: each for each in BREAKS}


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.issue)
def test_a_bug_names_checks_and_breaks_that_exist(bug):
    assert re.fullmatch(r"[\w.-]+/[\w.-]+#\d+", bug.issue)
    assert set(bug.breaks) <= BY_NAME.keys()
    assert set(bug.lanes) <= {path.stem for path in lane_file.LANES.glob("*.yaml")}
    for pattern in bug.checks:
        assert any(bugs.Bug.noticed_by(bug, check) for check in all_checks()), pattern
    for name in bug.breaks:
        assert any(bug.noticed_by(check) and BY_NAME[name].notices(check) for check in all_checks()), name


def test_each_issue_stands_there_once():
    assert len({bug.issue for bug in BUGS}) == len(BUGS) == 102


def one(**changes):
    about = {"issue": "a/b#1", "title": "t", "part": "p", "effect": "e", "when": "w", "versions": "v"}
    return bugs.Bug(**about | {"checks": ("healthcheck.one-pod.*",), "breaks": ("health-refused",)} | changes)


def test_a_bug_is_noticed_if_its_break_was():
    record = {"name": "health-refused", "good": True, "right": 3}
    assert bugs.shown_by_breaks(one(), BY_NAME, all_checks(), [record]) == ["health-refused"]


@pytest.mark.parametrize("record", [{"good": False, "right": 3}, {"good": True, "right": 0}])
def test_a_bug_is_not_noticed_if_its_breaks_run_was_not_as_required(record):
    assert not bugs.shown_by_breaks(one(), BY_NAME, all_checks(), [{"name": "health-refused"} | record])


def test_a_bug_is_not_noticed_by_checks_that_its_break_does_not_trip():
    record = {"name": "health-refused", "good": True, "right": 3}
    assert not bugs.shown_by_breaks(one(checks=("clusterip.*",)), BY_NAME, all_checks(), [record])


def test_a_bug_is_noticed_if_a_lane_showed_it():
    claims = [{"seen": 2, "reference": "a/b#1: title; another page"}]
    bug = one(lanes=("kind-iptables",))
    assert bugs.shown_by_lanes(bug, [{"lane": "kind-iptables", "claims": claims}]) == ["kind-iptables"]
    assert not bugs.shown_by_lanes(bug, [{"lane": "kind-iptables", "claims": [claims[0] | {"seen": 0}]}])
    assert not bugs.shown_by_lanes(bug, [{"lane": "kind-cilium", "claims": claims}])


def test_a_bug_has_checks_or_a_reason():
    with pytest.raises(ValueError, match="needs either checks or why"):
        one(checks=())


def test_the_page_counts_what_records_show():
    page = bugs.page(
        [one(), one(issue="a/b#2", checks=(), breaks=(), why="no node stops")],
        BREAKS,
        all_checks(),
        [{"name": "health-refused", "good": True, "right": 3}],
        [],
    )
    assert "**1 of 2 bugs are noticed.**" in page
    assert "**not noticed:** no node stops" in page
