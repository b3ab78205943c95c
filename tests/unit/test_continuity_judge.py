"""The judge of continuity: in a healthy world nothing is red, and of each lie exactly the right rows are."""

import re
from dataclasses import replace

import pytest

from esipp.continuity.judging import Judge
from esipp.continuity.losses import gaps, tally
from esipp.continuity.rows import Phase
from esipp.continuity.seen import Exchange, Seen, Steer, Window
from esipp.moves.samples import Sample, Stream
from esipp.rows import Status
from tests.unit.continuity_world import (
    BEGAN,
    FAMILY,
    FEATURES,
    ROWS,
    STRANGER,
    broken,
    changed,
    control_lost,
    differing,
    key,
    lost,
    moment,
    reset,
    row_id,
    statuses,
    steered,
    world,
)

ROLLING, QUIET = Phase.ROLLING_UPDATE, Phase.QUIET
ECMP = "reference-ecmp.local"


def red(phase: Phase, slug: str, what: str, status: Status = Status.FAIL) -> dict[str, Status]:
    return {row_id(phase, slug, what): status}


def test_nothing_is_red_in_a_healthy_world() -> None:
    assert differing(world()) == {}


def test_every_phase_shows_losses_where_they_are_legitimate() -> None:
    """Else the healthy world would prove nothing: a node that has no pod for a while is silent, a balancer late."""
    judge = Judge(world())
    assert judge.tally(Phase.DELETED, key("nodeport.local")[0], FAMILY).lost > 0
    assert judge.tally(Phase.FLAPS, key(ECMP)[0], FAMILY).lost > 0
    assert judge.tally(Phase.ROLLING_UPDATE, key(ECMP)[0], FAMILY).lost == 0


@pytest.mark.parametrize(
    ("phase", "slug"),
    [
        (ROLLING, ECMP),
        (ROLLING, "reference-proxy.local"),
        (ROLLING, "nodeport.cluster"),
        (ROLLING, "default.cluster"),
        (Phase.DELETED, ECMP),
        (Phase.DRAIN, "reference-proxy.local"),
        (Phase.FLAPS, "reference-ecmp.cluster"),
        (Phase.FLIPS, "nodeport.local"),
        (Phase.CORDON, "default.local"),
        (Phase.EXCLUDE, ECMP),
        (Phase.KUBE_PROXY, "nodeport.local"),
        (Phase.SPEAKER, ECMP),
        (Phase.API_SERVER, "default.cluster"),
        (Phase.KUBELET, "nodeport.cluster"),
        (QUIET, "default.local"),
    ],
)
def test_one_lost_connection_is_found(phase: Phase, slug: str) -> None:
    seen = changed(world(), slug, moment(phase, 1.0 if phase is QUIET else 4.0), lost)
    assert differing(seen) == red(phase, slug, "no-loss")


def test_what_the_prober_says_of_a_lost_request_is_told() -> None:
    seen = changed(world(), ECMP, moment(ROLLING, 4.0), lost)
    seq = next(each.seq for each in seen.streams[key(ECMP)].samples if not each.answered and each.started > 10.0)
    seen = replace(seen, details={(ECMP, seq): "connected, no answer"})
    assert "1 timeout (connected, no answer)" in verdict(seen, row_id(ROLLING, ECMP, "no-loss")).reason


def test_what_is_lost_where_nobody_promised_otherwise_is_recorded() -> None:
    seen = changed(world(), "default.local", moment(ROLLING, 4.0), lost, count=30)
    assert differing(seen) == {}
    assert "30 of" in verdict(seen, row_id(ROLLING, "default.local", "losses")).observed


def verdict(seen, name):
    row = next(each for each in ROWS if each.id == name)
    return Judge(seen).verdict(row, FEATURES, {})


def test_a_late_answer_is_told_and_is_no_loss() -> None:
    seen = changed(world(), ECMP, moment(ROLLING, 4.0), lambda s: s._replace(ended=s.started + 1.2))
    assert differing(seen) == {}
    assert "1 late" in verdict(seen, row_id(ROLLING, ECMP, "no-loss")).observed


def test_a_loss_that_the_control_shares_says_nothing() -> None:
    at = moment(ROLLING, 4.0)
    seen = control_lost(changed(world(), ECMP, at, lost), at)
    assert differing(seen) == red(ROLLING, ECMP, "no-loss", Status.INCONCLUSIVE)


