"""The judge against a made-up cluster: it must see what is there, and say whose fault it is."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from esipp.judge import Evidence, judge
from esipp.model import (
    NO_ANSWER,
    AddressClass,
    Cell,
    Family,
    Feature,
    Level,
    Observation,
    Outcome,
    Status,
    Vantage,
    Verdict,
)
from suites.source_ip.cells import CELLS
from tests.unit.world import (
    CLIENT_ADDRESSES,
    FEATURES,
    GATEWAYS,
    NODES,
    answer,
    by_id,
    changed,
    healthy,
    show,
    topology,
)

OUTSIDE_LOCAL = "nodeport.local.tcp.ipv4.outside-1-to-endpoint-node"
OUTSIDE_BARE = "nodeport.local.tcp.ipv4.outside-1-to-bare-node"


def verdict(
    cell: Cell,
    seen: Mapping[str, Sequence[Observation]],
    features: Mapping[str, Feature] = FEATURES,
    facts: Mapping[str, str] | None = None,
    obstacles: Mapping[str, str] | None = None,
) -> Verdict:
    samples = len(seen.get(cell.path.key, ()))
    return judge(cell, Evidence(seen, topology(), features, samples, facts or {}, obstacles or {}))


def test_every_row_holds_in_a_healthy_world() -> None:
    assert {cell.id: verdict(cell, healthy()).status for cell in CELLS} == {cell.id: Status.PASS for cell in CELLS}


@pytest.mark.parametrize("cell", CELLS, ids=lambda cell: cell.id)
def test_a_row_accepts_its_classes_and_no_other(cell: Cell) -> None:
    for shown in (each for each in AddressClass if each is not AddressClass.HAIRPIN):
        observations = changed(healthy(), cell.path, *(show(cell.path, shown) for _ in range(3)))
        same = {shown}
        if cell.path.client.vantage is Vantage.NODE and shown in (AddressClass.CLIENT, AddressClass.NODE):
            own = shown is AddressClass.CLIENT or cell.path.client.vantage is Vantage.NODE
            same = {AddressClass.CLIENT, AddressClass.NODE} if own else {AddressClass.NODE}
        wanted = Status.PASS if same & cell.accept else Status.FAIL
        assert verdict(cell, observations).status is wanted, shown


def test_a_host_process_under_another_nodes_address_is_no_client() -> None:
    cell = by_id("nodeport.local.tcp.ipv4.node-to-endpoint-node")
    elsewhere = answer(cell.path, GATEWAYS[NODES[0]][Family.IPV4])
    assert verdict(cell, changed(healthy(), cell.path, elsewhere)).status is Status.FAIL
    masqueraded_at_home = answer(cell.path, GATEWAYS[NODES[2]][Family.IPV4])
    assert verdict(cell, changed(healthy(), cell.path, masqueraded_at_home)).status is Status.PASS


def test_two_outside_clients_are_not_mixed_up() -> None:
    cell = by_id(OUTSIDE_LOCAL)
    other = answer(cell.path, CLIENT_ADDRESSES["outside-2"][Family.IPV4])
    said = verdict(cell, changed(healthy(), cell.path, other))
    assert said.status is Status.FAIL
    assert "client outside-2" in said.observed


def test_one_answer_of_many_that_differs_is_flaky() -> None:
    cell = by_id(OUTSIDE_LOCAL)
    mixed = [show(cell.path, AddressClass.CLIENT)] * 49 + [show(cell.path, AddressClass.NODE)]
    said = verdict(cell, changed(healthy(), cell.path, *mixed))
    assert said.status is Status.FLAKY
    assert "1 of 50" in said.reason


def test_a_masqueraded_outside_client_is_not_believed() -> None:
    cell = by_id(OUTSIDE_LOCAL)
    listener = cell.controls[0].path
    seen = changed(healthy(), listener, answer(listener, "172.18.0.1"))
    for identity in (OUTSIDE_LOCAL, OUTSIDE_BARE.replace("bare", "endpoint")):
        said = verdict(by_id(identity), seen)
        assert said.status is Status.INCONCLUSIVE
        assert "172.18.0.1" in said.reason


def test_silence_counts_only_if_the_siblings_answer() -> None:
    cell = by_id(OUTSIDE_BARE)
    assert cell.accept == NO_ANSWER
    for control in cell.controls:
        silent = changed(healthy(), control.path, show(control.path, AddressClass.DROPPED))
        assert verdict(cell, silent).status is Status.INCONCLUSIVE, control.path.key
        unseen = {key: value for key, value in healthy().items() if key != control.path.key}
        assert verdict(cell, unseen).status is Status.INCONCLUSIVE, control.path.key


def test_dropped_and_refused_both_count_as_no_answer_and_are_told_apart() -> None:
    cell = by_id(OUTSIDE_BARE)
    assert verdict(cell, changed(healthy(), cell.path, show(cell.path, AddressClass.REFUSED))).observed == "refused x1"
    assert (
        verdict(cell, changed(healthy(), cell.path, show(cell.path, AddressClass.DROPPED))).observed == "no answer x1"
    )


def test_a_connection_that_is_accepted_and_stays_silent_is_no_silence() -> None:
    cell = by_id(OUTSIDE_BARE)
    held = Observation(cell.path.key, 0, Outcome.TIMEOUT, connected=1.0, detail="connected, no answer")
    said = verdict(cell, changed(healthy(), cell.path, held))
    assert said.status is Status.FAIL
    assert "accepted" in said.reason


def test_a_path_that_was_probed_too_little_is_our_error() -> None:
    cell = by_id(OUTSIDE_LOCAL)
    evidence = Evidence(healthy(samples=19), topology(), FEATURES, samples=20)
    assert judge(cell, evidence).status is Status.ERROR


@pytest.mark.parametrize(
    ("lie", "words"),
    [
        ({"peer_address_raw": "::ffff:198.51.100.1"}, "its socket saw"),
        ({"peer_address": "not an address"}, "no readable addresses"),
        ({"nonce": "of another probe"}, "of another probe"),
        ({"local_address": "fd00::1"}, "another IP family"),
    ],
)
def test_an_echo_that_lies_is_our_error_not_the_products(lie: dict[str, str], words: str) -> None:
    cell = by_id(OUTSIDE_LOCAL)
    own = CLIENT_ADDRESSES["outside-1"][Family.IPV4]
    said = verdict(cell, changed(healthy(), cell.path, answer(cell.path, own, **lie)))
    assert said.status is Status.ERROR
    assert words in said.reason


def test_an_answer_from_the_wrong_pod_fails() -> None:
    cell = by_id(OUTSIDE_LOCAL)
    own = CLIENT_ADDRESSES["outside-1"][Family.IPV4]
    said = verdict(cell, changed(healthy(), cell.path, answer(cell.path, own, pod="somebody-else")))
    assert said.status is Status.FAIL
    assert "somebody-else" in said.reason


def test_a_listener_on_the_wrong_node_proves_nothing() -> None:
    cell = by_id(OUTSIDE_LOCAL)
    listener = cell.controls[0].path
    own = CLIENT_ADDRESSES["outside-1"][Family.IPV4]
    said = verdict(cell, changed(healthy(), listener, answer(listener, own, node=NODES[2])))
    assert said.status is Status.INCONCLUSIVE


@pytest.mark.parametrize("outcome", [Outcome.RESET, Outcome.INVALID, Outcome.MISDIRECTED])
def test_a_broken_answer_fails_positive_and_negative_rows(outcome: Outcome) -> None:
    for identity in (OUTSIDE_LOCAL, OUTSIDE_BARE):
        cell = by_id(identity)
        seen = changed(healthy(), cell.path, Observation(cell.path.key, 0, outcome, detail="x"))
        assert verdict(cell, seen).status is Status.FAIL


def test_a_prober_in_trouble_is_our_error() -> None:
    cell = by_id(OUTSIDE_LOCAL)
    seen = changed(healthy(), cell.path, Observation(cell.path.key, 0, Outcome.ERROR, detail="too many open files"))
    said = verdict(cell, seen)
    assert said.status is Status.ERROR
    assert "too many open files" in said.reason


def test_zero_compressed_and_mapped_addresses_are_the_same_address() -> None:
    cell = by_id(OUTSIDE_LOCAL.replace("ipv4", "ipv6"))
    long = answer(cell.path, "fc00:f853:0000:0000:0000:0000:0000:0101")
    assert verdict(cell, changed(healthy(), cell.path, long)).status is Status.PASS


def test_what_was_never_probed_is_our_error() -> None:
    said = verdict(by_id(OUTSIDE_LOCAL), {})
    assert said.status is Status.ERROR


def test_a_missing_feature_is_unsupported_by_name() -> None:
    said = verdict(by_id(OUTSIDE_LOCAL), healthy(), {**FEATURES, "family.ipv4": Feature(False, "single-stack IPv6")})
    assert said.status is Status.UNSUPPORTED
    assert "single-stack IPv6" in said.reason
    assert not said.left_out


def test_a_feature_that_we_lack_makes_a_row_left_out() -> None:
    ours = {**FEATURES, "vantage.outside": Feature(False, "no client outside", ours=True)}
    said = verdict(by_id(OUTSIDE_LOCAL), healthy(), ours)
    assert said.status is Status.UNSUPPORTED
    assert said.left_out


def test_a_feature_nobody_looked_for_is_missing() -> None:
    assert verdict(by_id(OUTSIDE_LOCAL), healthy(), {}).status is Status.UNSUPPORTED


def test_an_obstacle_makes_a_row_and_those_it_controls_inconclusive() -> None:
    cell = by_id("loadbalancer.local.tcp.ipv4.outside-1-to-vip")
    said = verdict(cell, healthy(), obstacles={cell.path.key: "no VIP within 45 s"})
    assert said.status is Status.INCONCLUSIVE
    assert said.reason == "no VIP within 45 s"


def test_an_override_makes_a_difference_known_only_where_its_fact_holds() -> None:
    cell = by_id("nodeport.local.tcp.ipv4.pod-on-other-node-to-endpoint-node")
    listener = cell.controls[-1].path
    seen = changed(healthy(), cell.path, show(cell.path, AddressClass.NODE))
    seen = changed(seen, listener, show(listener, AddressClass.NODE))
    assert verdict(cell, seen).status is Status.FAIL
    said = verdict(cell, seen, facts={"pod-to-node.ipv4": "masqueraded"})
    assert said.status is Status.KNOWN
    assert said.reason
    assert said.reference


def test_a_recorded_row_never_fails() -> None:
    cell = replace(by_id(OUTSIDE_LOCAL), level=Level.RECORD)
    said = verdict(cell, changed(healthy(), cell.path, show(cell.path, AddressClass.NODE)))
    assert said.status is Status.PASS
    assert "worker-b" in said.observed


def test_a_pass_says_how_much_it_proves() -> None:
    cell = by_id(OUTSIDE_LOCAL)
    said = verdict(cell, healthy(samples=200))
    assert "at most 1.5%" in said.reason
