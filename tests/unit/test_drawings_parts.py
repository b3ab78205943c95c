"""What drawings are made of: scales, markup, runs of right answers, and what was judged."""

import pytest

from esipp.base.document import Table, number
from esipp.base.drawing import Drawing, Scale, nice, scale_of, short, staggered
from esipp.checks.check import Level, Status
from esipp.checks.health import Answer
from esipp.checks.model import Outcome
from esipp.judging.showing import summed, tallied
from esipp.judging.statistics import Distribution
from esipp.report.rendering.html import joined, tag
from esipp.report.sections import sections
from esipp.scenarios.continuity.windows import key
from esipp.scenarios.health.sections import said
from tests.unit.drawings_world import (
    api,
    continuity,
    convergence,
    health,
    html_of,
    recorded,
    recorded_check,
    verdict,
)


@pytest.mark.parametrize(("least", "step"), [(0.013, 0.02), (0.2, 0.2), (0.21, 0.5), (3, 5), (7, 10), (0, 1)])
def test_steps_are_round(least: float, step: float) -> None:
    assert nice(least) == pytest.approx(step)


def test_an_axis_begins_at_zero_unless_something_is_below_it() -> None:
    assert scale_of([1.0, 4.0], 0, 100).low == 0
    assert scale_of([-0.5, 4.0], 0, 100).low == -0.5
    assert Scale(0, 10, 0, 100).ticks(5) == [0, 2, 4, 6, 8, 10]
    assert Scale(0, 10, 50, 150)(5) == 100


def test_dots_at_one_place_are_drawn_once() -> None:
    drawing = Drawing("d", "t", "w", 10)
    drawing.dots([(1.01, 2), (1.02, 2), (5, 2)])
    assert drawing.render().count("h0") == 2


def test_labels_do_not_cover_each_other() -> None:
    placed = staggered([(0, "a long label"), (5, "another one"), (300, "far away")], 900)
    assert [check for _, check, _ in placed] == [0, 1, 0]
    assert staggered([(890, "at the edge")], 900)[0][0] < 850


def test_coordinates_and_numbers_are_short() -> None:
    assert (short(3.0), short(3.14159)) == ("3", "3.1")
    assert (number(-0.001), number(-0.01), number(None)) == ("0.00", "-0.01", "\u2013")


def test_text_is_escaped_once() -> None:
    assert joined(["<a&'\"\x07>"]) == "&lt;a&amp;&#39;&#34;\ufffd&gt;"
    assert joined([joined(["<"]), "<", ""]) == "&lt;&lt;"
    assert tag("a", "<", href='"<') == '<a href="&#34;&lt;">&lt;</a>'


def test_a_long_table_says_how_much_is_left_out() -> None:
    assert "and 5 more lines" in Table.of(["a"], [[str(at)] for at in range(125)]).more


def test_quantiles_are_nearest_rank() -> None:
    assert Distribution.of([4, 1, 3, 2]).p50 == 2
    assert Distribution.of([1.0]).p95 == 1.0


def test_counts_are_summed_and_the_most_frequent_comes_first() -> None:
    assert tallied(summed([{"a": 1, "b": 3}, None, {"a": 1}])) == "b x3; a x2"


def test_letters_of_phases_do_not_end() -> None:
    assert [key(at) for at in (0, 25, 26, 27)] == ["A", "Z", "AA", "AB"]


def test_answers_in_words() -> None:
    assert said(Answer(Outcome.TIMEOUT)) == "timed out"
    assert said(Answer(Outcome.ANSWERED, 200, body="not JSON")) == "200"
    weighed = Answer(Outcome.ANSWERED, 200, {"x-load-balancing-endpoint-weight": "2"}, '{"localEndpoints": 1}')
    assert said(weighed) == "200, 1 local (weight 2)"


# ----------------------------------------------------------------------------------------------------- what was judged
def test_judgements_stand_beside_what_was_seen() -> None:
    checks = {
        "healthcheck.one-pod.ipv4.outside-1-to-bare-node.status": ("health_checks", Status.FAIL, Level.CORE),
        "healthcheck.lifecycle.chosen": ("health_checks", Status.FLAKY, Level.CORE),
        "convergence.reference-ecmp.ipv4.black-hole": ("convergence", Status.FAIL, Level.EXTENDED),
        "convergence.default.ipv4.black-hole": ("convergence", Status.PASS, Level.RECORD),
        "continuity.deleted.reference-ecmp.local.ipv4.gap": ("continuity", Status.KNOWN, Level.EXTENDED),
        "api.policy.local": ("compatibility", Status.FAIL, Level.CORE),
        "api.policy.cluster": ("compatibility", Status.PASS, Level.CORE),
    }
    found = [recorded_check(name, suite, "refused as Invalid", level) for name, (suite, _, level) in checks.items()]
    run = recorded(health() | convergence() | continuity() | api(), checks=found)
    run.verdicts.update({name: verdict(name, status, "seen <so>") for name, (_, status, _) in checks.items()})
    made = {section.id: html_of(section) for section in sections(run)}
    assert "✗ fail: seen &lt;so&gt;" in made["seen-health"]
    assert "flaky" in made["seen-health"]
    assert "recorded" in made["seen-convergence"]
    assert "no verdict" in made["seen-convergence"]
    assert "gap: known" in made["seen-continuity"]
    assert "api.policy.local" in made["seen-api"]
    assert "api.policy.cluster" not in made["seen-api"]