def test_a_loss_that_the_control_does_not_share_is_one_whatever_became_of_others() -> None:
    at = moment(ROLLING, 4.0)
    seen = changed(control_lost(changed(world(), ECMP, at, lost), at), ECMP, at + 5.0, lost)
    assert differing(seen) == red(ROLLING, ECMP, "no-loss")
    at = moment(Phase.DELETED, 2.0)
    seen = control_lost(changed(world(), "nodeport.local", at, lost, count=45), at)
    assert differing(seen) == red(Phase.DELETED, "nodeport.local", "terminating-serves")


def test_a_control_that_our_prober_could_not_ask_excuses_nothing() -> None:
    at = moment(ROLLING, 4.0)
    seen = control_lost(changed(world(), ECMP, at, lost), at)
    ours = [s if s.answered else s._replace(outcome="error") for s in seen.control[FAMILY].samples]
    assert differing(replace(seen, control={FAMILY: Stream("control", 0.1, ours)})) == red(ROLLING, ECMP, "no-loss")


def test_a_change_of_routes_excuses_no_more_than_what_was_open() -> None:
    at = moment(ROLLING, 4.0)
    seen = steered(changed(world(), ECMP, at, reset, count=4), ECMP, at + 0.05)
    assert differing(seen) == red(ROLLING, ECMP, "no-loss")


def test_a_connection_that_the_balancer_moved_is_known_for_a_forwarder_only() -> None:
    at = moment(ROLLING, 4.0)
    seen = steered(changed(world(), ECMP, at, reset), ECMP, at + 0.05)
    assert differing(seen) == red(ROLLING, ECMP, "no-loss", Status.KNOWN)
    assert differing(changed(world(), ECMP, at, reset)) == red(ROLLING, ECMP, "no-loss"), "it did not say so"
    other = "reference-proxy.local"
    assert differing(steered(changed(world(), other, at, reset), other, at)) == red(ROLLING, other, "no-loss")


@pytest.mark.parametrize("phase", [QUIET, ROLLING, Phase.FLAPS, Phase.KUBELET])
@pytest.mark.parametrize("slug", [ECMP, "reference-proxy.local", "nodeport.local", "nodeport.cluster"])
def test_one_answer_with_a_wrong_source_is_found(phase: Phase, slug: str) -> None:
    at = moment(phase, 0.1 if slug == "nodeport.local" else 4.0)
    seen = changed(world(), slug, at, lambda s: s._replace(source=STRANGER) if s.answered else s, count=3)
    assert differing(seen) == red(phase, slug, "source")


def test_a_node_is_no_right_source_under_local_but_while_the_policy_flips() -> None:
    node = "192.0.2.2"
    seen = changed(world(), ECMP, moment(Phase.FLIPS, 9.5), lambda s: s._replace(source=node))
    assert differing(seen) == {}
    seen = changed(world(), ECMP, moment(Phase.FLIPS, 12.0), lambda s: s._replace(source=node))
    assert differing(seen) == red(Phase.FLIPS, ECMP, "source")


def test_a_wrong_source_that_the_control_shares_says_nothing() -> None:
    seen = changed(world(), ECMP, moment(QUIET, 1.0), lambda s: s._replace(source=STRANGER))
    masked = [s._replace(source=STRANGER) for s in seen.control[FAMILY].samples]
    seen = replace(seen, control={FAMILY: Stream("control", 0.1, masked)})
    assert differing(seen) == red(QUIET, ECMP, "source", Status.INCONCLUSIVE)


def test_a_wrong_source_on_a_connection_that_lasts_is_found() -> None:
    seen = world()
    at = moment(Phase.FLIPS, 15.0)
    made = [
        Exchange(e.number, e.sample._replace(source=STRANGER)) if abs(e.sample.started - at) < 0.2 else e
        for e in seen.lasting[key(ECMP)]
    ]
    seen = replace(seen, lasting={**seen.lasting, key(ECMP): made})
    assert differing(seen) == red(Phase.FLIPS, ECMP, "source")


def test_a_connection_keeps_the_source_that_it_had_when_it_was_opened() -> None:
    """One that was opened while the policy was Cluster shows a node's address ever after; no other may begin to."""
    seen, node = world(), "192.0.2.2"

    def shown(since: float, opened: float) -> Seen:
        made = [
            Exchange((7, 0) if e.sample.started >= opened else e.number, e.sample._replace(source=node))
            if e.sample.started >= since
            else e
            for e in seen.lasting[key(ECMP)]
        ]
        return replace(seen, lasting={**seen.lasting, key(ECMP): made})

    opened = moment(Phase.FLIPS, 5.0)
    assert differing(shown(opened, opened)) == {}
    found = differing(shown(moment(Phase.FLIPS, 5.0), 1e9))
    assert found[row_id(Phase.FLIPS, ECMP, "source")] is Status.FAIL, "an old one showed another source from then on"


