"""The drawings: well-formed, safe, described in words too, bounded, the same each time; they show broken evidence."""

import hashlib
import html
import os
import re
import subprocess
import sys
from collections import Counter
from dataclasses import fields, is_dataclass, replace
from enum import Enum
from functools import cache
from typing import Any
from xml.etree import ElementTree

import pytest

from esipp.checks.endpoint_change import Kind
from esipp.checks.model import Balancer, Family
from esipp.checks.policy_change import At
from esipp.checks.timing import NOBODY, Promise
from esipp.judging.scenario import scenarios
from esipp.judging.timeline import Sample, Stream
from esipp.report.sections import sections, shown_of
from esipp.scenarios.endpoint_change.evidence import black_hole, hole_began
from esipp.scenarios.endpoint_change.judge import Judge, distributions
from esipp.scenarios.endpoint_change.sections import events
from tests.unit.drawings_world import (
    Evidence,
    api,
    continuity,
    convergence,
    everything,
    health,
    html_of,
    interoperability,
    policy_changes,
    recorded,
)
from tests.unit.endpoint_change_world import World

BROKEN = "cannot be shown"
HOSTILE = '<script>alert("1")</script>\'&\x00\x1b\ud800]]>'
MOST_BYTES = 1_200_000


def parsed(markup: str) -> ElementTree.Element:
    return ElementTree.fromstring(f"<section>{markup}</section>")  # noqa: S314 - our own


def shown(evidence: Evidence) -> list[str]:
    return [html_of(section) for section in sections(recorded(evidence))]


@cache
def every() -> Evidence:
    """Evidence of every kind, made once: for tests that change nothing of it."""
    return everything()


@cache
def whole() -> tuple[str, ...]:
    """What is shown of everything: it takes a second to draw."""
    return tuple(shown(every()))


def drawn(evidence: Evidence) -> str:
    return "\n".join(shown(evidence))


def desc(evidence: Evidence) -> str:
    """What all drawings say in words."""
    found = [each for markup in shown(evidence) for each in parsed(markup).iter("desc")]
    return "\n".join(each.text or "" for each in found)


def test_every_suite_has_its_section_in_the_order_of_the_report() -> None:
    run = recorded(every())
    assert len(whole()) == sum(1 for scenario in scenarios() if shown_of(scenario).section(run)) > 5
    assert not [markup for markup in whole() if BROKEN in markup]


def test_suites_that_did_not_run_have_none() -> None:
    assert sections(recorded({})) == []
    assert [section.id for section in sections(recorded(api()))] == ["seen-api"]
    assert [section.id for section in sections(recorded(policy_changes()))] == ["seen-policy-changes"]


def test_markup_is_well_formed_and_ids_are_unique() -> None:
    ids: Counter[str] = Counter()
    for markup in whole():
        ids.update(each.attrib["id"] for each in parsed(markup).iter() if "id" in each.attrib)
    assert ids
    assert all(name.startswith("seen-") for name in ids)
    assert [name for name, count in ids.items() if count > 1] == []


def test_every_drawing_is_described_in_words() -> None:
    drawings = [svg for markup in whole() for svg in parsed(markup).iter("svg")]
    assert len(drawings) > 8
    for svg in drawings:
        named = {each.attrib["id"]: each.text for each in svg if each.tag in ("title", "desc")}
        assert svg.attrib["role"] == "img"
        assert svg.attrib["aria-labelledby"].split() == list(named)
        assert all(named.values())


def test_nothing_is_fetched_and_nothing_is_run() -> None:
    said = "\n".join(whole())
    assert not re.search(r"\son\w+=|<script|javascript:|https?:|url\(|<image|<use|@import", said)


# ------------------------------------------------------------------------------------------------- the ledger's numbers
@pytest.mark.parametrize("suite", [convergence, continuity, health, policy_changes, interoperability])
def test_numbers_have_their_count(suite: Any) -> None:
    assert re.search(r"\bn\b|requests", drawn(suite()))


def harmed(more: int = 0, **fields: Any) -> Evidence:
    """Endpoint changes behind the load balancer with health checks only, some fields of its result replaced."""
    moved = convergence(more)["convergence"]
    result = replace(moved.results[Balancer.ECMP], **fields)
    return {"convergence": replace(moved, results={Balancer.ECMP: result})}


def test_quantiles_are_those_of_the_judge() -> None:
    moved = convergence()["convergence"]
    (family, *_), judge = Family, Judge(moved.results[Balancer.ECMP])
    of = distributions(judge.lines, family, up=True)["trigger to traffic"]
    said = f"p50 {of.quantile(0.5):.2f}, p95 {of.quantile(0.95):.2f}, max {of.samples[-1]:.2f} s, n {len(of.samples)}"
    assert f"reference-ecmp IPv4 up: {said}" in desc(convergence())


