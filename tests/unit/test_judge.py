"""The judge against a made-up cluster: it must see what is there, and say whose fault it is."""

from dataclasses import replace

import pytest

from esipp.checks.check import Level, Status
from esipp.checks.model import NO_ANSWER, PAIR_BACKEND, POD_BACKEND, AddressClass, EntryKind, Family, Outcome, Path
from esipp.checks.path import Spread
from esipp.judging.answers import say_bound
from esipp.judging.frame import OVERLOADED, run_queue
from esipp.judging.observation import Observation
from tests.unit.verdicts import judge
from tests.unit.world import (
    CHECKS,
    CLIENT_ADDRESSES,
    FINE,
    GATEWAYS,
    NOBODY,
    NODE_ADDRESSES,
    NODES,
    SAMPLES,
    answer,
    by_id,
    changed_evidence,
    evidence,
    fits,
    group,
    show,
    verdict,
)

OUTSIDE_LOCAL = "nodeport.local.tcp.ipv4.outside-1-to-endpoint-node"
OUTSIDE_BARE = "nodeport.local.tcp.ipv4.outside-1-to-bare-node"
AFFINE = "nodeport.local.pair.affinity.tcp.ipv4.outside-1-to-endpoint-node"
PROXIED = "loadbalancer.reference-proxy-{}.local.several-ports.tcp.ipv4.outside-1-to-vip"
FORWARDED_FOR = PROXIED.format("xff") + ".port-http"
OWN = CLIENT_ADDRESSES["outside-1"][Family.IPV4]


def test_every_check_holds_in_a_healthy_world() -> None:
    assert [path_check.id for path_check in CHECKS if judge(path_check, evidence()).status not in FINE] == []


@pytest.mark.parametrize("shown", AddressClass)
def test_every_check_accepts_its_classes_and_no_other(shown: AddressClass) -> None:
    wrong = []
    for path_check in CHECKS:
        said = verdict(path_check, *(show(path_check.subject.path, shown, seq) for seq in range(SAMPLES)))
        holds = fits(path_check.subject.path, shown) & path_check.subject.accept
        excused = any(
            not each.when and fits(path_check.subject.path, shown) & each.connections.accept
            for each in path_check.differences
        )
        required = Status.PASS if holds else Status.KNOWN if excused else Status.FAIL
        if said.status is not (Status.RECORDED if path_check.level is Level.RECORD else required):
            wrong.append((path_check.id, said.status.value, said.reason))
    assert wrong == []


def test_a_host_process_under_another_nodes_address_is_no_client() -> None:
    path_check = by_id("nodeport.local.tcp.ipv4.host-on-other-node-to-endpoint-node")
    assert verdict(path_check, answer(path_check.subject.path, GATEWAYS[NODES[0]][Family.IPV4])).status is Status.FAIL
    assert verdict(path_check, answer(path_check.subject.path, GATEWAYS[NODES[2]][Family.IPV4])).status is Status.PASS


# --------------------------------------------------------------------------------------------------- host processes
HOST_TO_NODE_PORT = "nodeport.cluster.tcp.ipv4.host-on-other-node-to-endpoint-node"
HOST_STRAIGHT = ("pod-ip.tcp.ipv4.host-on-other-node-to-pod-ip", "clusterip.tcp.ipv4.host-on-other-node-to-clusterip")


@pytest.mark.parametrize("own", [NODE_ADDRESSES[NODES[2]][Family.IPV4], GATEWAYS[NODES[2]][Family.IPV4]])
def test_a_host_process_whose_source_was_not_rewritten_is_noticed(own: str) -> None:
    path_check = by_id(HOST_TO_NODE_PORT)
    said = verdict(path_check, answer(path_check.subject.path, own))
    assert (said.status, said.shown) == (Status.FAIL, (AddressClass.CLIENT,))
    assert verdict(by_id(HOST_TO_NODE_PORT + ".answers"), answer(path_check.subject.path, own)).status is Status.PASS
    for node in NODES[:2]:
        assert verdict(path_check, answer(path_check.subject.path, GATEWAYS[node][Family.IPV4])).status is Status.PASS