def test_an_answer_by_a_pod_of_another_node_is_found_at_a_local_node_port() -> None:
    """Handed on without rewriting: a request that nobody should have answered."""
    at = moment(Phase.DELETED, 9.0)  # between two pods of the endpoint node
    handed_on = Sample(0, at, at + 0.003, "answered", "c2", "c", "192.0.2.9")
    seen = changed(world(), "nodeport.local", at, lambda s: handed_on)
    assert differing(seen) == red(Phase.DELETED, "nodeport.local", "place")


@pytest.mark.parametrize("slug", [ECMP, "default.local", "nodeport.cluster"])
def test_an_answer_by_a_pod_that_may_not_answer_is_found(slug: str) -> None:
    at = moment(Phase.FLIPS, 15.0)
    seen = changed(world(), slug, at, lambda s: s._replace(pod="a1", node="a"))  # long gone
    assert differing(seen) == red(Phase.FLIPS, slug, "place")


def test_a_pod_that_is_unready_may_not_answer_once_its_node_has_said_503() -> None:
    at = moment(Phase.FLAPS, 5.0)
    pod = next(m.pod for m in world().marks if m.what == "unready")
    seen = changed(world(), ECMP, at, lambda s: Sample(s.seq, s.started, s.started, "answered", pod, "a", "192.0.2.9"))
    assert differing(seen) == red(Phase.FLAPS, ECMP, "place")


@pytest.mark.parametrize("phase", [QUIET, Phase.FLIPS, Phase.CORDON, Phase.API_SERVER])
def test_a_broken_connection_is_found(phase: Phase) -> None:
    assert differing(broken(world(), "nodeport.cluster", moment(phase, 3.0))) == red(
        phase, "nodeport.cluster", "lasting"
    )


def test_connections_whose_pod_ends_are_no_broken_ones() -> None:
    judge = Judge(world())
    assert [len(judge.every_break(ROLLING, key(slug)[0], FAMILY)) for slug in (ECMP, "nodeport.cluster")] != [0, 0]


@pytest.mark.parametrize("phase", [ROLLING, Phase.DELETED])
@pytest.mark.parametrize("slug", ["nodeport.local", "nodeport.cluster", "reference-proxy.local"])
def test_a_connection_that_breaks_while_its_pod_still_serves_is_found(phase: Phase, slug: str) -> None:
    seen = world()
    ends = {mark.pod: mark.at for mark in seen.marks if mark.what == "deleting"}
    at, number, pod = next(
        (e.sample.started, e.number, e.sample.pod)
        for e in seen.lasting[key(slug)]
        if e.sample.answered and BEGAN[phase] < ends.get(e.sample.pod, 0.0) + 1.0 < e.sample.started < BEGAN[phase] + 22
    )
    made = [e for e in seen.lasting[key(slug)] if e.number != number or e.sample.started < at]
    made.append(Exchange(number, Sample(0, at, at + 0.01, "reset"), lost=at))
    made.sort(key=lambda each: each.sample.started)
    assert pod in ends
    assert differing(replace(seen, lasting={**seen.lasting, key(slug): made})) == red(phase, slug, "lasting")


def test_a_vip_that_has_moved_breaks_what_was_open_and_nothing_else_may() -> None:
    slug, phase = "default.local", Phase.API_SERVER
    seen = broken(world(), slug, moment(phase, 3.0))
    pod = Judge(seen).every_break(phase, *key(slug))[0].pod

    def answering(node: str) -> Seen:
        made = [s._replace(node=node) for s in seen.streams[key(slug)].samples]
        return replace(seen, streams={**seen.streams, key(slug): Stream(slug, 0.1, made)})

    name, (here, elsewhere) = row_id(phase, slug, "lasting"), ("ac", "ca")[seen.nodes[pod] == "c"]
    assert statuses(answering(here))[name] is Status.FAIL
    assert statuses(answering(elsewhere))[name] is Status.KNOWN