def test_the_bound_is_the_promised_one_and_what_was_reported_and_observed_stands_beside_it() -> None:
    said = html.unescape(drawn(convergence()))
    assert "bound 3.00 s" in said
    assert "reported: N=2, period 1.00 s; packets: N=3, period 1.01 s" in said
    assert NOBODY in said


def test_black_holes_are_counted_against_the_bound() -> None:
    tight = Promise(1.0, "a made-up one", None, True, True)
    judge = Judge(harmed(promise=tight)["convergence"].results[Balancer.ECMP])
    times = [hole for line in judge.lines if (hole := black_hole(line, Family.IPV6)) is not None]
    over = sum(1 for each in times if each > 1.0)
    assert over > 0
    said = desc(harmed(promise=tight))
    assert f"max {max(times):.2f} s, bound 1.00 s, n {len(times)}" in said
    assert f">{over}<" in drawn(harmed(promise=tight)).partition("source of the bound")[2]


def test_the_worst_event_and_a_median_one_are_drawn() -> None:
    said = desc(convergence())
    worst = max(line.traffic[Family.IPV4].losses.outage for line in Judge(World(Balancer.ECMP).result()).lines)
    assert "The worst endpoint change: " in said
    assert f"longest outage {worst:.2f} s" in said
    assert re.search(r"A median endpoint change \(the median of \d removals of default", said)


def test_the_bound_begins_when_there_is_another_node_to_steer_to() -> None:
    event = events({Balancer.ECMP: Judge(harmed()["convergence"].results[Balancer.ECMP])})[-1]
    began = hole_began(event.line, event.family)
    assert began is not None
    since = began - event.line.change.cause
    assert f"the bound runs from {since:.2f} to {since + 3.0:.2f} s" in desc(harmed())


def test_a_pod_that_goes_elsewhere_loses_its_requests_once() -> None:
    judge = World(Balancer.ECMP, elsewhere=True).judge()
    both = [line.traffic[Family.IPV4].losses.timed_out for line in judge.lines if line.change.kind is Kind.ELSEWHERE]
    assert len(both) == 2
    assert all(both)
    every = sum(line.traffic[Family.IPV4].losses.timed_out for line in judge.lines)
    assert judge.losses(Family.IPV4).kinds["timed_out"] == every - both[0]


def test_balance_and_checks_as_they_were_seen() -> None:
    said = desc(convergence())
    assert "a 206, b 214; n 420, p = 0.73" in said
    assert "p50 1.01, p95 1.22, max 1.22 s, n 3" in said


def test_health_checks_by_node() -> None:
    said = drawn(health())
    assert "● 200, 1 local</strong> n = 80" in said
    assert "answers differ" not in said
    assert "bare-node IPv4: p50 2.15, max" not in said
    assert "bare-node IPv4: p50 2.15, p95 2.15, max 2.15 s, n 4, never 1" in desc(health())


def test_vantages_that_disagree_are_seen() -> None:
    evidence = health()
    answers = evidence["health_checks"].answers
    wrong = next(key for key in answers if "pod-on-other-node-to-bare" in key)
    answers[wrong] = tuple(replace(each, status=200) for each in answers[wrong])
    said = drawn(evidence)
    assert "answers differ" in said
    assert "pod-on-other-node ipv4" in said


def test_policy_changes_are_timed_as_the_judge_does() -> None:
    said = desc(policy_changes(silent={At.ENDPOINT_NODE: 1.0}))
    assert "bare-node IPv4: to Cluster p50 0.33, max 0.33, n 3, never 0; to Local p50 0.33, max 0.33" in said
    # those that were lost neither begin nor break what is right
    assert "endpoint-node IPv4: to Cluster p50 1.03, max 1.03, n 3, never 0" in said


def test_a_policy_change_that_was_not_followed_is_never() -> None:
    said = desc(policy_changes(never_follows={At.ENDPOINT_NODE: 2}))
    assert "to Local p50 \u2013, max \u2013, n 0, never 3" in said


def test_continuity_in_words_and_against_the_budget() -> None:
    said = drawn(continuity())
    assert "The budget of a gap is (N+1) x period = 3.00 s (N=2, period 1.00 s, as the load balancer reports)" in said
    assert "deleted, default.local IPv4: 21 of 150 lost, 1 late, longest gap 4.00 s, 1 broken" in desc(continuity())
    assert "150 / 21 / 1 / 4.00 / 1" in said
    assert "2.00 to 6.00" in said


def test_a_vip_that_goes_to_another_node_is_marked() -> None:
    seen = continuity()["continuity"]
    assert len(drawn({"continuity": seen})) > len(drawn({"continuity": replace(seen, links={})}))
    first_alone = {of: [told[0], told[0]._replace(at=212.5)] for of, told in seen.links.items()}
    assert drawn({"continuity": replace(seen, links=first_alone)}) == drawn({"continuity": replace(seen, links={})})


