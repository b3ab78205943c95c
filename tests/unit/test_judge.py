"""The judge against a made-up cluster: it must see what is there, and say whose fault it is."""

from dataclasses import replace

import pytest

from esipp.judge import judge, say_bound
from esipp.model import (
    NO_ANSWER,
    AddressClass,
    Cell,
    Claim,
    Family,
    Feature,
    Level,
    Override,
    Spread,
    Status,
)
from esipp.observation import Observation, Outcome, Witness
from esipp.topology import PAIR_BACKEND, POD_BACKEND
from tests.unit.world import (
    CELLS,
    CLIENT_ADDRESSES,
    FEATURES,
    GATEWAYS,
    NOBODY,
    NODES,
    SAMPLES,
    VIP,
    answer,
    by_id,
    changed_evidence,
    evidence,
    fits,
    group,
    header,
    show,
    verdict,
)

OUTSIDE_LOCAL = "nodeport.local.tcp.ipv4.outside-1-to-endpoint-node"
OUTSIDE_BARE = "nodeport.local.tcp.ipv4.outside-1-to-bare-node"
AFFINE = "nodeport.local.pair.affinity.tcp.ipv4.outside-1-to-endpoint-node"
PROXIED = "loadbalancer.reference-proxy-{}.local.several-ports.tcp.ipv4.outside-1-to-vip"
FORWARDED_FOR = PROXIED.format("xff") + ".port-http"
OWN = CLIENT_ADDRESSES["outside-1"][Family.IPV4]


def test_every_row_holds_in_a_healthy_world() -> None:
    assert [cell.id for cell in CELLS if judge(cell, evidence()).status is not Status.PASS] == []


@pytest.mark.parametrize("shown", AddressClass)
def test_every_row_accepts_its_classes_and_no_other(shown: AddressClass) -> None:
    wrong = []
    for cell in CELLS:
        said = verdict(cell, *(show(cell.path, shown, seq) for seq in range(SAMPLES)))
        holds = cell.level is Level.RECORD or fits(cell.path, shown) & cell.accept
        if said.status is not (Status.PASS if holds else Status.FAIL):
            wrong.append((cell.id, said.status.value, said.reason))
    assert wrong == []


def test_a_host_process_under_another_nodes_address_is_no_client() -> None:
    cell = by_id("nodeport.local.tcp.ipv4.host-on-other-node-to-endpoint-node")
    assert verdict(cell, answer(cell.path, GATEWAYS[NODES[0]][Family.IPV4])).status is Status.FAIL
    assert verdict(cell, answer(cell.path, GATEWAYS[NODES[2]][Family.IPV4])).status is Status.PASS


def test_two_outside_clients_are_not_mixed_up() -> None:
    cell = by_id(OUTSIDE_LOCAL)
    said = verdict(cell, answer(cell.path, CLIENT_ADDRESSES["outside-2"][Family.IPV4]))
    assert said.status is Status.FAIL
    assert "client outside-2" in said.observed


# --------------------------------------------------------------------------------------------------------- hairpin
def test_a_backend_that_sees_itself_was_not_rewritten() -> None:
    cell = by_id("clusterip.tcp.ipv4.backend-to-clusterip")
    assert verdict(cell, show(cell.path, AddressClass.HAIRPIN)).status is Status.PASS
    said = verdict(cell, show(cell.path, AddressClass.CLIENT))
    assert said.status is Status.FAIL
    assert said.shown == (AddressClass.CLIENT,)


def test_another_nodes_address_is_no_hairpin() -> None:
    cell = by_id("clusterip.tcp.ipv4.backend-to-clusterip")
    assert verdict(cell, answer(cell.path, GATEWAYS[NODES[1]][Family.IPV4])).status is Status.FAIL