@pytest.mark.parametrize("identity", HOST_STRAIGHT)
def test_a_host_process_whose_source_was_rewritten_on_the_way_is_noticed(identity: str) -> None:
    path_check = by_id(identity)
    for addresses in (NODE_ADDRESSES, GATEWAYS):
        said = verdict(path_check, answer(path_check.subject.path, addresses[NODES[0]][Family.IPV4]))
        assert (said.status, said.shown) == (Status.FAIL, (AddressClass.NODE,))
        assert (
            verdict(path_check, answer(path_check.subject.path, addresses[NODES[2]][Family.IPV4])).status is Status.PASS
        )


def test_a_host_process_that_its_own_node_masquerades_keeps_its_address() -> None:
    path_check = by_id("nodeport.cluster.tcp.ipv4.host-on-other-node-to-other-node")
    assert verdict(path_check, answer(path_check.subject.path, GATEWAYS[NODES[2]][Family.IPV4])).status is Status.PASS
    assert verdict(path_check, answer(path_check.subject.path, GATEWAYS[NODES[1]][Family.IPV4])).status is Status.FAIL


def test_what_is_expected_of_a_host_process_is_said_of_its_node() -> None:
    assert verdict(by_id(HOST_TO_NODE_PORT)).expected == "an address of another node"
    assert "with its node's address (10.244.4.1, 172.18.0.4)" in verdict(by_id(HOST_STRAIGHT[0])).expected


# ------------------------------------------------------------------------------------------------ outside clients
def test_two_outside_clients_are_not_mixed_up() -> None:
    path_check = by_id(OUTSIDE_LOCAL)
    said = verdict(path_check, answer(path_check.subject.path, CLIENT_ADDRESSES["outside-2"][Family.IPV4]))
    assert said.status is Status.FAIL
    assert "client outside-2" in said.observed


# --------------------------------------------------------------------------------------------------------- hairpin
def test_a_backend_that_sees_itself_was_not_rewritten() -> None:
    path_check = by_id("clusterip.tcp.ipv4.backend-to-clusterip")
    assert verdict(path_check, show(path_check.subject.path, AddressClass.HAIRPIN)).status is Status.PASS
    said = verdict(path_check, show(path_check.subject.path, AddressClass.CLIENT))
    assert said.status is Status.FAIL
    assert said.shown == (AddressClass.CLIENT,)


def test_another_nodes_address_is_no_hairpin() -> None:
    path_check = by_id("clusterip.tcp.ipv4.backend-to-clusterip")
    assert verdict(path_check, answer(path_check.subject.path, GATEWAYS[NODES[1]][Family.IPV4])).status is Status.FAIL


# ----------------------------------------------------------------------------------------------------- mixed answers
def test_one_answer_of_many_that_differs_is_flaky() -> None:
    path_check = by_id(OUTSIDE_LOCAL)
    said = verdict(
        path_check,
        *(show(path_check.subject.path, AddressClass.CLIENT, seq) for seq in range(2)),
        group(show(path_check.subject.path, AddressClass.CLIENT), 197),
        group(show(path_check.subject.path, AddressClass.NODE), 1),
    )
    assert said.status is Status.FLAKY
    assert said.reason == "1 of 200 differ"
    assert sorted(said.tally.values()) == [1, 199]
    assert said.shown == (AddressClass.CLIENT, AddressClass.NODE)


def test_one_lost_answer_of_many_is_flaky() -> None:
    path_check = by_id(OUTSIDE_LOCAL)
    lost = Observation(path_check.subject.path.key, 0, Outcome.TIMEOUT)
    said = verdict(path_check, group(show(path_check.subject.path, AddressClass.CLIENT), 199), lost)
    assert said.status is Status.FLAKY
    assert "1 of 200" in said.reason