def test_a_gap_ends_where_nothing_is_missed_for_long_or_something_else_is_done() -> None:
    assert "2.00 to 4.00" in drawn(continuity(late=217.0))
    assert "2.00 to 3.20" in drawn(continuity((210.0, 213.25), late=217.0))


def test_the_api_and_its_refusals() -> None:
    said = drawn(api())
    assert "422 Invalid x1" in said
    assert "the API server hung up" in said


def test_a_neighbour_that_was_changed_is_reported() -> None:
    assert "HAS CHANGED" in drawn(interoperability())


# -------------------------------------------------------------------------------------------- hostile, and half-filled
def poisoned(value: Any) -> Any:
    """The same, with something nasty in every text, keys included."""
    if isinstance(value, dict):
        said = {poisoned(key) if "-" in str(key) or "/" in str(key) else key: poisoned(of) for key, of in value.items()}
        return Counter(said) if isinstance(value, Counter) else said
    if isinstance(value, list | tuple):
        made = map(poisoned, value)
        return type(value)(*made) if hasattr(value, "_fields") else type(value)(made)
    if is_dataclass(value) and not isinstance(value, type):
        return replace(value, **{of.name: poisoned(getattr(value, of.name)) for of in fields(value) if of.init})
    if isinstance(value, Enum):
        return value
    return f"{value}{HOSTILE}" if isinstance(value, str) else value


def test_hostile_names_stay_text() -> None:
    made = shown({key: poisoned(records) for key, records in every().items()})
    for markup in made:
        assert "<script" not in markup
        markup.encode()
        parsed(markup)
    assert html.escape("<script>alert") in "\n".join(made)


@pytest.mark.parametrize("kind", sorted(every()))
def test_a_run_that_broke_off_shows_what_there_is(kind: str) -> None:
    """Evidence of one kind only, and of all but one."""
    for evidence in ({kind: every()[kind]}, {each: of for each, of in every().items() if each != kind}):
        for markup in shown(evidence):
            parsed(markup)
            assert BROKEN not in markup


def test_what_cannot_be_drawn_is_said_and_hinders_nothing_else() -> None:
    (section,) = sections(recorded(harmed(counted={Family.IPV4: None})))
    assert f"Balance {BROKEN}" in html.unescape(re.sub("<[^>]+>", "", html_of(section)))
    assert "bound 3.00 s" in html_of(section)


def test_a_ledger_that_is_not_whole_is_reported() -> None:
    assert all("is incomplete" in html_of(section) for section in sections(recorded(every(), whole=False)))
    assert "is not whole" not in "\n".join(whole())


def test_obstacles_are_reported() -> None:
    said = "\n".join(whole())
    assert "reference-proxy could not be tested: it has no address" in said
    assert "vip IPv4 could not be tested: there is none" in said
    assert "reference-proxy.local IPv4 could not be tested" in said


# ------------------------------------------------------------------------------------------------------ size and bytes
def test_a_long_run_stays_small() -> None:
    evidence = everything(20)
    assert len(evidence["convergence"].results[Balancer.ECMP].changes) == 48
    assert sum(len(html_of(section).encode()) for section in sections(recorded(evidence))) < MOST_BYTES


def test_a_flood_of_evidence_stays_small() -> None:
    """Every request lost: nothing grows with that beyond the drawing's own resolution."""
    evidence = everything()
    moved = evidence["convergence"]
    lost = Stream("VIP", 0.02, [Sample(at, 5 + at / 200, 6 + at / 200, "timeout") for at in range(10000)])
    lost.freeze()
    flood = {
        balancer: replace(result, seen=replace(result.seen, vip=dict.fromkeys(result.seen.vip, lost)))
        for balancer, result in moved.results.items()
    }
    evidence["convergence"] = replace(moved, results=flood)
    seen = evidence["continuity"]
    requests = [Sample(at, 210 + at / 400, 213 + at / 400, "timeout") for at in range(5000)]
    evidence["continuity"] = replace(seen, streams={of: Stream(of[0].slug, 0.1, requests) for of in seen.streams})
    assert sum(len(html_of(section).encode()) for section in sections(recorded(evidence))) < MOST_BYTES


BYTES = """
import hashlib
from esipp.report.sections import sections, shown_of
from tests.unit.drawings_world import everything, html_of, recorded
print(hashlib.sha256("".join(html_of(each) for each in sections(recorded(everything()))).encode()).hexdigest())
"""


def test_the_same_evidence_makes_the_same_bytes() -> None:
    """Also in a process in which sets have another order."""
    other = "2" if os.environ.get("PYTHONHASHSEED") == "1" else "1"
    made = subprocess.run(
        [sys.executable, "-c", BYTES], env={**os.environ, "PYTHONHASHSEED": other}, capture_output=True, check=True
    ).stdout
    assert made.decode().strip() == hashlib.sha256("".join(whole()).encode()).hexdigest()