# ----------------------------------------------------------------------------------------------------- mixed answers
def test_one_answer_of_many_that_differs_is_flaky() -> None:
    cell = by_id(OUTSIDE_LOCAL)
    said = verdict(
        cell,
        *(show(cell.path, AddressClass.CLIENT, seq) for seq in range(2)),
        group(show(cell.path, AddressClass.CLIENT), 197),
        group(show(cell.path, AddressClass.NODE), 1),
    )
    assert said.status is Status.FLAKY
    assert said.reason == "1 of 200 differ"
    assert sorted(said.tally.values()) == [1, 199]
    assert said.shown == (AddressClass.CLIENT, AddressClass.NODE)


def test_one_lost_answer_of_many_is_flaky() -> None:
    cell = by_id(OUTSIDE_LOCAL)
    lost = Observation(cell.path.key, 0, Outcome.TIMEOUT)
    said = verdict(cell, group(show(cell.path, AddressClass.CLIENT), 199), lost)
    assert said.status is Status.FLAKY
    assert "1 of 200" in said.reason


def test_one_answer_amid_silence_is_flaky() -> None:
    cell = by_id(OUTSIDE_BARE)
    silent = replace(Observation(cell.path.key, 0, Outcome.TIMEOUT), count=199)
    said = verdict(cell, silent, group(show(cell.path, AddressClass.NODE), 1))
    assert said.status is Status.FLAKY
    assert said.reason == "1 of 200 differ"


# --------------------------------------------------------------------------------------------------------- controls
def test_a_masqueraded_outside_client_is_not_believed() -> None:
    listener = by_id(OUTSIDE_LOCAL).controls[0].path
    said = verdict(by_id(OUTSIDE_LOCAL), also=[answer(listener, "172.18.0.1")])
    assert said.status is Status.INCONCLUSIVE
    assert "172.18.0.1" in said.reason


def test_every_control_of_every_silent_row_is_needed() -> None:
    for cell in (cell for cell in CELLS if cell.is_negative):
        for control in cell.controls:
            silent = verdict(cell, also=[show(control.path, AddressClass.DROPPED)])
            assert silent.status is Status.INCONCLUSIVE, (cell.id, control.path.key)
            never = judge(cell, changed_evidence({control.path.key: []}))
            assert never.status is Status.INCONCLUSIVE, (cell.id, control.path.key)
            assert "was never probed" in never.reason


def test_one_silent_probe_of_a_control_is_enough_to_doubt() -> None:
    cell = by_id(OUTSIDE_BARE)
    control = cell.controls[-1].path
    said = verdict(cell, also=[group(show(control, AddressClass.CLIENT), 199), show(control, AddressClass.DROPPED)])
    assert said.status is Status.INCONCLUSIVE
    assert "no answer x1" in said.reason


def test_a_listener_on_the_wrong_node_proves_nothing() -> None:
    listener = by_id(OUTSIDE_LOCAL).controls[0].path
    said = verdict(by_id(OUTSIDE_LOCAL), also=[answer(listener, OWN, node=NODES[2])])
    assert said.status is Status.INCONCLUSIVE


def test_a_record_row_never_fails() -> None:
    records = [cell for cell in CELLS if cell.level is Level.RECORD]
    assert records
    for cell in records:
        for outcome in (Outcome.INVALID, Outcome.RESET, Outcome.TIMEOUT, Outcome.MISDIRECTED):
            said = verdict(cell, Observation(cell.path.key, 0, outcome))
            assert (said.status, said.reason) == (Status.PASS, "recorded")
    said = verdict(records[0], show(records[0].path, AddressClass.NODE))
    assert "worker-b" in said.observed
    assert said.expected.startswith("nothing: what is seen is recorded")


# --------------------------------------------------------------------------------------------- silence and its kinds
def test_dropped_and_refused_both_count_as_no_answer_and_are_told_apart() -> None:
    cell = by_id(OUTSIDE_BARE)
    assert cell.accept == NO_ANSWER
    assert verdict(cell, show(cell.path, AddressClass.REFUSED)).observed == "refused x1"
    assert verdict(cell, show(cell.path, AddressClass.DROPPED)).observed == "no answer x1"