def test_one_answer_amid_silence_is_flaky() -> None:
    path_check = by_id(OUTSIDE_BARE)
    silent = replace(Observation(path_check.subject.path.key, 0, Outcome.TIMEOUT), count=199)
    said = verdict(path_check, silent, group(show(path_check.subject.path, AddressClass.NODE), 1))
    assert said.status is Status.FLAKY
    assert said.reason == "1 of 200 differ"


# --------------------------------------------------------------------------------------------------------- controls
def test_a_masqueraded_outside_client_is_not_believed() -> None:
    listener = by_id(OUTSIDE_LOCAL).subject.controls[0].path
    said = verdict(by_id(OUTSIDE_LOCAL), also=[answer(listener, "172.18.0.1")])
    assert said.status is Status.INCONCLUSIVE
    assert "172.18.0.1" in said.reason


def test_every_control_of_every_silent_check_is_needed() -> None:
    for path_check in (path_check for path_check in CHECKS if path_check.subject.is_negative):
        for control in path_check.subject.controls:
            silent = verdict(path_check, also=[show(control.path, AddressClass.DROPPED)])
            assert silent.status is Status.INCONCLUSIVE, (path_check.id, control.path.key)
            never = judge(path_check, changed_evidence({control.path.key: []}))
            assert never.status is Status.INCONCLUSIVE, (path_check.id, control.path.key)
            assert "was never probed" in never.reason


def lossy(path: Path, lost: int, what: AddressClass = AddressClass.DROPPED) -> list[Observation]:
    """200 connections, of which so many show something else than the client's own address."""
    return [group(show(path, AddressClass.CLIENT), 200 - lost), group(show(path, what), lost, 50000)]


@pytest.mark.parametrize("identity", [OUTSIDE_BARE, OUTSIDE_LOCAL])
def test_a_control_that_loses_a_few_connections_holds_and_the_verdict_says_so(identity: str) -> None:
    path_check = by_id(identity)
    for control in path_check.subject.controls:
        for lost, status in ((1, Status.PASS), (10, Status.PASS), (11, Status.INCONCLUSIVE)):
            said = verdict(path_check, also=lossy(control.path, lost))
            assert said.status is status
            if status is Status.PASS:
                assert f"{lost} of 200 lost (on {control.path.key}, a control)" in said.sees
            else:
                assert f"no answer x{lost}" in said.reason


@pytest.mark.parametrize("what", [AddressClass.NODE, AddressClass.OTHER])
def test_one_wrong_address_voids_a_control_that_proves_an_address(what: AddressClass) -> None:
    path_check = by_id(OUTSIDE_LOCAL)
    listener = next(control.path for control in path_check.subject.controls if control.accept)
    said = verdict(path_check, also=lossy(listener, 1, what))
    assert said.status is Status.INCONCLUSIVE


@pytest.mark.parametrize("outcome", [Outcome.INVALID, Outcome.MISDIRECTED])
def test_one_stranger_that_answers_voids_a_control(outcome: Outcome) -> None:
    path_check = by_id(OUTSIDE_BARE)
    for control in path_check.subject.controls:
        other = Observation(control.path.key, 199, outcome)
        said = verdict(path_check, also=[group(show(control.path, AddressClass.CLIENT), 199), other])
        assert said.status is Status.INCONCLUSIVE


def test_a_reset_connection_of_a_control_is_a_lost_one() -> None:
    path_check = by_id(OUTSIDE_BARE)
    control = path_check.subject.controls[-1].path
    reset = Observation(control.key, 199, Outcome.RESET)
    said = verdict(path_check, also=[group(show(control, AddressClass.CLIENT), 199), reset])
    assert said.status is Status.PASS


