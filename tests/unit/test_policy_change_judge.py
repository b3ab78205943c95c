"""Timelines of changes that lie one way each: the checks that must notice do, and no others."""

from dataclasses import replace

import pytest

from esipp.checks.check import Feature, Level, Status, is_about
from esipp.checks.model import Family
from esipp.checks.policy_change import At, ChangingService, PolicyChange, PolicyClaim
from esipp.judging.frame import Decision
from esipp.judging.timeline import Stream
from esipp.scenarios.policy_change.evidence import STAYS
from esipp.scenarios.policy_change.judge import decide
from suites.compatibility.isolation import CHECKS as ALL_CHECKS
from tests.unit.policy_change_world import BARE, CLUSTER, EVERY, HOME, LOCAL, World
from tests.unit.verdicts import judge_with
from tests.unit.world import FINE

CHECKS = [check for check in ALL_CHECKS if is_about(check, PolicyChange)]
FEATURES = {name: Feature(True, "made up") for check in ALL_CHECKS for name in check.features}
NODE_PORT, DEFAULT = ChangingService.NODE_PORT, ChangingService.DEFAULT


def said(world: World, **facts: str) -> dict[str, tuple[Status, str]]:
    """What the judge says of every check of the world's Service in IPv4, by the end of its id."""
    seen = world.seen()
    found = {}
    for check in CHECKS:
        if check.subject.service is world.service and check.subject.family is Family.IPV4:
            verdict = judge_with(check, seen, FEATURES, facts)
            name = check.id.removeprefix("flip.").replace(f"{check.subject.service.value}.ipv4.", "")
            found[name] = verdict.status, verdict.reason
    return found


def wrong(world: World, **facts: str) -> dict[str, Status]:
    return {name: status for name, (status, _) in said(world, **facts).items() if status not in FINE}


@pytest.mark.parametrize("service", list(ChangingService))
def test_where_all_follow_everything_passes(service: ChangingService) -> None:
    found = said(World(service))
    assert {status for status, _ in found.values()} == set(FINE)
    entries = 2 if service is NODE_PORT else 3
    others = 2 if service is NODE_PORT else 3  # what is kept open, or health-check ports
    assert len(found) == 4 * entries + 2 + 1 + others  # two of them are asked for a prompt return


def test_both_families_are_judged_by_their_own_addresses() -> None:
    seen = World(DEFAULT).seen()
    verdicts = {judge_with(check, seen, FEATURES, {}).status for check in CHECKS if check.subject.service is DEFAULT}
    assert verdicts == set(FINE)