@pytest.mark.parametrize(
    ("slug", "source", "facts"),
    [
        ("default.local", STRANGER, {"load-balancer.ingress": "Proxy"}),
        ("default.cluster", STRANGER, {"load-balancer.ingress": "hostname"}),
        ("nodeport.cluster", "192.0.2.9", {"service-proxy": "cilium"}),
    ],
)
def test_sources_that_other_data_planes_show_are_known_there_only(
    slug: str, source: str, facts: dict[str, str]
) -> None:
    seen = changed(world(), slug, moment(QUIET, 1.0), lambda s: s._replace(source=source))
    row = next(each for each in ROWS if each.id == row_id(QUIET, slug, "source"))
    assert Judge(seen).verdict(row, FEATURES, facts).status is Status.KNOWN
    assert Judge(seen).verdict(row, FEATURES, {}).status is Status.FAIL
    other = changed(world(), "nodeport.local", moment(QUIET, 1.0), lambda s: s._replace(source=STRANGER))
    row = next(each for each in ROWS if each.id == row_id(QUIET, "nodeport.local", "source"))
    assert Judge(other).verdict(row, FEATURES, facts).status is Status.FAIL


def test_without_any_health_check_a_pod_that_ends_is_not_judged_and_that_is_told() -> None:
    said = verdict(replace(world(), health={}), row_id(ROLLING, "nodeport.local", "terminating-serves"))
    assert said.status is Status.INCONCLUSIVE
    assert "no health check could be asked" in said.reason


def test_a_connection_that_the_balancer_moved_is_known() -> None:
    at = moment(Phase.FLAPS, 3.0)
    seen = steered(broken(world(), ECMP, at), ECMP, at - 0.1)
    assert differing(seen) == red(Phase.FLAPS, ECMP, "lasting", Status.KNOWN)
    assert differing(broken(world(), "default.local", at)) == {}, "recorded"


@pytest.mark.parametrize("phase", [ROLLING, Phase.DELETED, Phase.DRAIN])
def test_a_node_that_drops_while_its_pod_ends_is_found(phase: Phase) -> None:
    seen = changed(world(), "nodeport.local", moment(phase, 2.0), lost, count=50)
    assert differing(seen) == red(phase, "nodeport.local", "terminating-serves")
    seen = changed(world(), "nodeport.local", moment(phase, 4.0), lost)
    assert differing(seen) == red(phase, "nodeport.local", "terminating-serves"), "a single one, too"


def test_that_a_pod_serves_its_last_proves_nothing_where_the_node_never_said_503() -> None:
    seen = world()
    always = [s._replace(outcome="200") for s in seen.health[FAMILY]["a"].samples]
    seen = replace(seen, health={FAMILY: {**seen.health[FAMILY], "a": Stream("a", 0.1, always)}})
    found = statuses(seen)
    assert found[row_id(ROLLING, "nodeport.local", "terminating-serves")] is Status.INCONCLUSIVE


def test_a_gap_that_is_one_period_too_long_is_found() -> None:
    """A balancer that needs one failed check more than it says, where a node says 503 for long enough to show it."""
    ways = (ECMP, "reference-proxy.local")
    expected = {row_id(phase, way, "gap") for phase in (Phase.FLAPS, Phase.KUBELET) for way in ways}
    assert differing(world(3.5)) == dict.fromkeys(expected, Status.FAIL)
    assert differing(world(2.9)) == {}


@pytest.mark.parametrize(("nodes", "told"), [((), True), (("c",), False)])
def test_a_balancer_that_tells_of_no_node_left_is_quoted(nodes: tuple[str, ...], told: bool) -> None:
    seen = world(3.5)
    steers = [Steer(0.0, "", ("a",)), Steer(moment(Phase.FLAPS, 0.0), FAMILY.value, nodes, "a became unhealthy")]
    said = verdict(replace(seen, steers={key(ECMP)[0]: steers}), row_id(Phase.FLAPS, ECMP, "gap")).reason
    assert said.endswith("; the balancer tells that no node was left to it: a became unhealthy") is told


def test_of_a_gap_it_is_told_which_answers_were_only_late() -> None:
    seen, since = world(3.5), moment(Phase.FLAPS, 0.0)
    slow = [
        s if s.answered or s.started < since else s._replace(outcome="answered", ended=s.started + 2.0, node="c")
        for s in seen.streams[key(ECMP)].samples
    ]
    streams = {**seen.streams, key(ECMP): Stream(ECMP, 0.1, slow)}
    said = verdict(replace(seen, streams=streams), row_id(Phase.FLAPS, ECMP, "gap"))
    assert said.status is Status.FAIL
    assert re.search(r"; (\d+) of \1 requests missed in it were answered, but late, by pods of c$", said.reason)
    assert "late" not in verdict(seen, row_id(Phase.FLAPS, ECMP, "gap")).reason