@pytest.mark.parametrize(
    ("own", "without", "status"),
    [
        (1, 0, Status.FLAKY),
        (1, 1, Status.INCONCLUSIVE),
        (4, 1, Status.INCONCLUSIVE),
        (9, 1, Status.FLAKY),
        (20, 10, Status.FLAKY),
        (200, 10, Status.FAIL),
    ],
)
def test_losses_count_against_the_product_where_they_are_more_than_without_a_service(
    own: int, without: int, status: Status
) -> None:
    path_check = by_id(OUTSIDE_LOCAL)
    (listener,) = [control.path for control in path_check.subject.controls]
    assert listener.service is None
    lost = [each for each in lossy(path_check.subject.path, own) if each.count]
    kept = [each for each in lossy(listener, without) if each.count]
    said = verdict(path_check, *lost, also=kept)
    assert said.status is status
    if status is Status.INCONCLUSIVE:
        assert f"{own} of 200 connections were lost, and {without} of 200 without a Service" in said.reason


def test_a_wrong_address_beside_a_loss_is_the_products_whatever_a_control_lost() -> None:
    path_check = by_id(OUTSIDE_LOCAL)
    (listener,) = [control.path for control in path_check.subject.controls]
    seen = [*lossy(path_check.subject.path, 1)[1:], group(show(path_check.subject.path, AddressClass.NODE), 1, 60000)]
    seen.append(group(show(path_check.subject.path, AddressClass.CLIENT), 198))
    assert verdict(path_check, *seen, also=lossy(listener, 1)).status is Status.FLAKY


def test_a_loss_of_a_sibling_does_not_excuse_a_checks_own() -> None:
    path_check = next(c for c in CHECKS if any(control.spread is Spread.SEVERAL for control in c.subject.controls))
    (sibling,) = [control.path for control in path_check.subject.controls if control.spread is Spread.SEVERAL]
    assert sibling.service is not None
    seen = [group(answer(sibling, CLIENT_ADDRESSES[sibling.client.name][sibling.family], seq), 99) for seq in (0, 1)]
    lost = group(show(sibling, AddressClass.DROPPED), 2, 50000)
    controls = tuple(replace(each, unjudged=False) for each in path_check.subject.controls)
    judged = replace(path_check, subject=replace(path_check.subject, controls=controls))
    assert verdict(judged, *lossy(path_check.subject.path, 1), also=[*seen, lost]).status is Status.FLAKY
    assert verdict(judged, also=[*seen, lost]).status is Status.PASS
    said = verdict(path_check, also=[*seen, lost])
    assert said.status is Status.INCONCLUSIVE
    assert said.reason.endswith("no check judges what that Service loses")


def test_what_a_controls_service_loses_is_judged_in_a_check_of_its_own_or_decides_nothing() -> None:
    own = {path_check.subject.path for path_check in CHECKS if path_check.level is not Level.RECORD}
    controls = {control for path_check in CHECKS for control in path_check.subject.controls}
    assert {each.path.key for each in controls if each.unjudged} == {
        each.path.key for each in controls if each.path.service and each.path not in own
    }
    without = [each.path for each in controls if each.path not in own and not each.path.service]
    assert {path.entry.kind for path in without} == {EntryKind.NODE_LISTENER, EntryKind.POD_IP}
    known = {
        "nodeport.local.pair", "nodeport.cluster.pair", "loadbalancer.local.pair", "nodeport.local", "nodeport.cluster",
        "loadbalancer.local", "external-ips.local",
    }  # fmt: skip
    unjudged = [each.path for each in controls if each.unjudged]
    names = {path.key.partition(f".{path.protocol.value.lower()}.")[0] for path in unjudged}
    assert names == known, "a control of another Service has no check that judges what it loses"


def test_a_listener_on_the_wrong_node_proves_nothing() -> None:
    listener = by_id(OUTSIDE_LOCAL).subject.controls[0].path
    said = verdict(by_id(OUTSIDE_LOCAL), also=[answer(listener, OWN, node=NODES[2])])
    assert said.status is Status.INCONCLUSIVE