def test_a_connection_that_is_accepted_and_stays_silent_is_no_silence() -> None:
    cell = by_id(OUTSIDE_BARE)
    said = verdict(cell, Observation(cell.path.key, 0, Outcome.TIMEOUT, connected=1.0, detail="connected, no answer"))
    assert said.status is Status.FAIL
    assert "accepted" in said.reason


@pytest.mark.parametrize("outcome", [Outcome.RESET, Outcome.INVALID, Outcome.MISDIRECTED])
@pytest.mark.parametrize("identity", [OUTSIDE_LOCAL, OUTSIDE_BARE])
def test_a_broken_answer_fails_positive_and_negative_rows(identity: str, outcome: Outcome) -> None:
    cell = by_id(identity)
    assert verdict(cell, Observation(cell.path.key, 0, outcome, detail="x")).status is Status.FAIL


# ------------------------------------------------------------------------------------------- whose fault it is: ours
def test_a_path_that_was_probed_too_little_is_our_error() -> None:
    cell = by_id(OUTSIDE_LOCAL)
    said = verdict(cell, group(show(cell.path, AddressClass.CLIENT), 199), samples=200)
    assert said.status is Status.ERROR
    assert said.reason == "199 probes were made where 200 were asked"


@pytest.mark.parametrize(
    ("lie", "words"),
    [
        ({"peer_address_raw": "::ffff:198.51.100.1"}, "its socket saw"),
        ({"peer_address": "not an address"}, "no readable addresses"),
        ({"nonce": "of another probe"}, "of another probe"),
        ({"nonce": None}, "nonce None"),
        ({"local_address": "fd00::1"}, "another IP family"),
    ],
)
def test_an_echo_that_lies_is_our_error_not_the_products(lie: dict[str, str], words: str) -> None:
    cell = by_id(OUTSIDE_LOCAL)
    said = verdict(cell, answer(cell.path, OWN, **lie))
    assert said.status is Status.ERROR
    assert words in said.reason


def test_a_group_of_one_has_no_nonce_and_is_no_lie() -> None:
    cell = by_id(OUTSIDE_LOCAL)
    assert verdict(cell, group(show(cell.path, AddressClass.CLIENT), 1)).status is Status.PASS


def test_a_prober_in_trouble_is_our_error() -> None:
    cell = by_id(OUTSIDE_LOCAL)
    said = verdict(cell, Observation(cell.path.key, 0, Outcome.ERROR, detail="too many open files"))
    assert said.status is Status.ERROR
    assert "too many open files" in said.reason


def test_what_was_never_probed_is_our_error() -> None:
    assert judge(by_id(OUTSIDE_LOCAL), replace(evidence(), observations={}, _read={})).status is Status.ERROR


# --------------------------------------------------------------------------------------------------- who may answer
def test_an_answer_from_the_wrong_pod_fails() -> None:
    cell = by_id(OUTSIDE_LOCAL)
    said = verdict(cell, answer(cell.path, OWN, pod="somebody-else"))
    assert said.status is Status.FAIL
    assert "somebody-else" in said.reason


def test_a_second_backend_under_affinity_fails_and_names_both() -> None:
    cell = by_id(AFFINE)
    assert cell.spread is Spread.ONE
    said = verdict(cell, answer(cell.path, OWN, 0), answer(cell.path, OWN, 1, pod=PAIR_BACKEND))
    assert said.status is Status.FAIL
    assert f"answered by 2 backends ({POD_BACKEND}, {PAIR_BACKEND}), not by one" in said.reason


def test_affinity_is_not_believed_where_there_was_no_choice() -> None:
    cell = by_id(AFFINE)
    choice = next(control for control in cell.controls if control.spread is Spread.SEVERAL)
    said = verdict(cell, also=[answer(choice.path, OWN, seq, pod=POD_BACKEND) for seq in range(SAMPLES)])
    assert said.status is Status.INCONCLUSIVE
    assert f"only {POD_BACKEND} answered" in said.reason


