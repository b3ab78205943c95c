"""Who answers that it has a VIP while nodes and agents are disturbed: one node at a time, again after each event."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from esipp.base.clock import Clock
from esipp.checks.check import Feature, Status, on_link
from esipp.checks.continuity import ONE_NODE_WITHIN, Phase, What
from esipp.checks.model import OUTSIDE, Family, Outcome
from esipp.judging.frame import Decision
from esipp.judging.link_owners import LinkAnswer
from esipp.probing.prober import Target
from esipp.scenarios.continuity.evidence import ContinuityEvidence, Window
from esipp.scenarios.continuity.judge import Judge
from esipp.scenarios.continuity.objects import asking_link
from esipp.scenarios.continuity.run import tell_off_link
from esipp.scenarios.continuity.traffic import CONTROLS, Streams, Targets
from suites.continuity.checks import CHECKS as ALL_CHECKS
from suites.continuity.checks import WAYS
from suites.continuity.events import EVENTS
from tests.unit.continuity_world import (
    BEGAN,
    CHECKS,
    END,
    FEATURES,
    SINCE,
    changed,
    check_id,
    differing,
    key,
    link_answer,
    owned_by,
    reset,
    world,
)
from tests.unit.verdicts import judge_with

SLUG = "default.local"
BACK = BEGAN[Phase.CUT_OFF] + 12
"""When the node is back: the end of each event in the simulated cluster."""


def decided(seen: ContinuityEvidence, phase: Phase) -> Decision:
    (check,) = (each for each in CHECKS if each.id == check_id(phase, SLUG, "one-node"))
    return Judge(seen).decide(check)


def test_it_is_asked_at_the_vips_of_the_clusters_own_load_balancer_while_quiet_and_where_the_vip_may_move() -> None:
    found = {(each.subject.phase, each.subject.way.slug) for each in CHECKS if each.subject.what is What.ONE_NODE}
    phases = {each.phase for each in EVENTS if each.disturbs_balancer} | {Phase.QUIET, Phase.DRAIN}
    assert found == {(phase, slug) for phase in phases for slug in ("default.local", "default.cluster")}
    assert {Phase.CUT_OFF, Phase.SPEAKER, Phase.SPEAKER_MOVES, Phase.IDLE_LEFT} <= phases


def alone(seen: ContinuityEvidence) -> ContinuityEvidence:
    """The same, where the node's return is the last event."""
    return replace(seen, windows=[each for each in seen.windows if each.began <= BEGAN[Phase.CUT_OFF]])


def test_a_node_that_keeps_the_vip_after_its_return_fails_that_event() -> None:
    seen = alone(owned_by(world(), SLUG, BACK, END, "a", "c"))
    assert decided(seen, Phase.CUT_OFF).status is Status.FAIL
    assert "several nodes answer for one VIP: a and c, still" in decided(seen, Phase.CUT_OFF).reason
    for phase in (Phase.QUIET, Phase.DRAIN, Phase.SPEAKER):
        assert decided(seen, phase).status is Status.PASS


@pytest.mark.parametrize(
    ("seconds", "status"), [(5.0, Status.PASS), (ONE_NODE_WITHIN - 2, Status.PASS), (ONE_NODE_WITHIN + 2, Status.FAIL)]
)
def test_speakers_that_lost_each_other_have_a_minute(seconds: float, status: Status) -> None:
    """MetalLB's speakers claim each other's VIPs until they have found each other."""
    seen = alone(owned_by(world(), SLUG, BACK, BACK + seconds, "a", "c"))
    assert decided(seen, Phase.CUT_OFF).status is status