def test_a_record_check_never_fails() -> None:
    records = [path_check for path_check in CHECKS if path_check.level is Level.RECORD]
    assert records
    for path_check in records:
        for outcome in (Outcome.INVALID, Outcome.RESET, Outcome.TIMEOUT, Outcome.MISDIRECTED):
            said = verdict(path_check, Observation(path_check.subject.path.key, 0, outcome))
            assert (said.status, said.reason) == (Status.RECORDED, "")
    said = verdict(records[0], show(records[0].subject.path, AddressClass.NODE))
    assert "worker-b" in said.observed
    assert said.expected.startswith("nothing required: the result is recorded")


# --------------------------------------------------------------------------------------------- silence and its kinds
def test_dropped_and_refused_both_count_as_no_answer_and_are_distinguished() -> None:
    path_check = by_id(OUTSIDE_BARE)
    assert path_check.subject.accept == NO_ANSWER
    assert verdict(path_check, show(path_check.subject.path, AddressClass.REFUSED)).observed == f"refused x{SAMPLES}"
    assert verdict(path_check, show(path_check.subject.path, AddressClass.DROPPED)).observed == f"no answer x{SAMPLES}"


def test_a_connection_that_is_accepted_and_stays_silent_is_no_silence() -> None:
    path_check = by_id(OUTSIDE_BARE)
    said = verdict(
        path_check,
        Observation(path_check.subject.path.key, 0, Outcome.TIMEOUT, connected=1.0, detail="connected, no answer"),
    )
    assert said.status is Status.FAIL
    assert "accepted" in said.reason


@pytest.mark.parametrize(
    ("outcome", "count", "status"),
    [(Outcome.TIMEOUT, 1, Status.INCONCLUSIVE), (Outcome.TIMEOUT, 3, Status.FLAKY), (Outcome.RESET, 1, Status.FLAKY)],
    ids=["one", "three", "one reset"],
)
def test_a_single_connection_of_many_without_an_answer_proves_nothing_on_an_overloaded_machine(
    outcome: Outcome, count: int, status: Status
) -> None:
    path_check = by_id(OUTSIDE_LOCAL)
    path = path_check.subject.path
    lost = [Observation(path.key, seq, outcome, detail="x") for seq in range(count)]
    seen = [*lost, *(show(path, AddressClass.CLIENT, seq) for seq in range(count, 40))]
    assert verdict(path_check, *seen).status is Status.FLAKY
    overloaded = {**evidence().facts, run_queue("paths"): f"{OVERLOADED}"}
    assert verdict(path_check, *seen, facts=overloaded).status is status


@pytest.mark.parametrize(
    ("lost", "status"), [(0, Status.KNOWN), (1, Status.INCONCLUSIVE), (3, Status.FAIL)], ids=["none", "one", "three"]
)
def test_so_it_is_next_to_connections_that_show_a_known_difference(lost: int, status: Status) -> None:
    path_check = by_id("external-ips.cluster.tcp.ipv4.host-on-other-node-to-external-ip-of-bare-node")
    path = path_check.subject.path
    facts = {**evidence().facts, "service-proxy": "cilium", "cilium.load-balancer-mode": "snat"}
    seen = [show(path, AddressClass.NODE, seq) for seq in range(lost, 40)]
    seen += [Observation(path.key, seq, Outcome.TIMEOUT) for seq in range(lost)]
    assert verdict(path_check, *seen, facts=facts).status is (Status.FAIL if lost else Status.KNOWN)
    assert verdict(path_check, *seen, facts=facts | {run_queue("paths"): f"{OVERLOADED}"}).status is status


@pytest.mark.parametrize("outcome", [Outcome.RESET, Outcome.INVALID, Outcome.MISDIRECTED])
@pytest.mark.parametrize("identity", [OUTSIDE_LOCAL, OUTSIDE_BARE])
def test_a_broken_answer_fails_positive_and_negative_checks(identity: str, outcome: Outcome) -> None:
    path_check = by_id(identity)
    assert verdict(path_check, Observation(path_check.subject.path.key, 0, outcome, detail="x")).status is Status.FAIL