# ---------------------------------------------------------------------------------------------- told out of band
def proxied(cell: Cell, **echo: object) -> Observation:
    return answer(cell.path, VIP[Family.IPV4], **echo)


@pytest.mark.parametrize("identity", [FORWARDED_FOR, PROXIED.format("v1"), PROXIED.format("v2")])
def test_the_client_told_in_a_header_is_preserved_out_of_band(identity: str) -> None:
    cell = by_id(identity)
    said = verdict(cell, proxied(cell))
    assert said.status is Status.PASS
    assert f"preserved out of band, in {cell.told.value}" in said.reason
    assert "in " + cell.told.value in said.expected


@pytest.mark.parametrize("identity", [FORWARDED_FOR, PROXIED.format("v1"), PROXIED.format("v2")])
@pytest.mark.parametrize("address", ["203.0.113.7", "unknown", ""])
def test_a_wrong_address_in_a_header_fails(identity: str, address: str) -> None:
    cell = by_id(identity)
    said = verdict(cell, proxied(cell, **header(cell.told, address)))
    assert said.status is Status.FAIL
    assert f"was told {address or 'no address'} in {cell.told.value}" in said.reason
    assert OWN in said.reason


def test_one_wrongly_told_of_many_is_flaky() -> None:
    cell = by_id(FORWARDED_FOR)
    wrong = proxied(cell, **header(cell.told, "203.0.113.7"))
    said = verdict(cell, group(proxied(cell), 199), group(wrong, 1))
    assert said.status is Status.FLAKY
    assert "1 of 200" in said.reason
    assert "203.0.113.7" in said.reason


@pytest.mark.parametrize("lines", [[], None])
def test_no_header_at_all_fails(lines: list[str] | None) -> None:
    cell = by_id(FORWARDED_FOR)
    said = verdict(cell, proxied(cell, x_forwarded_for=lines))
    assert said.status is Status.FAIL
    assert "no address" in said.reason


@pytest.mark.parametrize(
    ("lines", "status"),
    [
        ([f"203.0.113.7, {OWN}"], Status.PASS),
        (["203.0.113.7", OWN], Status.PASS),
        ([f"{OWN}, 203.0.113.7"], Status.FAIL),
        ([OWN, "203.0.113.7"], Status.FAIL),
    ],
)
def test_only_the_last_entry_is_the_proxys_own_word(lines: list[str], status: Status) -> None:
    cell = by_id(FORWARDED_FOR + ".claims-x-forwarded-for")
    assert verdict(cell, proxied(cell, x_forwarded_for=lines)).status is status


def test_another_version_of_the_proxy_protocol_tells_nothing() -> None:
    cell = by_id(PROXIED.format("v2"))
    said = verdict(cell, proxied(cell, **header(Claim.PROXY_V1, OWN)))
    assert said.status is Status.FAIL
    assert "no address" in said.reason


# ------------------------------------------------------------------------------------------------ the second witness
def test_witnesses_that_contradict_each_other_are_our_error_and_both_are_shown() -> None:
    cell = by_id(OUTSIDE_LOCAL)
    witness = Witness(cell.path.key, 0, True, contradiction=f"packets show 10.244.3.1, the echo server says {OWN}")
    said = verdict(cell, witnesses={cell.path.key: [witness]})
    assert said.status is Status.ERROR
    assert "packets show 10.244.3.1" in said.reason
    assert OWN in said.observed


def delivered(cell: Cell) -> dict[str, list[Witness]]:
    words = f"worker-b eth0: {OWN}:40000 > 10.244.2.5:8081"
    return {cell.path.key: [Witness(cell.path.key, 0, True, words, delivered=(OWN, 40000))]}