@pytest.mark.parametrize(
    ("claimed", "lost_at", "balancer", "status"),
    [
        ((3.0, 4.5), (3.5,), "metallb-l2", Status.KNOWN),
        ((3.0, 4.5), (3.5, 4.0), "metallb-l2", Status.KNOWN),
        ((3.0, 4.5), (3.5,), "kube-vip", Status.FAIL),
        ((3.0, 4.5), (3.5, 7.0), "metallb-l2", Status.FAIL),  # the second one has another reason
        ((0.0, 0.0), (3.5,), "metallb-l2", Status.FAIL),
    ],
)
def test_requests_that_are_lost_while_two_speakers_claim_the_vip_are_a_finding(
    claimed: tuple[float, float], lost_at: tuple[float, ...], balancer: str, status: Status
) -> None:
    """A node that is back said that the VIP's node was dead: 1 of 257 requests was reset (kind, 2026-11-28)."""
    back = BEGAN[Phase.IDLE_LEFT] + 12
    seen = owned_by(world(), SLUG, back + claimed[0], back + claimed[1], "a", "c")
    for at in lost_at:
        seen = changed(seen, SLUG, back + at, reset)
    (check,) = (each for each in CHECKS if each.id == check_id(Phase.IDLE_LEFT, SLUG, "no-loss"))
    said = judge_with(check, Judge(seen), FEATURES, {"load-balancer.profile": balancer})
    assert said.status is status


def test_answers_that_may_have_come_after_the_next_event_began_are_not_judged() -> None:
    """Each question is open for a second. A healthy MetalLB moved the VIP meanwhile (kind-iptables, 2026-11-28)."""
    following = min(each.began for each in world().windows if each.began > BEGAN[Phase.CUT_OFF])
    seen = owned_by(world(), SLUG, following - 0.9, following, "a", "c")
    assert decided(seen, Phase.CUT_OFF).status is Status.PASS
    first = min(each.began for each in world().windows)
    assert decided(owned_by(world(), SLUG, first - 0.9, first, "a", "c"), Phase.QUIET).status is Status.PASS
    assert decided(owned_by(world(), SLUG, first - 1.9, first, "a", "c"), Phase.QUIET).status is Status.FAIL


def test_a_second_node_that_comes_late_counts_too() -> None:
    seen = alone(owned_by(world(), SLUG, BACK + 5, END, "a", "c"))
    assert decided(seen, Phase.CUT_OFF).status is Status.FAIL
    flapping = alone(owned_by(world(), SLUG, BACK + 70, BACK + 71, "a", "c"))
    assert decided(flapping, Phase.CUT_OFF).status is Status.FAIL


def test_several_nodes_for_less_than_a_minute_at_the_end_of_the_run_prove_nothing() -> None:
    seen = owned_by(world(), SLUG, BACK, BACK + 30, "a", "c")
    cut = [each for each in seen.owners[key(SLUG)] if each.at < BACK + 30]
    short = replace(seen, owners={**seen.owners, key(SLUG): cut})
    assert decided(alone(short), Phase.CUT_OFF).status is Status.INCONCLUSIVE


def test_what_the_next_event_does_is_its_own() -> None:
    began = BEGAN[Phase.IDLE_LEFT]
    seen = owned_by(world(), SLUG, began, began + 12, "a", "c")
    assert decided(seen, Phase.CUT_OFF).status is Status.PASS


def test_two_nodes_during_an_event_are_allowed() -> None:
    began = BEGAN[Phase.CUT_OFF]
    assert differing(owned_by(world(), SLUG, began, BACK, "a", "c")) == {}


def test_the_vip_may_move() -> None:
    assert differing(owned_by(world(), SLUG, BACK, END, "c")) == {}


def test_two_nodes_before_anything_is_disturbed_fail_the_quiet_time() -> None:
    seen = owned_by(world(), SLUG, SINCE + 1, SINCE + 1.5, "a", "c")
    assert differing(seen) == {check_id(Phase.QUIET, SLUG, "one-node"): Status.FAIL}


def test_what_was_not_asked_or_not_answered_is_undecided() -> None:
    nobody = replace(world(), owners={})
    assert set(differing(nobody).values()) == {Status.INCONCLUSIVE}
    silent = owned_by(world(), SLUG, 0.0, END)
    assert differing(silent)[check_id(Phase.QUIET, SLUG, "one-node")] is Status.INCONCLUSIVE
    without_control = replace(world(), own_links={})
    assert {decided(without_control, each).status for each in (Phase.QUIET, Phase.CUT_OFF)} == {Status.INCONCLUSIVE}