FAIL = Status.FAIL
LIES = {
    "a bare node goes on serving after Local returned": (
        World(never_follows={At.BARE_NODE: 2}),
        {"bare-node.settles": FAIL, "bare-node.prompt": FAIL},  # later changes to Cluster find it as they want it
    ),
    "the endpoint node goes on rewriting after Local returned": (
        World(never_follows={At.ENDPOINT_NODE: 2}),
        {"endpoint-node.settles": FAIL, "endpoint-node.prompt": FAIL},
    ),
    "a bare node never learns of Cluster": (
        World(never_follows={At.BARE_NODE: 1}),
        {"bare-node.settles": FAIL, "bare-node.rewrites": FAIL, "bare-node.prompt": FAIL},
    ),
    "a bare node serves for a moment, long after Local returned": (
        World(blip={At.BARE_NODE: (1.5, LOCAL)}),
        {"bare-node.never-otherwise": FAIL},
    ),
    "a bare node serves again, shortly before the next change": (
        World(blip={At.BARE_NODE: (3.4, LOCAL)}),
        {"bare-node.never-otherwise": FAIL, "bare-node.settles": FAIL},
    ),
    "a node without the pod hands on unrewritten for a moment": (
        World(unrewritten=True),
        {"bare-node.never-otherwise": FAIL},
    ),
    "a node without the pod masquerades by a third address": (
        World(third={At.BARE_NODE: LOCAL}),
        {"bare-node.never-otherwise": FAIL},
    ),
    "the endpoint node masquerades by a third address": (
        World(third={At.ENDPOINT_NODE: CLUSTER}),
        {"endpoint-node.never-otherwise": FAIL},
    ),
    "the endpoint node falls back to rewriting": (
        World(blip={At.ENDPOINT_NODE: (1.5, LOCAL)}),
        {"endpoint-node.never-otherwise": FAIL},
    ),
    "the endpoint node falls back to the client's address": (
        World(blip={At.ENDPOINT_NODE: (1.5, CLUSTER)}),
        {"endpoint-node.never-otherwise": FAIL},
    ),
    "a pod of others answers": (
        World(strange_pod=frozenset({At.ENDPOINT_NODE})),
        {"endpoint-node.never-otherwise": FAIL},
    ),
    "the address of a node that did not take it": (
        World(strange_node=frozenset({At.BARE_NODE})),
        {"bare-node.never-otherwise": FAIL},
    ),
    "rules go before the new ones are there": (
        World(silent={At.ENDPOINT_NODE: 0.2}),
        {"no-loss-at-endpoint-node": FAIL},
    ),
    "Cluster does not rewrite": (
        World(keeps_source=frozenset({At.ENDPOINT_NODE})),
        {"endpoint-node.rewrites": FAIL},
    ),
    "open connections are cut when Local returns": (
        World(loses_kept=2),
        {"endpoint-node.kept": FAIL, "bare-node.kept": FAIL},
    ),
    "open connections show another source": (
        World(moves_kept=3),
        {"endpoint-node.kept": FAIL, "bare-node.kept": FAIL},
    ),
    "open connections hang after the last change": (
        World(hangs_kept=True),
        {"endpoint-node.kept": FAIL, "bare-node.kept": FAIL},
    ),
    "never quick enough": (
        World(never_follows={At.BARE_NODE: 6}),
        {"bare-node.settles": FAIL, "bare-node.prompt": FAIL},
    ),
    "everything is nine seconds late": (
        World(lag=9.0, every=12.0),
        {"bare-node.prompt": FAIL, "endpoint-node.prompt": FAIL},
    ),
}


@pytest.mark.parametrize("lie", LIES)
def test_each_lie_is_found_by_its_checks_only(lie: str) -> None:
    world, expected = LIES[lie]
    assert wrong(world) == expected, said(world)


OF_BALANCERS = {
    "a health port that stays open": (World(DEFAULT, stays_open=BARE), "closed"),
    "one on the endpoint node": (World(DEFAULT, stays_open=HOME), "closed"),
    "a health port that opens again by itself": (World(DEFAULT, reopens=BARE), "closed"),
    "the spec keeps it": (World(DEFAULT, keeps_port=True), "closed"),
    "a node that does not open it again": (World(DEFAULT, not_open=BARE), "open-again"),
    "200 without a pod": (World(DEFAULT, says={BARE: "200"}), "open-again"),
    "503 with the pod": (World(DEFAULT, says={HOME: "503"}), "open-again"),
}


@pytest.mark.parametrize("lie", OF_BALANCERS)
def test_each_lie_of_a_health_port_is_found(lie: str) -> None:
    world, claim = OF_BALANCERS[lie]
    found = wrong(world)
    assert found.pop(f"health-port.{claim}") is FAIL, said(world)
    assert set(found) <= {"health-port.prompt"}, said(world)


@pytest.mark.parametrize(
    ("last", "status", "late"),
    [
        (["200"] * 9 + ["accepted"], Status.PASS, False),
        (["accepted"] * 9 + ["200", "timeout"], FAIL, True),
        (["accepted"] * 10, FAIL, False),
        (["200"] * 8 + ["503", "accepted"], FAIL, False),
    ],
    ids=["one without data", "most without", "none answered", "one wrong"],
)
def test_health_ports_whose_last_answers_are_right_or_do_not_come_are_late(
    last: list[str], status: Status, late: bool
) -> None:
    decided = at_the_end(last, before="200")
    assert (decided.status, decided.late) == (status, late), decided.reason


@pytest.mark.parametrize(("before", "late"), [("refused", True), ("200", False)])
def test_a_port_that_opened_shortly_before_may_have_been_closed_until_then(before: str, late: bool) -> None:
    """The last ten answers began before it was open (docs/soak.md, run 91)."""
    decided = at_the_end(["refused", "200", *["accepted"] * 8, "200"], before)
    assert (decided.status, decided.late) == (FAIL, late), decided.reason