def test_a_silent_row_whose_packets_reach_a_backend_fails() -> None:
    cell = by_id(OUTSIDE_BARE)
    said = verdict(cell, witnesses=delivered(cell), blind="")
    assert said.status is Status.FAIL
    assert "packets went to a backend: worker-b eth0" in said.reason


def test_packets_that_reach_a_backend_may_be_a_known_difference() -> None:
    cell = by_id("nodeport.local.tcp.ipv4.pod-on-other-node-to-bare-node")
    assert any(override.forwarded for override in cell.overrides)
    facts = {"detect-local": "ClusterCIDR"}
    assert verdict(cell, witnesses=delivered(cell), facts=facts).status is Status.KNOWN
    assert verdict(cell, witnesses=delivered(cell), facts={"detect-local": "NodeCIDR"}).status is Status.FAIL
    assert verdict(cell, facts=facts).status is Status.PASS, "where nothing is forwarded nothing is excused"


def test_an_override_that_says_nothing_of_packets_excuses_none() -> None:
    cell = by_id(OUTSIDE_BARE)
    free = Override((("x", "y"),), NO_ANSWER, "a reason", "a reference")
    cell = replace(cell, overrides=(free,))
    assert verdict(cell, witnesses=delivered(cell), facts={"x": "y"}).status is Status.FAIL


def test_one_witness_is_said_when_blind() -> None:
    cell = by_id(OUTSIDE_LOCAL)
    assert verdict(cell, blind="--without packets").witnesses == "echo server only: --without packets"
    seen = {cell.path.key: [Witness(cell.path.key, seq, True) for seq in range(2)]}
    assert verdict(cell, witnesses=seen, blind="").witnesses == "echo server and packets (2 connections)"
    missed = {cell.path.key: [Witness(cell.path.key, 0, False)]}
    assert "do not show the way to a backend" in verdict(cell, witnesses=missed, blind="").witnesses


def test_where_packets_changed_is_in_the_verdict_once() -> None:
    cell = by_id(OUTSIDE_LOCAL)
    change = "node worker-a, between eth0 and veth1: 172.18.0.101 became 10.244.3.1"
    seen = {cell.path.key: [Witness(cell.path.key, seq, True, change=change) for seq in range(2)]}
    assert verdict(cell, show(cell.path, AddressClass.NODE), witnesses=seen).change == change


# ------------------------------------------------------------------------------------------------------------ ports
def test_ports_are_recorded_kept_or_rewritten_and_never_judged() -> None:
    cell = by_id(OUTSIDE_LOCAL)
    kept = group(show(cell.path, AddressClass.CLIENT), 200)
    assert verdict(cell, kept).ports == "kept 200 of 200"
    moved = replace(kept, ports=tuple((own, own + 1) for own, _ in kept.ports))
    said = verdict(cell, moved)
    assert (said.status, said.ports) == (Status.PASS, "rewritten 200 of 200")
    some = replace(kept, ports=(*kept.ports[:150], *moved.ports[150:]))
    assert verdict(cell, some).ports == "kept 150 of 200"
    assert verdict(by_id(OUTSIDE_BARE)).ports == ""


# ------------------------------------------------------------------------------- what cannot be asked, or is known
def test_zero_compressed_and_mapped_addresses_are_the_same_address() -> None:
    cell = by_id(OUTSIDE_LOCAL.replace("ipv4", "ipv6"))
    assert verdict(cell, answer(cell.path, "fc00:f853:0000:0000:0000:0000:0000:0101")).status is Status.PASS


def test_a_missing_feature_is_unsupported_by_name() -> None:
    said = verdict(by_id(OUTSIDE_LOCAL), features={**FEATURES, "family.ipv4": Feature(False, "single-stack IPv6")})
    assert said.status is Status.UNSUPPORTED
    assert "single-stack IPv6" in said.reason
    assert not said.left_out


def test_a_feature_that_we_lack_makes_a_row_left_out() -> None:
    ours = {**FEATURES, "vantage.outside": Feature(False, "no client outside", ours=True)}
    said = verdict(by_id(OUTSIDE_LOCAL), features=ours)
    assert said.status is Status.UNSUPPORTED
    assert said.left_out


