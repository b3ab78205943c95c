"""The page of ci/peer: what it says of made runs."""

from dataclasses import replace
from pathlib import Path

import pytest

from ci.peer_tests import page
from ci.peer_tests.damage import DAMAGES, PLAN, TOGETHER
from ci.peer_tests.data import Broken, Comparison, Effort, Noticing, Ours, Theirs
from ci.peer_tests.report import Outcome, SpecResult
from ci.peer_tests.specs import SPECS
from tests.broken.breaks import BREAKS

GREEN, FALSE_ALARM, SHAKY, LOST = SPECS[0].name, SPECS[2].name, SPECS[3].name, SPECS[-1].name
EFFORT = Effort(61.0, 12.5)


def theirs(**outcomes: Outcome) -> Theirs:
    said = {"green": Outcome.PASSED, "false_alarm": Outcome.FAILED, "shaky": Outcome.PASSED} | outcomes
    names = {"green": GREEN, "false_alarm": FALSE_ALARM, "shaky": SHAKY}
    why = {Outcome.FAILED: "Source IP was NOT | preserved", Outcome.TIMED_OUT: "at: waiting"}
    return Theirs(EFFORT, [SpecResult(names[each], said[each], 3.4, why.get(said[each], "")) for each in said])


def broken(name: str, **outcomes: Outcome) -> Broken:
    ours = Noticing(EFFORT, ["source_ip"], 12, 11, {}, "esipp-worker rewrote it")
    return Broken(name, f"{name} is broken", ours, theirs(**outcomes))


@pytest.fixture
def made() -> Comparison:
    each = [
        broken("noticed", green=Outcome.FAILED),
        broken("unnoticed"),
        broken("calmed", false_alarm=Outcome.PASSED),
        broken("shaken", shaky=Outcome.TIMED_OUT),
    ]
    return Comparison(
        {"kubernetes": "v1.36.3", "e2e.test": "v1.36.3", "ginkgo": "v2.28.1", "agnhost": "2.63.0", "lane": "kind-x"},
        {"cores": 4, "processes": 25},
        {"healthy": 900.0},
        replace(theirs(), results=[*theirs().results, SpecResult(LOST, Outcome.MISSING)]),
        Ours(EFFORT, 0, ["source_ip"], {"known": 2, "pass": 40}),
        {each.name: each for each in each},
        theirs(shaky=Outcome.FAILED),
    )


def line(text: str, start: str) -> str:
    (found,) = [each for each in text.splitlines() if each.startswith(start)]
    return found


def test_what_is_kept_comes_back(made: Comparison, tmp_path: Path) -> None:
    made.save(tmp_path / "kept.jsonl")
    assert Comparison.load(tmp_path / "kept.jsonl") == made


def test_nothing_kept_is_nothing_said(tmp_path: Path) -> None:
    assert Comparison.load(tmp_path / "none.jsonl") == Comparison()
    assert page.render(Comparison()) == ""


def test_who_noticed(made: Comparison) -> None:
    by_name = made.broken
    assert [each.name for each in made.noticed(by_name["noticed"])] == [GREEN]
    for name in ("unnoticed", "calmed", "shaken"):
        assert made.noticed(by_name[name]) == []


def test_red_without_the_break_as_well_is_unsure(made: Comparison) -> None:
    assert [each.name for each in made.unsure(made.broken["shaken"])] == [SHAKY]
    assert made.unsure(made.broken["noticed"]) == []


def test_before_the_last_run_nothing_is_sure(made: Comparison) -> None:
    made.after = None
    assert made.noticed(made.broken["noticed"]) == []
    assert [each.name for each in made.unsure(made.broken["noticed"])] == [GREEN]


def test_green_only_when_broken(made: Comparison) -> None:
    assert [each.name for each in made.calmed(made.broken["calmed"])] == [FALSE_ALARM]
    assert made.calmed(made.broken["noticed"]) == []


def test_the_short_table(made: Comparison) -> None:
    text = page.render(made)
    assert line(text, "| asked |") == "| asked | 42 checks of source_ip | 3 specs |"
    assert line(text, "| healthy cluster |") == "| healthy cluster | 2 known, 40 pass | 2 passed, 1 failed |"
    assert line(text, "| false alarms there |") == "| false alarms there | 0 | 1 |"
    assert line(text, "| broken data planes noticed |").endswith("| 4 of 4 | 1 of 4 |")
    assert line(text, "| red on the healthy cluster").endswith("| 0 | 1 of 4 |")


def test_each_break_has_a_line(made: Comparison) -> None:
    text = page.render(made)
    assert line(text, "| `noticed`:").endswith(f"| 11 of 12 | 61 | {GREEN} | 61 | 12 |")
    assert "| **none** |" in line(text, "| `unnoticed`:")
    assert f"unsure: {SHAKY}" in line(text, "| `shaken`:")
    assert f"turned green: {FALSE_ALARM}" in line(text, "| `calmed`:")


def test_a_spec_has_the_checks_that_ask_the_same(made: Comparison) -> None:
    text = page.render(made)
    assert "| passed | 3 | `clusterip.tcp.ipv4.pod-on-…` (2) |" in line(text, f"| {GREEN} |")
    assert "| not run |  |" in line(text, f"| {LOST} |")


def test_no_path_check_ends_early(made: Comparison) -> None:
    tables = [each for each in page.render(made).splitlines() if each.startswith("| ")]
    bars = {each.replace("\\|", "").count("|") for each in tables}
    assert bars <= {4, 7}  # three columns in short, six elsewhere


def test_only_breaks_of_ours_are_tried() -> None:
    names = {each.name for each in BREAKS}
    assert [each.name for each in DAMAGES if each.name not in names] == []
    assert len({each.name for each in DAMAGES}) == len(DAMAGES)


def test_all_breaks_are_tried_where_none_is_named() -> None:
    assert [part for name in PLAN for part in name.split(TOGETHER)] == [each.name for each in DAMAGES]