def at_the_end(last: list[str], before: str) -> Decision:
    """The decision on a port that opens again, with these last answers; all answers before them are of one kind."""
    seen = World(DEFAULT).seen()
    course = seen.courses[DEFAULT]
    (check,) = (
        each
        for each in CHECKS
        if each.subject.service is DEFAULT
        and each.subject.claim is PolicyClaim.HEALTH_AGAIN
        and each.subject.family is Family.IPV4
    )
    key = max(key for key in course.health if key[1] == HOME and key[2] is Family.IPV4)
    stream = course.health[key]
    outcomes = [before] * (len(stream.samples) - len(last)) + last
    samples = [sample._replace(outcome=outcome) for sample, outcome in zip(stream.samples, outcomes, strict=True)]
    course.health[key] = Stream(stream.name, stream.spacing, samples)
    return decide(check, seen)


def test_a_service_that_gets_no_port_again() -> None:
    assert wrong(World(DEFAULT, no_port=True)) == {
        "health-port.open-again": FAIL,
        "health-port.closed": Status.INCONCLUSIVE,  # nothing that could stay open
    }


def test_a_freed_port_that_another_service_has_now_is_closed() -> None:
    assert wrong(World(DEFAULT, foreign=True)) == {}


def test_a_balancer_may_lose_while_it_follows_and_show_both_policies_meanwhile() -> None:
    assert wrong(World(DEFAULT, silent={At.VIP: 2.0})) == {}


def test_a_balancer_that_does_not_come_back() -> None:
    assert wrong(World(DEFAULT, silent={At.VIP: EVERY - STAYS / 2})) == {"vip.settles": FAIL, "vip.rewrites": FAIL}


def test_what_others_do_otherwise_for_a_reason_is_known() -> None:
    world = World(keeps_source=frozenset({At.ENDPOINT_NODE}))
    known = said(world, **{"service-proxy": "cilium"})["endpoint-node.rewrites"]
    assert known[0] is Status.KNOWN
    assert said(world, **{"service-proxy": "kube-proxy"})["endpoint-node.rewrites"][0] is FAIL


def test_bare_nodes_that_keep_the_source_under_cluster_are_known_of_dsr_alone() -> None:
    dsr = {"service-proxy": "cilium", "cilium.load-balancer-mode": "dsr"}
    checks = ("bare-node.rewrites", "bare-node.never-otherwise")
    world = World(keeps_source=frozenset({At.BARE_NODE}))
    assert [said(world, **dsr)[check][0] for check in checks] == [Status.KNOWN] * 2
    for others in ({"service-proxy": "kube-proxy"}, dsr | {"cilium.load-balancer-mode": "snat"}):
        assert [said(world, **others)[check][0] for check in checks] == [FAIL] * 2


def test_a_client_that_is_masqueraded_says_nothing() -> None:
    assert set(wrong(World(masqueraded_client=True)).values()) == {Status.INCONCLUSIVE}


def test_a_client_whose_way_was_never_looked_at_says_nothing() -> None:
    seen = World().seen()
    seen.controls = {}
    said = {judge_with(check, seen, FEATURES, {}).status for check in CHECKS if check.subject.service is NODE_PORT}
    assert said == {Status.INCONCLUSIVE}


def test_losses_on_the_direct_way_excuse_as_many_losses_but_nothing_else() -> None:
    lossy = World(listener_loses=True, silent={At.ENDPOINT_NODE: 0.2}, unrewritten=True)
    assert wrong(lossy) == {"no-loss-at-endpoint-node": Status.INCONCLUSIVE, "bare-node.never-otherwise": FAIL}
    more = World(listener_loses=True, silent={At.ENDPOINT_NODE: 1.5})
    assert wrong(more)["no-loss-at-endpoint-node"] is FAIL