def test_a_feature_nobody_looked_for_is_missing() -> None:
    assert verdict(by_id(OUTSIDE_LOCAL), features={}).status is Status.UNSUPPORTED


def test_an_obstacle_makes_a_row_and_those_it_controls_inconclusive() -> None:
    cell = by_id("loadbalancer.local.source-ranges.tcp.ipv4.outside-1-to-vip")
    said = verdict(cell, obstacles={cell.path.key: "no VIP within 45 s"})
    assert (said.status, said.reason) == (Status.INCONCLUSIVE, "no VIP within 45 s")
    leaning = [each for each in CELLS if cell.path in {control.path for control in each.controls}]
    assert leaning
    for each in leaning:
        assert verdict(each, obstacles={cell.path.key: "no VIP"}).status is Status.INCONCLUSIVE


def test_an_override_makes_a_difference_known_only_where_its_fact_holds() -> None:
    cell = by_id("nodeport.local.tcp.ipv4.pod-on-other-node-to-endpoint-node")
    listener = cell.controls[-1].path
    instead, also = show(cell.path, AddressClass.NODE), [show(listener, AddressClass.NODE)]
    assert verdict(cell, instead, also=also).status is Status.FAIL
    said = verdict(cell, instead, also=also, facts={"pod-to-node.ipv4": "masqueraded"})
    assert said.status is Status.KNOWN
    assert said.reason
    assert said.reference


@pytest.mark.parametrize(
    ("version", "status"),
    [
        ("v1.33.9", Status.KNOWN),
        ("v1.9.0", Status.KNOWN),
        ("v1.34.0", Status.FAIL),
        ("v1.36.3", Status.FAIL),
        ("v2.0.0", Status.FAIL),
        ("v1.33.1-gke.100+x", Status.KNOWN),
        ("", Status.FAIL),
        ("unknown", Status.FAIL),
    ],
)
def test_an_override_ends_with_the_version_that_mended_it(version: str, status: Status) -> None:
    cell = by_id("loadbalancer.local.tcp.ipv4.pod-on-other-node-to-vip")
    facts = {"proxy-mode": "nftables", "kubernetes": version}
    assert verdict(cell, show(cell.path, AddressClass.DROPPED), facts=facts).status is status


def test_a_known_difference_is_no_licence_for_anything_else() -> None:
    cell = by_id("loadbalancer.local.tcp.ipv4.pod-on-other-node-to-vip")
    facts = {"proxy-mode": "nftables", "kubernetes": "v1.33.0"}
    assert verdict(cell, show(cell.path, AddressClass.OTHER), facts=facts).status is Status.FAIL


# ------------------------------------------------------------------------------------------------------- how sure it is
@pytest.mark.parametrize(("count", "share"), [(1, "95.0%"), (20, "13.9%"), (200, "1.5%"), (10_000, "0.0%")])
def test_the_bound_of_a_pass(count: int, share: str) -> None:
    said = say_bound(count)
    assert said == f"0 of {count} differ: at most {share} of all connections do, at 95 % confidence"


def test_a_pass_says_how_much_it_proves() -> None:
    cell = by_id(OUTSIDE_LOCAL)
    said = verdict(
        cell,
        *(show(cell.path, AddressClass.CLIENT, s) for s in range(2)),
        group(show(cell.path, AddressClass.CLIENT), 198),
    )
    assert said.reason == say_bound(200)


def test_nobodys_address_is_told_as_such() -> None:
    cell = by_id(OUTSIDE_LOCAL)
    said = verdict(cell, answer(cell.path, NOBODY[Family.IPV4]))
    assert "nobody we know" in said.observed


def test_evidence_is_read_once() -> None:
    made = changed_evidence({})
    path = by_id(OUTSIDE_LOCAL).path
    assert made.readings(path) is made.readings(path)
