"""Which checks a command line leaves, how deep they are asked, and what repeats it."""

import shlex
from argparse import Namespace
from pathlib import Path

import pytest

from esipp.app.cli import understood
from esipp.app.depth import LEAST_MOVES, LEAST_SAMPLES, Depth, within
from esipp.app.options import depth_of, settings_of
from esipp.app.requests import read_duration
from esipp.app.selection import PROFILES, QUICK, chosen, words
from esipp.base.errors import PreflightError
from esipp.checks.catalog import all_checks
from esipp.checks.check import LONG, Check, Level, Status
from tests.unit.report_world import failing, made

CHECK = "nodeport.local.tcp.ipv4.outside-1-to-endpoint-node"


def options(*arguments: str) -> Namespace:
    return understood(["run", "--context", "x", "--image", "example.com/echo:1", *arguments])


def left(*arguments: str) -> list[Check]:
    return chosen(options(*arguments))


def test_without_options_every_check_is_left() -> None:
    assert left() == list(all_checks())
    assert words(options()) == ()


def test_levels_are_those_above() -> None:
    assert {check.level for check in left("--level", "core")} == {Level.CORE}
    assert {check.level for check in left("--level", "extended")} == {Level.CORE, Level.EXTENDED}


def test_focus_skip_patterns_and_suites_narrow_each_other_down() -> None:
    found = {check.id for check in left("--focus", r"^nodeport\.local\.(tcp|udp)\.", "--skip", "ipv6", "--skip", "udp")}
    assert found == {each.id for each in all_checks() if each.id.startswith("nodeport.local.tcp.ipv4")}
    assert left("--focus", "ipv4", "--suite", "nodes") == [
        each for each in all_checks() if each.suite == "nodes" and "ipv4" in each.id
    ]
    assert left("--suite", "nodes", CHECK) == []


def test_several_expressions_of_focus_add_up() -> None:
    one, other = (len(left("--focus", each)) for each in ("^pod-ip", "^clusterip"))
    assert len(left("--focus", "^pod-ip", "--focus", "^clusterip")) == one + other > one > 0


@pytest.mark.parametrize("option", ["--focus", "--skip"])
def test_what_is_no_expression_is_reported(option: str) -> None:
    with pytest.raises(PreflightError, match="is not a regular expression"):
        left(option, "(")


@pytest.mark.parametrize(("status", "again"), [(Status.FAIL, True), (Status.INCONCLUSIVE, True), (Status.PASS, False)])
def test_what_failed_is_run_again(tmp_path: Path, status: Status, again: bool) -> None:
    said = failing(status)
    made(tmp_path / "run", said=said)
    wrong = {each for each, verdict in said.items() if verdict.status is status}
    found = {check.id for check in left("--rerun-failed", str(tmp_path / "run"))}
    assert found == (wrong if again else set())


def test_a_run_that_is_not_there_is_reported(tmp_path: Path) -> None:
    with pytest.raises(PreflightError, match="Cannot read a ledger"):
        left("--rerun-failed", str(tmp_path))


# ----------------------------------------------------------------------------------------------------------- profiles
def test_a_profile_sets_checks_and_depth() -> None:
    quick = left("--profile", "quick")
    assert quick == [check for check in all_checks() if QUICK.admits(check)]
    assert {check.level for check in quick} == {Level.CORE}
    assert {check.suite for check in quick} == QUICK.suites
    assert depth_of(options("--profile", "quick")) == Depth(20, 3)
    assert depth_of(options()) == Depth(200, 30)


def test_what_is_said_beside_a_profile_counts() -> None:
    assert depth_of(options("--profile", "quick", "--moves", "7")) == Depth(20, 7)
    assert left("--profile", "quick", "--suite", "continuity") == []


def test_full_is_disruptive_and_nothing_else_is() -> None:
    assert [name for name in PROFILES if settings_of(options("--profile", name)).allow_disruptive] == ["full"]
    assert left("--profile", "full") == left()


def test_a_repeated_run_selects_the_same(tmp_path: Path) -> None:
    given = (
        *("--profile", "quick", "--level", "core", "--focus", "ipv4", "--skip", "udp"),
        *("--suite", "source_ip", "nodeport.local"),
    )
    again = words(options(*given))
    assert left(*again) == left(*given)
    assert again[-1] == "nodeport.local"


def test_the_command_that_repeats_a_run_asks_the_server_alike() -> None:
    found = settings_of(options("--as", "jane", "--request-timeout", "1m30s"))
    assert (found.as_user, found.request_timeout) == ("jane", 90.0)
    again = settings_of(understood(shlex.split(found.repeat)[1:]))
    assert (again.as_user, again.request_timeout) == ("jane", 90.0)


# ----------------------------------------------------------------------------------------------------------- the time
@pytest.mark.parametrize(("text", "seconds"), [("10m", 600), ("90s", 90), ("1h30m", 5400), ("2h", 7200)])
def test_a_time_is_read(text: str, seconds: int) -> None:
    assert read_duration("--time-budget", text) == seconds


@pytest.mark.parametrize("text", ["", "10", "m", "-5m", "0s", "ten", "5m3"])
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(PreflightError, match="is no time"):
        read_duration("--time-budget", text)


def test_a_budget_takes_depth_and_no_checks() -> None:
    checks = [check for check in all_checks() if LONG not in check.features]
    most = Depth(200, 30)
    whole = most.seconds(checks)
    assert within(checks, most, whole).depth == most, "what fits stays as it is"
    less = within(checks, most, 0.9 * whole)
    assert less.seconds <= 0.9 * whole
    assert LEAST_SAMPLES <= less.depth.samples < 200
    assert LEAST_MOVES <= less.depth.moves < 30
    assert "even the least" not in less.words


def test_what_fits_at_no_depth_is_asked_as_little_as_makes_sense_and_reported() -> None:
    cut = within(all_checks(), Depth(200, 30), 60.0)
    assert cut.depth == Depth(LEAST_SAMPLES, LEAST_MOVES)
    assert "even the least takes longer, about" in cut.words
    assert "is missed with a chance of 82 %" in cut.words


def test_a_budget_never_asks_more_than_was_said() -> None:
    assert within(all_checks(), Depth(5, 1), 60.0).depth == Depth(5, 1)