def test_a_change_that_is_followed_late_while_all_machines_are_slow_says_nothing() -> None:
    late = World(lag=9.0, every=12.0, listeners_late=1.0)
    assert wrong(late) == dict.fromkeys(("bare-node.prompt", "endpoint-node.prompt"), Status.INCONCLUSIVE)
    assert "5.00 s" in said(late)["bare-node.prompt"][1]


def test_health_ports_that_follow_late_are_found() -> None:
    assert wrong(World(DEFAULT, lag=9.0, every=12.0)) == dict.fromkeys(
        ("bare-node.prompt", "endpoint-node.prompt", "health-port.prompt"), FAIL
    )


def test_every_check_that_passes_says_what_it_can_see() -> None:
    for service in ChangingService:
        seen = World(service).seen()
        verdicts = [judge_with(check, seen, FEATURES, {}) for check in CHECKS if check.subject.service is service]
        assert [each.check_id for each in verdicts if each.status is Status.PASS and not each.sees] == []


def test_a_change_that_the_api_server_did_not_take_says_nothing_of_the_data_plane() -> None:
    assert set(wrong(World(refused_change=3)).values()) == {Status.INCONCLUSIVE}


def test_one_change_is_not_both_ways() -> None:
    assert set(wrong(World(changes_made=1)).values()) == {Status.INCONCLUSIVE}


def test_a_trial_that_broke_off_leaves_its_checks_undecided_and_one_of_ours_is_an_error() -> None:
    seen = World().seen()
    check = next(check for check in CHECKS if check.subject.service is NODE_PORT)
    seen.trouble["nodeport"] = "the API server went away"
    assert judge_with(check, seen, FEATURES, {}).status is Status.INCONCLUSIVE
    seen.broken["nodeport"] = "KeyError: x"
    assert judge_with(check, seen, FEATURES, {}).status is Status.ERROR


def test_probes_that_our_prober_could_not_make_are_our_fault() -> None:
    seen = World().seen()
    stream = seen.courses[NODE_PORT].data[At.BARE_NODE, Family.IPV4]
    stream.samples[5] = stream.samples[5]._replace(outcome="error")
    check = next(
        r
        for r in CHECKS
        if r.subject.at is At.BARE_NODE and r.subject.family is Family.IPV4 and r.subject.service is NODE_PORT
    )
    assert judge_with(check, seen, FEATURES, {}).status is Status.ERROR


def test_an_entry_that_cannot_be_dialled_is_reported() -> None:
    seen = World(DEFAULT).seen()
    course = seen.courses[DEFAULT]
    del course.data[At.VIP, Family.IPV4]
    course.obstacles[At.VIP, Family.IPV4] = "no VIP came"
    statuses = {
        r.id: judge_with(r, seen, FEATURES, {})
        for r in CHECKS
        if r.subject.service is DEFAULT and r.subject.family is Family.IPV4
    }
    undecided = {name for name, verdict in statuses.items() if verdict.status not in FINE}
    assert undecided == {name for name in statuses if ".vip." in name}
    assert {statuses[name].reason for name in undecided} == {"no VIP came"}


def test_what_is_missing_makes_a_check_unsupported() -> None:
    check = next(check for check in CHECKS if check.subject.service is ChangingService.ECMP)
    features = FEATURES | {"load-balancer.reference-ecmp": Feature(False, "there is none")}
    assert judge_with(check, World().seen(), features, {}).status is Status.UNSUPPORTED


def test_connections_that_could_never_be_made_say_nothing() -> None:
    seen = World().seen()
    for each in seen.courses[NODE_PORT].kept:
        for stream in each.streams:
            stream.samples[0] = stream.samples[0]._replace(outcome="timeout")
    statuses = {judge_with(check, seen, FEATURES, {}).status for check in CHECKS if check.subject.claim.value == "kept"}
    assert statuses == {Status.INCONCLUSIVE}


def test_times_are_recorded_and_never_fail() -> None:
    recorded = [check for check in CHECKS if check.level is Level.RECORD]
    assert {check.subject.claim.value for check in recorded} == {"time"}
    verdict = judge_with(replace(recorded[0]), World(lag=0.5).seen(), FEATURES, {})
    assert verdict.status is Status.RECORDED
    assert "to Cluster: p50 0.5" in verdict.observed