def test_for_how_long_we_did_not_ask_is_no_ones_gap() -> None:
    seen = world(3.5)
    at = moment(Phase.FLAPS, 2.0)
    kept = [s for s in seen.streams[key(ECMP)].samples if not at < s.started < at + 1.0]
    found = statuses(replace(seen, streams={**seen.streams, key(ECMP): Stream(ECMP, 0.1, kept)}))
    assert found[row_id(Phase.FLAPS, ECMP, "gap")] is Status.PASS
    assert found[row_id(Phase.KUBELET, ECMP, "gap")] is Status.FAIL


def test_without_the_balancers_settings_there_is_no_budget() -> None:
    seen = replace(world(), checking=replace(world().checking, period=None))
    found = differing(seen)
    assert set(found.values()) == {Status.INCONCLUSIVE}
    assert {name.rpartition(".")[2] for name in found} == {"gap"}


def test_what_was_not_proven_decides_nothing_and_no_other_phase() -> None:
    seen = world()
    windows = [replace(w, trouble="not proven") if w.phase is Phase.CORDON else w for w in seen.windows]
    found = differing(replace(seen, windows=windows))
    assert set(found.values()) == {Status.INCONCLUSIVE}
    assert found.keys() == {row.id for row in ROWS if row.phase is Phase.CORDON}


def test_what_was_not_done_decides_nothing() -> None:
    seen = replace(world(), windows=[w for w in world().windows if w.phase is not Phase.SPEAKER])
    found = statuses(seen, [row for row in ROWS if row.phase is Phase.SPEAKER])
    assert set(found.values()) == {Status.INCONCLUSIVE}


def test_trouble_of_our_own_is_no_loss() -> None:
    at = moment(ROLLING, 3.0)
    ours = lambda s: Sample(s.seq, s.started, s.started, "error")  # noqa: E731
    assert differing(changed(world(), ECMP, at, ours)) == {}
    found = differing(changed(world(), ECMP, at, ours, count=10))
    assert set(found.values()) == {Status.ERROR}
    assert all(f"{ROLLING.value}.{ECMP}" in name for name in found)


def test_a_request_that_is_under_way_when_something_begins_counts_there() -> None:
    seen = changed(world(), ECMP, BEGAN[ROLLING] - 1.0, lost)
    assert differing(seen) == red(ROLLING, ECMP, "no-loss")


# ------------------------------------------------------------------------------------------------------------- numbers
def made(*answered: bool, spacing: float = 0.1) -> list[Sample]:
    return [
        Sample(n, n * spacing, n * spacing + (0.01 if ok else 3.0), "answered" if ok else "timeout")
        for n, ok in enumerate(answered)
    ]


def test_a_gap_goes_from_the_first_missed_request_to_the_last_though_others_are_answered_between() -> None:
    (gap,) = gaps(made(True, False, True, True, False, True))
    assert (round(gap.first, 2), round(gap.last, 2), gap.missed) == (0.1, 0.4, 2)


def test_a_late_answer_belongs_to_a_gap() -> None:
    samples = made(True, True, False, True)
    samples[1] = samples[1]._replace(ended=1.2)
    assert tally(samples).gap is not None
    assert tally(samples).gap.missed == 2
    assert (tally(samples).lost, tally(samples).late) == (1, 1)


def test_gaps_are_apart_by_time_and_by_what_was_done() -> None:
    far = made(False, *[True] * 30, False)
    assert len(gaps(far)) == 2
    near = made(False, True, False)
    assert [len(gaps(near)), len(gaps(near, causes=[0.15]))] == [1, 2]


def test_what_begins_in_a_phase_counts_there_and_else_what_ends_in_one() -> None:
    seen = Seen(windows=[Window(ROLLING, 10.0, 20.0), Window(Phase.DELETED, 22.0, 30.0)], since=5.0)
    asked = [(4.0, 4.1), (6.0, 6.1), (9.0, 10.5), (11.0, 11.1), (19.0, 22.5), (20.5, 20.6), (20.5, 22.5), (31.0, 31.1)]
    assert [seen.phase_of(*each) for each in asked] == [
        None, QUIET, ROLLING, ROLLING, ROLLING, QUIET, Phase.DELETED, QUIET,
    ]  # fmt: skip
