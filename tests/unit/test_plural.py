"""One check fails, two checks fail: wherever a run tells how many."""

import re
from pathlib import Path

import pytest

from esipp.app.plan.assumed_cluster import Asked
from esipp.app.plan.document import document
from esipp.app.plan.plan import plan
from esipp.base.plural import counted, form
from esipp.checks.catalog import all_checks
from esipp.checks.check import Binding, Level, Status
from esipp.checks.reference import Reference
from esipp.ledger.conclusion import conclude
from esipp.loadbalancers.profiles.loading import named
from esipp.report import github, junit, markdown
from esipp.report.rendering.terminal import as_text
from esipp.report.terminal import summary
from tests.unit.report_world import failing, made, some_checks, verdict

WRONG = re.compile(
    r"\b1 (?:more |core |extended |binding |other |node |load )*"
    r"(?:rows|checks|nodes|causes|pods|ports|services|Services|connections|requests|ways|balancers|clients|phases|agents)\b"
)


@pytest.mark.parametrize(
    ("number", "words", "expected"),
    [
        (0, ("row",), "0 rows"),
        (1, ("check",), "1 check"),
        (2, ("row",), "2 rows"),
        (1404, ("core check",), "1404 core checks"),
        (1, ("check fails", "checks fail"), "1 check fails"),
        (3, ("check fails", "checks fail"), "3 checks fail"),
        (1, ("binding check was", "binding checks were"), "1 binding check was"),
    ],
)
def test_a_number_and_what_it_counts(number: int, words: tuple[str, ...], expected: str) -> None:
    assert counted(number, *words) == expected
    assert expected == f"{number} {form(number, *words)}"


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (Status.FAIL, "1 check fails"),
        (Status.FLAKY, "1 check is flaky"),
        (Status.ERROR, "1 check could not be judged due to an error of esipp"),
        (Status.INCONCLUSIVE, "1 core check could not be decided"),
        (Status.PASS, "the one core check that could run is as required"),
    ],
)
def test_the_last_word_of_one_check(status: Status, expected: str) -> None:
    check = next(check for check in some_checks() if check.level is Level.CORE)
    one = verdict(check, status)
    assert conclude([one], 0, Binding.CORE).why == expected
    if status is not Status.PASS:
        said = conclude([one, one], 0, Binding.CORE).why
        assert said.startswith("2 ")
        assert ("checks" in said, "check " in said) == (True, False)


def test_one_core_check_that_was_left_out() -> None:
    check = next(check for check in some_checks() if check.level is Level.CORE)
    assert conclude([verdict(check, Status.PASS)], 1).why == "no binding check fails, but 1 core check was left out"
    assert conclude([verdict(check, Status.PASS)], 2).why == "no binding check fails, but 2 core checks were left out"


@pytest.mark.parametrize("status", [Status.FAIL, Status.KNOWN, Status.UNSUPPORTED, Status.INCONCLUSIVE])
def test_a_run_of_one_check_is_reported_in_the_singular(status: Status, tmp_path: Path) -> None:
    check = next(check for check in some_checks() if check.level is Level.CORE)
    run = made(tmp_path / "run", [check], failing(status, reason="it does so", references=(Reference("x"),)))
    texts = [*summary(run), markdown.render(run), junit.render(run), *github.annotations(run)]
    assert any("1 check" in text for text in texts)
    assert [found[0] for text in texts for found in WRONG.finditer(text)] == []


def test_a_plan_of_one_check_is_reported_in_the_singular() -> None:
    check = next(check for check in all_checks() if check.id == "loadbalancer.local.tcp.ipv4.outside-1-to-vip")
    for profile in ("metallb-l2", "eks-nlb-instance"):
        said = " ".join(as_text(document(plan(Asked(named(profile), [check])))).split())
        assert "at most 1 load balancer" in said
        assert "so that 1 load balancer may continue to cost money" in said
        assert WRONG.search(said) is None