# --------------------------------------------------------------------------------------------------- who may answer
def test_an_answer_from_the_wrong_pod_fails() -> None:
    path_check = by_id(OUTSIDE_LOCAL)
    said = verdict(path_check, answer(path_check.subject.path, OWN, pod="somebody-else"))
    assert said.status is Status.FAIL
    assert "somebody-else" in said.reason


def test_a_second_backend_under_affinity_fails_and_names_both() -> None:
    path_check = by_id(AFFINE)
    assert path_check.subject.spread is Spread.ONE
    said = verdict(
        path_check, answer(path_check.subject.path, OWN, 0), answer(path_check.subject.path, OWN, 1, pod=PAIR_BACKEND)
    )
    assert said.status is Status.FAIL
    assert f"answered by 2 backends ({POD_BACKEND}, {PAIR_BACKEND}) instead of one" in said.reason


def test_affinity_is_not_believed_where_there_was_no_choice() -> None:
    path_check = by_id(AFFINE)
    choice = next(control for control in path_check.subject.controls if control.spread is Spread.SEVERAL)
    said = verdict(path_check, also=[answer(choice.path, OWN, seq, pod=POD_BACKEND) for seq in range(SAMPLES)])
    assert said.status is Status.INCONCLUSIVE
    assert f"only {POD_BACKEND} answered" in said.reason


# ------------------------------------------------------------------------------------------------------------ ports
def test_ports_are_recorded_kept_or_rewritten_and_never_judged() -> None:
    path_check = by_id(OUTSIDE_LOCAL)
    kept = group(show(path_check.subject.path, AddressClass.CLIENT), 200)
    assert verdict(path_check, kept).ports == "kept 200 of 200"
    moved = replace(kept, ports=tuple((own, own + 1) for own, _ in kept.ports))
    said = verdict(path_check, moved)
    assert (said.status, said.ports) == (Status.PASS, "rewritten 200 of 200")
    some = replace(kept, ports=(*kept.ports[:150], *moved.ports[150:]))
    assert verdict(path_check, some).ports == "kept 150 of 200"
    assert verdict(by_id(OUTSIDE_BARE)).ports == ""


# ------------------------------------------------------------------------------------------------------- how sure it is
@pytest.mark.parametrize(
    ("count", "share", "missed"),
    [
        (1, "95 %", "99 %"),
        (20, "14 %", "82 %"),
        (200, "1.5 %", "13 %"),
        (1000, "0.3 %", "less than 0.1 %"),
        (10_000, "less than 0.1 %", "less than 0.1 %"),
    ],
)
def test_the_bound_of_a_pass(count: int, share: str, missed: str) -> None:
    assert say_bound(count) == (
        f"0 of {count} differ: with 95 % confidence, at most {share} of such connections do; "
        f"a defect of 1 % of them goes unnoticed with a probability of {missed}"
    )


def test_a_pass_says_how_much_it_proves() -> None:
    path_check = by_id(OUTSIDE_LOCAL)
    said = verdict(
        path_check,
        *(show(path_check.subject.path, AddressClass.CLIENT, s) for s in range(2)),
        group(show(path_check.subject.path, AddressClass.CLIENT), 198),
    )
    assert (said.reason, said.sees) == ("", say_bound(200))


def test_nobodys_address_is_reported_as_such() -> None:
    path_check = by_id(OUTSIDE_LOCAL)
    said = verdict(path_check, answer(path_check.subject.path, NOBODY[Family.IPV4]))
    assert "unknown address" in said.observed


def test_evidence_is_read_once() -> None:
    made = changed_evidence({})
    path = by_id(OUTSIDE_LOCAL).subject.path
    assert made.readings(path) is made.readings(path)


def test_zero_compressed_and_mapped_addresses_are_the_same_address() -> None:
    path_check = by_id(OUTSIDE_LOCAL.replace("ipv4", "ipv6"))
    assert (
        verdict(path_check, answer(path_check.subject.path, "fc00:f853:0000:0000:0000:0000:0000:0101")).status
        is Status.PASS
    )