def test_a_prober_that_may_not_ask_is_an_error_of_ours() -> None:
    told = [LinkAnswer(each.at, Outcome.ERROR, (), "EPERM") for each in world().owners[key(SLUG)]]
    seen = replace(world(), owners={key(SLUG): told})
    assert {decided(seen, each).status for each in (Phase.QUIET, Phase.CUT_OFF)} == {Status.ERROR}


# ------------------------------------------------------------------------------------------------------------- the run
def test_the_link_is_asked_for_the_vips_all_the_time_and_for_the_nodes_at_the_start() -> None:
    jobs: list[Any] = []
    sinks: dict[str, Any] = {}

    def stream(job: Any, sink: Any) -> Any:
        jobs.append(job)
        sinks[job.host, job.protocol] = sink
        return SimpleNamespace(cancel=lambda: None, wait=lambda _: 0)

    way = next(each for each in WAYS if each.slug == SLUG)
    own = {("a", Family.IPV4): "192.0.2.1", ("c", Family.IPV4): "192.0.2.3"}
    ways = {(way, Family.IPV4): Target("192.0.2.100", 80), (way, Family.IPV6): Target("2001:db8::100", 80)}
    streams = Streams(SimpleNamespace(stream=stream), Targets(ways, {}, {}, own=own), Clock(0.0, 0.0))
    streams.start()
    asked = {job.host: job.count for job in jobs if job.protocol == "who-has"}
    assert {host for host, count in asked.items() if count > CONTROLS} == {"192.0.2.100"}, "IPv6 was not asked for"
    assert asked.keys() == {"192.0.2.100", "192.0.2.1", "192.0.2.3"}
    for host, links in (("192.0.2.1", ["A"]), ("192.0.2.3", ["C"]), ("192.0.2.100", ["A"])):
        sinks[host, "who-has"]({"started": 10.0, "outcome": "answered", "links": links})
    assert streams.shared(11.0) == []
    sinks["192.0.2.100", "who-has"]({"started": 10.3, "outcome": "answered", "links": ["A", "C"]})
    assert streams.shared(11.0) == [f"{SLUG} IPv4"]
    assert streams.shared(20.0) == []


def test_only_families_of_selected_checks_are_asked_for() -> None:
    (check,) = (each for each in ALL_CHECKS if each.id == f"continuity.quiet.{SLUG}.ipv6.one-node")
    assert asking_link([check]) == {Family.IPV6}
    assert asking_link([each for each in ALL_CHECKS if each.subject.what is not What.ONE_NODE]) == frozenset()


def test_vips_behind_a_gateway_leave_the_feature_missing() -> None:
    told: dict[str, Feature] = {}
    context: Any = SimpleNamespace(
        findings=SimpleNamespace(features={}), run=SimpleNamespace(feature=lambda name, each: told.update({name: each}))
    )
    off = [LinkAnswer(1.0, Outcome.UNREACHABLE, (), "not on a link of this host")] * 3
    tell_off_link(context, ContinuityEvidence(owners={key(SLUG): off}))
    assert told.keys() == {on_link("IPv4")}
    assert told[on_link("IPv4")].why == f"{OUTSIDE.name} reaches the IPv4 VIPs through a gateway, not on their link"
    tell_off_link(context, ContinuityEvidence(owners={key(SLUG): [link_answer(1.0, "a")]}))
    assert len(told) == 1


def test_what_begins_when_an_event_is_over_and_ends_in_the_next_one_belongs_to_that() -> None:
    """A node that was cut off broke exchanges that had begun 0.1 s before, in the phase of the node that had joined."""
    first, second = Window(Phase.JOINED, 100.0, 110.0, over=108.0), Window(Phase.CUT_OFF, 110.0, 120.0)
    seen = ContinuityEvidence(windows=(first, second), since=50.0)
    assert seen.phase_of(109.0, 113.0) is Phase.CUT_OFF
    assert seen.phase_of(109.0, 109.1) is Phase.JOINED
    assert seen.phase_of(107.0, 110.5) is Phase.JOINED, "it was not over"
    assert replace(seen, windows=(first,)).phase_of(109.0, 113.0) is Phase.JOINED, "nothing follows"
    assert replace(seen, windows=(replace(first, over=None), second)).phase_of(109.0, 113.0) is Phase.JOINED
