"""The second witness: made-up packets, built with scapy, and captures that lose, lie, or see nothing."""

import os
import re
import socket
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from scapy.layers.inet import ICMP, IP, TCP, UDP
from scapy.layers.inet6 import ICMPv6DestUnreach, IPv6
from scapy.layers.l2 import CookedLinuxV2, Ether
from scapy.layers.sctp import SCTP, SCTPChunkAbort, SCTPChunkInit, SCTPChunkInitAck
from scapy.packet import Packet, Raw
from scapy.utils import PcapWriter

from esipp.checks.model import Outcome
from esipp.judging.observation import Observation
from esipp.packets import capture as module
from esipp.packets.capture import MOST_RANGES, Capture, Scope, Sighting, Tap, read_capture
from esipp.packets.trace import Agreement, Tracer, agree
from tests.tools import needs_tool

FAKE = Path(__file__).with_name("fake_tap.py")
NOW = 1_795_000_000.0
LO, ETH0, VETH = 1, 2, 7
NAMES = {LO: "lo", ETH0: "eth0", VETH: "veth1"}
TO_US, TO_OTHERS, FROM_US = 0, 3, 4

CLIENT, NODE_A, NODE_B, GATEWAY, POD, VIP = (
    "172.18.0.9", "172.18.0.2", "172.18.0.3", "10.244.1.1", "10.244.1.5", "172.18.255.1",
)  # fmt: skip
CLIENT6, NODE6, POD6 = "fc00:f853::9", "fc00:f853::2", "fd00:10:244:1::5"
NODE_PORT, TARGET, LISTENER = 30080, 8081, 40123
SCOPE = Scope(
    {(protocol, port) for protocol in ("TCP", "UDP", "SCTP") for port in (NODE_PORT, LISTENER)},
    {
        (protocol, address, port)
        for protocol in ("TCP", "UDP", "SCTP")
        for address, port in ((POD, TARGET), (POD6, TARGET), (VIP, 80))
    },
)
ENDPOINTS = {(POD, TARGET): "worker-a", (POD6, TARGET): "worker-a"}

Captured = tuple[int, int, float, Packet]


def pcap(*seen: Captured, nano: bool = False) -> bytes:
    """A capture file: interface, packet type, seconds after NOW, packet."""
    file = BytesIO()
    file.close = lambda: None
    writer = PcapWriter(file, linktype=276, nano=nano)
    writer.write_header(None)
    for interface, kind, after, packet in seen:
        proto = 0x86DD if IPv6 in packet else 0x0800
        cooked = CookedLinuxV2(proto=proto, ifindex=interface, pkttype=kind) / packet
        cooked.time = NOW + after
        writer.write_packet(cooked)
    writer.flush()
    return file.getvalue()


def capture(node: str, *seen: Captured, **more: Any) -> Capture:
    return read_capture(node, pcap(*seen), NAMES, SCOPE, **more)


def ip(source: str, destination: str) -> Packet:
    return IPv6(src=source, dst=destination) if ":" in source else IP(src=source, dst=destination)


def syn(source: str, port: int, destination: str, to: int, seq: int = 1000) -> Packet:
    options = [("MSS", 1460), ("Timestamp", (5, 0)), ("WScale", 7)]
    return ip(source, destination) / TCP(sport=port, dport=to, flags="S", seq=seq, options=options)


def syn_ack(source: str, port: int, destination: str, to: int, seq: int = 1000, flags: str = "SA") -> Packet:
    return ip(source, destination) / TCP(sport=port, dport=to, flags=flags, seq=1, ack=(seq + 1) % 2**32)


def observation(
    seen: tuple[str, int] | None,
    *,
    source: tuple[str, int] = (CLIENT, 5000),
    dialled: tuple[str, int] = (NODE_A, NODE_PORT),
    local: tuple[str, int] = (POD, TARGET),
    outcome: Outcome = Outcome.ANSWERED,
    **more: Any,
) -> Observation:
    echo = {"local_address": local[0], "local_port": local[1]} if outcome is Outcome.ANSWERED else None
    return Observation("row", 0, outcome, source, dialled, seen, echo, ended=0.01, time=NOW, **more)


PRESERVED = (
    (ETH0, TO_US, 0.001, syn(CLIENT, 5000, NODE_A, NODE_PORT)),
    (VETH, FROM_US, 0.0011, syn(CLIENT, 5000, POD, TARGET)),
    (VETH, TO_US, 0.0012, syn_ack(POD, TARGET, CLIENT, 5000)),
    (ETH0, FROM_US, 0.0013, syn_ack(NODE_A, NODE_PORT, CLIENT, 5000)),
)


def test_the_packet_view_of_a_source_that_is_kept() -> None:
    seen = observation((CLIENT, 5000))
    traced = Tracer([capture("worker-a", *PRESERVED)], ENDPOINTS).trace(seen)
    four = [traced.at_node, traced.at_pod, traced.back_at_pod, traced.back_at_node]
    assert [(each.source, each.destination, each.interface, each.direction) for each in four if each] == [
        ((CLIENT, 5000), (NODE_A, NODE_PORT), "eth0", "in"),
        ((CLIENT, 5000), (POD, TARGET), "veth1", "out"),
        ((POD, TARGET), (CLIENT, 5000), "veth1", "in"),
        ((NODE_A, NODE_PORT), (CLIENT, 5000), "eth0", "out"),
    ]
    assert (traced.delivered, traced.changes) == ((CLIENT, 5000), ())
    assert agree(seen, traced)[0] is Agreement.AGREED
    assert "at the pod:       172.18.0.9:5000 -> 10.244.1.5:8081 on worker-a out veth1" in traced.said()


def masqueraded(seq: int = 1000) -> list[Capture]:
    """The bare node B rewrites source address and port, and sends the packet to A's pod."""
    bare = (
        (ETH0, TO_US, 0.001, syn(CLIENT, 5000, NODE_B, NODE_PORT, seq)),
        (ETH0, FROM_US, 0.0011, syn(NODE_B, 61000, POD, TARGET, seq)),
        (ETH0, TO_US, 0.0014, syn_ack(POD, TARGET, NODE_B, 61000, seq)),
        (ETH0, FROM_US, 0.0015, syn_ack(NODE_B, NODE_PORT, CLIENT, 5000, seq)),
    )
    home = (
        (ETH0, TO_US, 0.0012, syn(NODE_B, 61000, POD, TARGET, seq)),
        (VETH, FROM_US, 0.0012, syn(NODE_B, 61000, POD, TARGET, seq)),
        (VETH, TO_US, 0.0013, syn_ack(POD, TARGET, NODE_B, 61000, seq)),
    )
    return [capture("worker-a", *home), capture("worker-b", *bare)]


def test_where_the_source_changed_is_named() -> None:
    seen = observation((NODE_B, 61000), dialled=(NODE_B, NODE_PORT))
    traced = Tracer(masqueraded(2**32 - 1), ENDPOINTS).trace(seen)
    assert [str(each) for each in traced.changes] == [
        "worker-b, between eth0 and eth0: 172.18.0.9:5000 became 172.18.0.3:61000"
    ]
    assert traced.at_pod is not None
    assert traced.at_pod.node == "worker-a"
    assert traced.delivered[1] != traced.requests[0].source[1]
    assert agree(seen, traced)[0] is Agreement.AGREED


def test_an_echo_server_that_lies_is_contradicted() -> None:
    lie = observation((CLIENT, 5000), dialled=(NODE_B, NODE_PORT))
    state, words = agree(lie, Tracer(masqueraded(), ENDPOINTS).trace(lie))
    assert state is Agreement.CONTRADICTION
    assert words == (
        "the backend reports the peer 172.18.0.9:5000, the packet to it came from 172.18.0.3:61000"
        " (captured on worker-a out veth1)"
    )


def test_a_packet_that_was_last_seen_before_the_backends_node_contradicts_nothing() -> None:
    """That node may rewrite the source, as a node does that masquerades one connection in five."""
    entry = [each for each in masqueraded() if each.node != "worker-a"]
    rewritten = observation((CLIENT, 5000), dialled=(NODE_B, NODE_PORT))
    traced = Tracer(entry, ENDPOINTS).trace(rewritten)
    assert traced.at_pod is not None
    state, words = agree(rewritten, traced)
    assert (state, "its way on the backend's own node was not captured" in words) == (Agreement.UNSEEN, True)


def test_a_backend_that_lies_about_itself_is_contradicted() -> None:
    lie = observation((CLIENT, 5000), local=("10.244.1.6", TARGET))
    state, words = agree(lie, Tracer([capture("worker-a", *PRESERVED)], ENDPOINTS).trace(lie))
    assert (state, "its address 10.244.1.6:8081" in words) == (Agreement.CONTRADICTION, True)


def test_packets_that_were_lost_contradict_nobody() -> None:
    home, bare = masqueraded()
    halved = capture("worker-b", *[(ETH0, TO_US, 0.001, syn(CLIENT, 5000, NODE_B, NODE_PORT))], dropped=3)
    seen = observation((NODE_B, 61000), dialled=(NODE_B, NODE_PORT))
    nothing = Tracer([halved], ENDPOINTS).trace(seen)
    assert agree(seen, nothing) == (Agreement.UNSEEN, "its way to the backend was not captured")
    assert "lost 3 packets" in nothing.said()
    lie = observation((CLIENT, 5000), dialled=(NODE_B, NODE_PORT))
    lossy = Capture(home.node, home.raw, home.sightings, dropped=3)
    state, words = agree(lie, Tracer([lossy, bare], ENDPOINTS).trace(lie))
    assert (state, "lost 3 packets" in words) == (Agreement.UNSEEN, True)


def test_a_connection_that_nobody_saw_rests_on_one_witness() -> None:
    seen = observation((CLIENT, 5001), source=(CLIENT, 5001))
    traced = Tracer([capture("worker-a", *PRESERVED)], ENDPOINTS).trace(seen)
    assert (traced.seen, agree(seen, traced)[0]) == (False, Agreement.UNSEEN)
    assert traced.said() == "none of its packets was captured"


def test_a_bare_node_that_forwards_without_an_answer_is_seen() -> None:
    bare = (
        (ETH0, TO_US, 0.001, syn(CLIENT, 5000, NODE_B, NODE_PORT)),
        (ETH0, FROM_US, 0.0011, syn(CLIENT, 5000, POD, TARGET)),
    )
    home = (
        (ETH0, TO_US, 0.0012, syn(CLIENT, 5000, POD, TARGET)),
        (VETH, FROM_US, 0.0013, syn(CLIENT, 5000, POD, TARGET)),
        (VETH, TO_US, 0.0014, syn_ack(POD, TARGET, CLIENT, 5000)),
        (ETH0, FROM_US, 0.0015, syn_ack(POD, TARGET, CLIENT, 5000)),
    )
    silent = observation(None, dialled=(NODE_B, NODE_PORT), outcome=Outcome.TIMEOUT)
    traced = Tracer([capture("worker-a", *home), capture("worker-b", *bare)], ENDPOINTS).trace(silent)
    assert traced.delivered == (CLIENT, 5000)
    assert traced.back_at_node is None
    assert "no reply from the dialled address was captured" in traced.said()
    assert agree(silent, traced) == (
        Agreement.AGREED,
        "timeout, but the request reached a backend from 172.18.0.9:5000",
    )


def test_a_bare_node_that_drops_is_seen_to_deliver_nothing() -> None:
    first = (ETH0, TO_US, 0.001, syn(CLIENT, 5000, NODE_B, NODE_PORT))
    again = (ETH0, TO_US, 1.001, syn(CLIENT, 5000, NODE_B, NODE_PORT))
    silent = observation(None, dialled=(NODE_B, NODE_PORT), outcome=Outcome.TIMEOUT)
    traced = Tracer([capture("worker-b", first, again)], ENDPOINTS).trace(silent)
    assert len(traced.requests) == 1  # a SYN that is repeated is the same request
    assert agree(silent, traced) == (Agreement.AGREED, "timeout, and no packet to a backend was captured")
    assert "no packet to a backend was captured; the last one on worker-b in eth0" in traced.said()


@pytest.mark.parametrize("delivered", [False, True], ids=["dropped there", "delivered there"])
def test_a_request_that_a_load_balancer_sends_back_to_its_own_node_is_seen(delivered: bool) -> None:
    sent = (ETH0, FROM_US, 0.001, syn(NODE_A, 5000, VIP, 80))
    returned = (ETH0, TO_US, 0.002, syn(NODE_A, 5000, NODE_A, NODE_PORT))
    reached = [(VETH, FROM_US, 0.003, syn(NODE_A, 5000, POD, TARGET))] * delivered
    silent = observation(None, source=(NODE_A, 5000), dialled=(VIP, 80), outcome=Outcome.TIMEOUT)
    traced = Tracer([capture("worker-a", sent, returned, *reached)], ENDPOINTS).trace(silent)
    assert traced.turned_back == "worker-a"


def test_a_request_that_another_node_gets_or_that_its_own_node_forwards_is_not_turned_back() -> None:
    sent = (ETH0, FROM_US, 0.001, syn(NODE_A, 5000, VIP, 80))
    silent = observation(None, source=(NODE_A, 5000), dialled=(VIP, 80), outcome=Outcome.TIMEOUT)
    other = capture("worker-b", (ETH0, TO_US, 0.002, syn(NODE_A, 5000, NODE_B, NODE_PORT)))
    assert not Tracer([capture("worker-a", sent), other], ENDPOINTS).trace(silent).turned_back
    forwarded = capture("worker-a", (VETH, TO_US, 0.001, syn(POD, 5000, VIP, 80)), PRESERVED[1])
    assert not Tracer([forwarded], ENDPOINTS).trace(replace(silent, source=(POD, 5000))).turned_back


@pytest.mark.parametrize(
    "refusal",
    [
        syn_ack(NODE_B, NODE_PORT, CLIENT, 5000, flags="RA"),
        ip(NODE_B, CLIENT) / ICMP(type=3, code=3) / syn(CLIENT, 5000, NODE_B, NODE_PORT),
        ip(NODE_B, CLIENT) / ICMP(type=3, code=3) / Raw(bytes(syn(CLIENT, 5000, NODE_B, NODE_PORT))[:28]),
    ],
    ids=["RST", "ICMP", "ICMP that quotes eight bytes"],
)
def test_a_refusal_is_joined_with_what_it_refuses(refusal: Packet) -> None:
    seen = capture(
        "worker-b",
        (ETH0, TO_US, 0.001, syn(CLIENT, 5000, NODE_B, NODE_PORT)),
        (ETH0, FROM_US, 0.002, refusal),
    )
    refused = observation(None, dialled=(NODE_B, NODE_PORT), outcome=Outcome.REFUSED)
    traced = Tracer([seen], ENDPOINTS).trace(refused)
    assert [each.kind for each in traced.errors] == ["error"]
    assert "refused:          172.18.0.3" in traced.said()


def test_a_source_rewritten_before_the_first_node_is_found_by_the_backends_word() -> None:
    behind = "203.0.113.7"
    seen = capture(
        "worker-a",
        (ETH0, TO_US, 0.001, syn(behind, 7000, NODE_A, NODE_PORT)),
        (VETH, FROM_US, 0.002, syn(behind, 7000, POD, TARGET)),
    )
    observed = observation((behind, 7000))
    traced = Tracer([seen], ENDPOINTS).trace(observed)
    assert [str(each) for each in traced.changes] == [
        "before worker-a, between the client and eth0: 172.18.0.9:5000 became 203.0.113.7:7000"
    ]
    assert (traced.relayed, agree(observed, traced)[0]) == (False, Agreement.AGREED)


def test_a_proxy_makes_two_connections_of_one() -> None:
    seen = capture(
        "worker-a",
        (ETH0, TO_US, 0.001, syn(CLIENT, 5000, VIP, 80, seq=1)),
        (ETH0, FROM_US, 0.002, syn_ack(VIP, 80, CLIENT, 5000, seq=1)),
        (VETH, FROM_US, 0.003, syn(NODE_A, 33000, POD, TARGET, seq=2)),
        (VETH, TO_US, 0.004, syn_ack(POD, TARGET, NODE_A, 33000, seq=2)),
    )
    observed = observation((NODE_A, 33000), dialled=(VIP, 80))
    traced = Tracer([seen], ENDPOINTS).trace(observed)
    assert (traced.relayed, traced.delivered) == (True, (NODE_A, 33000))
    assert "a proxy is in between" in traced.said()
    assert agree(observed, traced)[0] is Agreement.AGREED


def test_a_hairpin_changes_on_its_own_node() -> None:
    seen = capture(
        "worker-a",
        (VETH, TO_US, 0.001, syn(POD, 5000, VIP, 80)),
        (VETH, FROM_US, 0.002, syn(GATEWAY, 5000, POD, TARGET)),
        (VETH, TO_US, 0.003, syn_ack(POD, TARGET, GATEWAY, 5000)),
        (VETH, FROM_US, 0.004, syn_ack(VIP, 80, POD, 5000)),
    )
    observed = observation((GATEWAY, 5000), source=(POD, 5000), dialled=(VIP, 80))
    traced = Tracer([seen], ENDPOINTS).trace(observed)
    assert [(each.node, each.became) for each in traced.changes] == [("worker-a", (GATEWAY, 5000))]
    assert agree(observed, traced)[0] is Agreement.AGREED


def test_a_direct_answer_past_the_entry_node_is_seen() -> None:
    """Direct server return: the answer has the right source but leaves from another node than the request entered."""
    bare = (
        (ETH0, TO_US, 0.001, syn(CLIENT, 5000, VIP, 80)),
        (ETH0, FROM_US, 0.002, syn(CLIENT, 5000, POD, TARGET)),
    )
    home = (
        (VETH, FROM_US, 0.003, syn(CLIENT, 5000, POD, TARGET)),
        (VETH, TO_US, 0.004, syn_ack(POD, TARGET, CLIENT, 5000)),
        (ETH0, FROM_US, 0.005, syn_ack(VIP, 80, CLIENT, 5000)),
    )
    observed = observation((CLIENT, 5000), dialled=(VIP, 80))
    traced = Tracer([capture("worker-b", *bare), capture("worker-a", *home)], ENDPOINTS).trace(observed)
    assert traced.at_node is not None
    assert traced.back_at_node is not None
    assert (traced.at_node.node, traced.back_at_node.node) == ("worker-b", "worker-a")


def test_a_change_beyond_a_node_is_not_put_on_it() -> None:
    """A host process on A dials B, which was not captured and sends its packet back to A, rewritten."""
    seen = capture(
        "worker-a",
        (ETH0, FROM_US, 0.001, syn(NODE_A, 5000, NODE_B, NODE_PORT)),
        (ETH0, TO_US, 0.002, syn(NODE_B, 61000, POD, TARGET)),
        (VETH, FROM_US, 0.003, syn(NODE_B, 61000, POD, TARGET)),
    )
    observed = observation((NODE_B, 61000), source=(NODE_A, 5000), dialled=(NODE_B, NODE_PORT))
    assert [each.node for each in Tracer([seen], ENDPOINTS).trace(observed).changes] == ["beyond worker-a"]


def test_clocks_that_differ_do_not_move_the_pod() -> None:
    home, bare = masqueraded()
    early = tuple(Sighting(*[getattr(s, f) if f != "time" else s.time - 0.5 for f in s.__slots__])
                  for s in home.sightings)  # fmt: skip
    observed = observation((NODE_B, 61000), dialled=(NODE_B, NODE_PORT))
    traced = Tracer([Capture("worker-a", home.raw, early), bare], ENDPOINTS).trace(observed)
    assert traced.at_pod is not None
    assert (traced.at_pod.node, agree(observed, traced)[0]) == ("worker-a", Agreement.AGREED)


@pytest.mark.parametrize("token", ["", f"{'a' * 64}/"])
def test_udp_is_joined_by_its_nonce(token: str) -> None:
    nonce = "0123456789abcdef:17:3"
    document = f'{{"schema": 1, "version": "0.1.0", "nonce": "{nonce}", "protocol": "udp"}}'.encode()
    seen = capture(
        "worker-a",
        (ETH0, TO_US, 0.001, ip(CLIENT6, NODE6) / UDP(sport=5000, dport=NODE_PORT) / f"{token}{nonce}".encode()),
        (VETH, FROM_US, 0.002, ip(NODE6, POD6) / UDP(sport=61000, dport=TARGET) / f"{token}{nonce}".encode()),
        (VETH, TO_US, 0.003, ip(POD6, NODE6) / UDP(sport=TARGET, dport=61000) / document),
        (ETH0, FROM_US, 0.004, ip(NODE6, CLIENT6) / UDP(sport=NODE_PORT, dport=5000) / document),
        (ETH0, TO_US, 0.005, ip(CLIENT6, NODE6) / UDP(sport=5000, dport=NODE_PORT) / b"{something else}"),
    )
    assert len(seen.sightings) == 4
    observed = observation(
        (NODE6, 61000), source=(CLIENT6, 5000), dialled=(NODE6, NODE_PORT), local=(POD6, TARGET), nonce=nonce
    )
    traced = Tracer([seen], ENDPOINTS).trace(observed)
    assert [each.became for each in traced.changes] == [(NODE6, 61000)]
    assert traced.back_at_node is not None
    assert agree(observed, traced)[0] is Agreement.AGREED
    refusal = ip(NODE6, CLIENT6) / ICMPv6DestUnreach(code=4) / seen_request(nonce)
    refused = capture("worker-a", (ETH0, FROM_US, 0.002, refusal))
    assert [(each.kind, each.join) for each in refused.sightings] == [("error", nonce)]


def seen_request(nonce: str) -> Packet:
    return ip(CLIENT6, NODE6) / UDP(sport=5000, dport=NODE_PORT) / nonce.encode()


def test_sctp_is_joined_by_its_tag() -> None:
    def sctp(source: str, port: int, destination: str, to: int, chunk: Packet, tag: int = 0) -> Packet:
        return ip(source, destination) / SCTP(sport=port, dport=to, tag=tag) / chunk

    ask, answer = SCTPChunkInit(init_tag=77), SCTPChunkInitAck(init_tag=88)
    seen = capture(
        "worker-a",
        (ETH0, TO_US, 0.001, sctp(CLIENT, 5000, NODE_A, NODE_PORT, ask)),
        (VETH, FROM_US, 0.002, sctp(CLIENT, 5000, POD, TARGET, ask)),
        (VETH, TO_US, 0.003, sctp(POD, TARGET, CLIENT, 5000, answer, tag=77)),
        (ETH0, FROM_US, 0.004, sctp(NODE_A, NODE_PORT, CLIENT, 5000, SCTPChunkAbort(), tag=77)),
    )
    observed = observation((CLIENT, 5000), tag=77)
    traced = Tracer([seen], ENDPOINTS).trace(observed)
    assert [each.kind for each in traced.sightings] == ["request", "request", "reply", "error"]
    assert (traced.delivered, agree(observed, traced)[0]) == ((CLIENT, 5000), Agreement.AGREED)


def test_ipv6_and_mapped_addresses_are_the_addresses_they_stand_for() -> None:
    seen = capture(
        "worker-a",
        (ETH0, TO_US, 0.001, syn("fc00:f853:0:0::9", 5000, NODE6, NODE_PORT)),
        (VETH, FROM_US, 0.002, syn(CLIENT6, 5000, POD6, TARGET)),
    )
    observed = observation(
        ("fc00:f853:0000::0009", 5000), source=("fc00:f853::9%eth0", 5000), dialled=(NODE6, NODE_PORT),
        local=("fd00:10:244:1:0:0:0:5", TARGET),
    )  # fmt: skip
    assert agree(observed, Tracer([seen], {("fd00:10:244:1:0::5", TARGET): "worker-a"}).trace(observed))[0] == "agreed"
    mapped = observation((f"::ffff:{CLIENT}", 5000), source=(f"::ffff:{CLIENT}", 5000))
    assert agree(mapped, Tracer([capture("worker-a", *PRESERVED)], ENDPOINTS).trace(mapped))[0] == "agreed"


def test_two_connections_with_one_sequence_number_are_kept_apart_by_time() -> None:
    later = tuple((interface, kind, after + 60, packet) for interface, kind, after, packet in PRESERVED)
    observed = observation((CLIENT, 5000))
    traced = Tracer([capture("worker-a", *PRESERVED, *later)], ENDPOINTS).trace(observed)
    assert {each.time < NOW + 1 for each in traced.sightings} == {True}
    late = Observation(**{**{f: getattr(observed, f) for f in observed.__dataclass_fields__}, "time": NOW + 200})
    assert not Tracer([capture("worker-a", *PRESERVED)], ENDPOINTS).trace(late).seen


NONCE, OTHERS = "0123456789abcdef:17:3", "fedcba9876543210:9:0"


def data(source: str, port: int, destination: str, to: int, said: bytes, seq: int = 1001) -> Packet:
    """The segment that carries a request."""
    return (
        ip(source, destination) / TCP(sport=port, dport=to, flags="PA", seq=seq, options=[("Timestamp", (5, 0))]) / said
    )


def moved_port(*, named: bool) -> Capture:
    """A process of node A dials a pod from a port that another connection has there: the kernel takes another port.

    The other one, whose source the node rewrote, has the ends that our client believes to have.
    """
    theirs = (
        (ETH0, TO_US, 0.0, syn(CLIENT, 52669, NODE_A, NODE_PORT, 7)),
        (VETH, FROM_US, 0.0001, syn(NODE_A, 52669, POD, TARGET, 7)),
        (VETH, TO_US, 0.0002, syn_ack(POD, TARGET, NODE_A, 52669, 7)),
        (ETH0, FROM_US, 0.0003, syn_ack(NODE_A, NODE_PORT, CLIENT, 52669, 7)),
        (VETH, FROM_US, 0.0005, data(NODE_A, 52669, POD, TARGET, OTHERS.encode() + b"\n", 8)),
    )
    ours = (
        (VETH, FROM_US, 0.001, syn(NODE_A, 48284, POD, TARGET, 90)),
        (VETH, TO_US, 0.0011, syn_ack(POD, TARGET, NODE_A, 48284, 90)),
        (VETH, FROM_US, 0.0012, data(NODE_A, 48284, POD, TARGET, NONCE.encode() + b"\n", 91)),
    )
    return capture("worker-a", *(each for each in (*theirs, *ours) if named or each[3][TCP].flags != "PA"))


def from_a_moved_port(seen: int, **more: Any) -> Observation:
    ends = {"source": (NODE_A, 52669), "dialled": (POD, TARGET), "nonce": NONCE}
    return observation((NODE_A, seen), **ends, **more)


def test_a_port_that_the_kernel_moved_is_reported_and_contradicts_nobody() -> None:
    found = from_a_moved_port(48284)
    traced = Tracer([moved_port(named=True)], ENDPOINTS).trace(found)
    assert traced.delivered == (NODE_A, 48284)
    assert agree(found, traced)[0] is Agreement.AGREED
    assert [str(each) for each in traced.changes] == [
        "before worker-a, between the client and veth1: 172.18.0.2:52669 became 172.18.0.2:48284"
        " (NAT moved the source port)"
    ]


def test_a_backend_that_hides_a_moved_port_is_contradicted() -> None:
    lie = from_a_moved_port(52669)
    state, words = agree(lie, Tracer([moved_port(named=True)], ENDPOINTS).trace(lie))
    assert state is Agreement.CONTRADICTION
    assert "came from 172.18.0.2:48284" in words


def test_connections_that_no_nonce_tells_apart_contradict_nobody() -> None:
    found = from_a_moved_port(48284)
    traced = Tracer([moved_port(named=False)], ENDPOINTS).trace(found)
    assert (traced.seen, traced.delivered, traced.sightings) == (False, None, ())
    assert agree(found, traced) == (
        Agreement.UNSEEN, "ambiguous: the client and the backend reported different connections",
    )  # fmt: skip
    assert traced.said() == traced.apart


def test_silence_is_not_joined_with_a_connection_that_carries_another_nonce() -> None:
    ends = {"source": (NODE_A, 52669), "dialled": (POD, TARGET)}
    silent = observation(None, **ends, nonce=NONCE.replace("3", "4"), outcome=Outcome.TIMEOUT)
    traced = Tracer([moved_port(named=True)], ENDPOINTS).trace(silent)
    assert (traced.seen, traced.delivered, traced.apart) == (False, None, "")


def test_two_attempts_between_the_same_ends_are_not_distinguished_without_a_nonce() -> None:
    again = tuple((i, kind, after + 2, packet) for i, kind, after, packet in (
        (ETH0, TO_US, 0.001, syn(CLIENT, 5000, NODE_A, NODE_PORT, 77)),
        (VETH, FROM_US, 0.0011, syn(CLIENT, 5000, POD, TARGET, 77)),
    ))  # fmt: skip
    observed = observation((CLIENT, 5000))
    traced = Tracer([capture("worker-a", *PRESERVED, *again)], ENDPOINTS).trace(observed)
    assert traced.apart == (
        "ambiguous: 2 connections had the ends 172.18.0.9:5000 -> 172.18.0.2:30080 that the client reported"
    )
    assert not traced.seen


HEADERS = b"GET / HTTP/1.1\r\nHost: [fc00:f853:0000:0000:0000:0000:0000:ffff]:65535\r\nAccept: application/json\r\n"
PREAMBLE_2 = b"\r\n\r\n\x00\r\nQUIT\n\x21\x11\x00\x0c" + bytes(10) + b"\x00P"


@pytest.mark.parametrize(
    "said",
    [
        NONCE.encode() + b"\n",
        b"keep " + NONCE.encode() + b"\n",
        PREAMBLE_2 + PREAMBLE_2 + NONCE.encode() + b"\n",
        b"PROXY TCP4 203.0.113.7 192.0.2.1 1111 80\r\n" + NONCE.encode() + b"\n",
        HEADERS + b"X-Esipp-Nonce: " + NONCE.encode() + b"\r\nConnection: close\r\n\r\n",
        HEADERS + b"x-esipp-nonce: " + NONCE.encode() + b"\r\nx-forwarded-for: 203.0.113.7, 172.18.0.9\r\n\r\n",
    ],
    ids=["raw", "kept", "PROXY v2 twice", "PROXY v1", "HTTP", "HTTP by way of a proxy"],
)
def test_a_request_names_its_connection(said: bytes) -> None:
    named = (VETH, FROM_US, 0.0014, data(CLIENT, 5000, POD, TARGET, said))
    (sighting,) = [each for each in capture("worker-a", *PRESERVED, named).sightings if each.kind == "named"]
    assert (sighting.nonce, sighting.join) == (NONCE, 1001)


@pytest.mark.parametrize(
    "said",
    [
        b'{"schema": 1, "nonce": "' + NONCE.encode() + b'", "protocol": "tcp"}\n',
        NONCE.encode(),
        NONCE[:-2].encode() + b"\n",
        b"GET /healthz\r\n\r\n",
    ],
    ids=["an answer", "truncated", "without its number", "no HTTP"],
)
def test_what_is_no_whole_request_names_nothing(said: bytes) -> None:
    named = (VETH, FROM_US, 0.0014, data(CLIENT, 5000, POD, TARGET, said))
    assert {each.kind for each in capture("worker-a", *PRESERVED, named).sightings} == {"request", "reply"}


def test_an_http_request_without_a_nonce_shows_its_path() -> None:
    said = b"GET /healthz?verbose HTTP/1.1\r\nHost: a\r\n\r\n"
    asked = (VETH, FROM_US, 0.0014, data(CLIENT, 5000, POD, TARGET, said))
    (sighting,) = [each for each in capture("worker-a", *PRESERVED, asked).sightings if each.kind == "asked"]
    assert (sighting.nonce, sighting.source) == ("/healthz?verbose", (CLIENT, 5000))


def test_a_proxy_is_followed_by_the_nonce_whatever_port_it_takes() -> None:
    """Two clients meet the proxy at once; without a nonce only the backend's word would tell which is whose."""
    said = NONCE.encode() + b"\n"
    seen = capture(
        "worker-a",
        (ETH0, TO_US, 0.001, syn(CLIENT, 5000, VIP, 80, seq=1)),
        (ETH0, FROM_US, 0.002, syn_ack(VIP, 80, CLIENT, 5000, seq=1)),
        (ETH0, TO_US, 0.0021, data(CLIENT, 5000, VIP, 80, said, seq=2)),
        (VETH, FROM_US, 0.003, syn(NODE_A, 33000, POD, TARGET, seq=20)),
        (VETH, FROM_US, 0.0031, syn(NODE_A, 33001, POD, TARGET, seq=30)),
        (VETH, FROM_US, 0.004, data(NODE_A, 33000, POD, TARGET, OTHERS.encode() + b"\n", seq=21)),
        (VETH, FROM_US, 0.0041, data(NODE_A, 33001, POD, TARGET, PREAMBLE_2 + said, seq=31)),
    )
    observed = observation((NODE_A, 33001), dialled=(VIP, 80), nonce=NONCE)
    traced = Tracer([seen], ENDPOINTS).trace(observed)
    assert (traced.relayed, traced.delivered, agree(observed, traced)[0]) == (True, (NODE_A, 33001), Agreement.AGREED)
    lie = observation((NODE_A, 33000), dialled=(VIP, 80), nonce=NONCE)
    assert agree(lie, Tracer([seen], ENDPOINTS).trace(lie))[0] is Agreement.CONTRADICTION


def test_a_nonce_is_of_the_connection_whose_bytes_come_before_it() -> None:
    """Two connections, one after the other, between the same ends."""
    first = (VETH, FROM_US, 0.0012, data(CLIENT, 5000, POD, TARGET, OTHERS.encode() + b"\n"))
    then = (
        (ETH0, TO_US, 3.0, syn(CLIENT, 5000, NODE_A, NODE_PORT, 2**32 - 1)),
        (VETH, FROM_US, 3.001, syn(NODE_A, 4000, POD, TARGET, 2**32 - 1)),
        (VETH, FROM_US, 3.002, data(NODE_A, 4000, POD, TARGET, NONCE.encode() + b"\n", 0)),
    )
    observed = observation((NODE_A, 4000), nonce=NONCE)
    traced = Tracer([capture("worker-a", *PRESERVED, first, *then)], ENDPOINTS).trace(observed)
    assert [each.join for each in traced.requests] == [2**32 - 1, 2**32 - 1]
    assert agree(observed, traced)[0] is Agreement.AGREED


@pytest.mark.parametrize("token", ["", "Zm9v-bar_:1/"])
def test_an_sctp_tag_that_two_probes_share_is_distinguished_by_the_nonce(token: str) -> None:
    """The run's token stands before the nonce, where echo servers ask for one."""

    def init(source: str, port: int, destination: str, to: int, nonce: str) -> Packet:
        text = (token + nonce).encode()
        asks = SCTPChunkInit(init_tag=77, params=[Raw(b"\xbe\x51" + (4 + len(text)).to_bytes(2) + text)])
        return ip(source, destination) / SCTP(sport=port, dport=to) / asks

    seen = capture(
        "worker-a",
        (VETH, FROM_US, 0.001, init(NODE_A, 6000, POD, TARGET, OTHERS)),
        (VETH, FROM_US, 0.002, init(CLIENT, 5000, POD, TARGET, NONCE)),
    )
    assert [each.nonce for each in seen.sightings] == [OTHERS, NONCE]
    traced = Tracer([seen], ENDPOINTS).trace(observation((CLIENT, 5000), tag=77, nonce=NONCE))
    assert [each.source for each in traced.requests] == [(CLIENT, 5000)]


def test_only_what_is_ours_is_read_and_kept() -> None:
    other = (ETH0, TO_US, 0.0, syn("192.0.2.1", 1, "192.0.2.2", 443))
    common = (ETH0, TO_US, 0.0, syn("192.0.2.1", 1, "192.0.2.2", 80))
    data = (ETH0, TO_US, 0.0, ip(CLIENT, NODE_A) / TCP(sport=5000, dport=NODE_PORT, flags="PA"))
    rest = (ETH0, TO_US, 0.0, IP(src=CLIENT, dst=NODE_A, frag=9, proto=6) / Raw(bytes(40)))
    foreign = (ETH0, TO_US, 0.0, ip(NODE_A, CLIENT) / ICMP(type=3) / syn("192.0.2.1", 1, "192.0.2.2", 443))
    echo = (ETH0, TO_US, 0.0, ip(NODE_A, CLIENT) / ICMP() / b"ping")
    passing = (ETH0, TO_OTHERS, 0.0, syn(CLIENT, 5000, NODE_A, NODE_PORT))
    mixed = capture("worker-a", other, common, data, rest, foreign, echo, passing, PRESERVED[0])
    assert [each.direction for each in mixed.sightings] == ["other", "in"]
    again = read_capture("worker-a", mixed.raw, NAMES, SCOPE)
    assert again == mixed
    assert mixed.cut(mixed.sightings) == mixed.raw
    assert read_capture("worker-a", mixed.cut(mixed.sightings[1:]), NAMES, SCOPE).sightings[0].direction == "in"
    observed = observation((CLIENT, 5000))
    assert [each.direction for each in Tracer([mixed], ENDPOINTS).trace(observed).sightings] == ["in"]


def test_nanoseconds_are_read() -> None:
    read = read_capture("worker-a", pcap(*PRESERVED, nano=True), NAMES, SCOPE)
    assert [round(each.time - NOW, 6) for each in read.sightings] == [0.001, 0.0011, 0.0012, 0.0013]
    assert read_capture("worker-a", read.raw, NAMES, SCOPE).sightings[1].time == pytest.approx(NOW + 0.0011)


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        (b"", "empty"),
        (b"tcpdump: oops\n" * 9, "damaged"),
        (pcap(*PRESERVED)[:-30], "truncated"),
        (pcap(*PRESERVED)[:20], "damaged"),
    ],
    ids=["nothing", "garbage", "cut in a packet", "cut in the header"],
)
def test_a_damaged_file_is_reported(raw: bytes, words: str) -> None:
    read = read_capture("worker-a", raw, NAMES, SCOPE)
    assert words in read.trouble
    assert len(read.sightings) in (0, 3)


def test_another_link_type_is_reported() -> None:
    file = BytesIO()
    file.close = lambda: None
    writer = PcapWriter(file, linktype=1)
    writer.write(Ether() / syn(CLIENT, 1, NODE_A, NODE_PORT))
    assert "LINUX_SLL2" in read_capture("worker-a", file.getvalue(), NAMES, SCOPE).trouble


KNOWN = observation((NODE_A, 5009), source=(NODE_A, 5009), dialled=(NODE_A, LISTENER))


def test_a_capture_is_believed_only_if_it_saw_what_is_known() -> None:
    sees = capture("worker-a", *PRESERVED, (LO, TO_US, 0.1, syn(NODE_A, 5009, NODE_A, LISTENER, 5)))
    assert sees.blindness([KNOWN]) == ""
    blind = capture("worker-a", *PRESERVED)
    assert blind.blindness([KNOWN]) == (
        "the capture on worker-a lacks 1 of 1 known connections, among them 172.18.0.2:5009 -> 172.18.0.2:40123: it has"
        " 4 other packets"
    )
    assert "no known connection" in sees.blindness([])
    assert "permission" in Capture("worker-a", trouble="no permission").blindness([KNOWN])


# ------------------------------------------------------------------------------------------------------ the filter


def test_the_filter_names_ports_and_addresses() -> None:
    words = SCOPE.expression()
    assert "port 30080" in words
    assert "(port 80 or port 8081) and (net 10.244.1.5/32 or net 172.18.255.1/32" in words


def many() -> Scope:
    ports = {("TCP", 30000 + 7 * i) for i in range(200)}
    services = {("UDP", f"10.96.{i}.{i}", 80) for i in range(100)} | {("TCP", f"fd00::{i}", 80) for i in range(99)}
    return Scope(ports, services | {("TCP", POD, TARGET)})


def test_many_ports_and_addresses_become_few_ranges_that_hold_them_all() -> None:
    words = many().expression()
    assert len(re.findall(r"port(range)? ", words)) == MOST_RANGES + 2
    assert words.count("net ") == 2 * MOST_RANGES
    assert many().holds("TCP", ("192.0.2.1", 30007), ("192.0.2.2", 1))
    assert not many().holds("TCP", ("192.0.2.1", 30008))
    assert not many().holds("UDP", ("192.0.2.1", 30007))
    assert many().holds("UDP", ("::ffff:10.96.1.1".removeprefix("::ffff:"), 80))


@needs_tool("tcpdump")
@pytest.mark.parametrize(
    "scope",
    [SCOPE, replace(SCOPE, payloads=True), many(), Scope(()), Scope({("TCP", 1)})],
    ids=["few", "with payloads", "many", "none", "one"],
)
def test_tcpdump_compiles_the_filter_and_it_lets_ours_through(scope: Scope, tmp_path: Path) -> None:
    file = tmp_path / "in.pcap"
    port = 30007 if scope.holds("TCP", ("192.0.2.1", 30007)) else NODE_PORT
    file.write_bytes(
        pcap(
            (ETH0, TO_US, 0.0, syn(CLIENT, 5000, NODE_A, port)),
            (ETH0, TO_US, 0.0, syn(CLIENT6, 5000, NODE6, port)),
            (ETH0, TO_US, 0.0, syn(CLIENT, 5000, POD, TARGET)),
            (ETH0, TO_US, 0.0, ip(CLIENT6, NODE6) / TCP(sport=5000, dport=port, flags="A")),
            (ETH0, TO_US, 0.0, ip(CLIENT, NODE_A) / TCP(sport=5000, dport=port, flags="PA")),
            (ETH0, TO_US, 0.0, data(CLIENT6, 5000, NODE6, port, NONCE.encode() + b"\n")),
            (ETH0, TO_US, 0.0, syn("192.0.2.1", 5000, "192.0.2.2", 443)),
        )
    )
    done = subprocess.run(
        ["tcpdump", "-n", "-r", str(file), "-w", "-", scope.expression()], capture_output=True, timeout=20, check=True
    )
    read = read_capture("worker-a", done.stdout, NAMES, Scope({("TCP", port)}, SCOPE.endpoints))
    ours = scope.holds("TCP", ("192.0.2.1", port))
    assert len(read.sightings) == ((4 if scope.payloads else 3) if ours else 0)


# --------------------------------------------------------------------------------------------------------- the tap


def fake(mode: str, tmp_path: Path, raw: bytes | None = None) -> Sequence[str]:
    file = tmp_path / "fake.pcap"
    late = (9, FROM_US, 0.2, syn(CLIENT, 5000, POD, TARGET))
    file.write_bytes(pcap(*PRESERVED, late) if raw is None else raw)
    return [sys.executable, "-B", str(FAKE), mode, str(file)]


def test_a_tap_takes_what_tcpdump_sends_and_names_interfaces(tmp_path: Path) -> None:
    tap = Tap("worker-a", fake("well", tmp_path), SCOPE)
    assert tap.listening() == ""
    taken = tap.stop()
    assert (taken.trouble, taken.dropped) == ("", 0)
    assert [each.interface for each in taken.sightings] == ["eth0", "if7", "if7", "eth0", "vethlate"]
    assert tap.stop() is taken
    taken.write(tmp_path / "out.pcap")
    assert read_capture("worker-a", (tmp_path / "out.pcap").read_bytes(), {}, SCOPE).raw == taken.raw


def test_what_the_kernel_lost_is_reported(tmp_path: Path) -> None:
    tap = Tap("worker-a", fake("loses", tmp_path), SCOPE)
    assert tap.listening() == ""
    taken = tap.stop()
    assert (taken.dropped, taken.trouble) == (7, "the kernel of worker-a lost 7 packets")


@pytest.mark.parametrize(
    ("mode", "words"),
    [("refuses", "did not start: tcpdump: any: You don't have permission"), ("mute", "did not start within 0 s")],
)
def test_a_tap_that_does_not_start_is_reported(
    mode: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "START_SECONDS", 0.3 if mode == "mute" else 10)
    tap = Tap("worker-a", fake(mode, tmp_path), SCOPE)
    assert words in tap.listening()
    taken = tap.stop()
    assert words in taken.trouble
    assert words in taken.blindness([KNOWN])


def test_a_command_that_is_not_there_is_reported() -> None:
    tap = Tap("worker-a", ["/nowhere/kubectl"], SCOPE)
    assert "cannot be started" in tap.listening()
    assert "cannot be started" in tap.stop().trouble


def test_a_tap_that_ends_early_is_reported(tmp_path: Path) -> None:
    tap = Tap("worker-a", fake("dies", tmp_path), SCOPE)
    assert tap.listening() == ""
    assert tap._process is not None
    tap._process.wait(10)
    assert "ended before it was stopped: command terminated with exit code 137" in tap.stop().trouble


def test_a_tap_that_does_not_end_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "END_SECONDS", 0.2)
    tap = Tap("worker-a", fake("deaf", tmp_path), SCOPE)
    assert tap.listening() == ""
    assert "did not end within 0 s" in tap.stop().trouble


def test_too_much_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_BYTES", 1)
    tap = Tap("worker-a", fake("well", tmp_path, pcap(*PRESERVED) + bytes(300_000)), SCOPE)
    assert tap.listening() == ""
    assert "more than 1 bytes" in tap.stop().trouble


def may_capture() -> bool:
    try:
        socket.socket(socket.AF_PACKET, socket.SOCK_RAW).close()
    except OSError:
        return False
    return os.geteuid() == 0


@pytest.fixture
def listener() -> Any:
    with socket.create_server(("127.0.0.1", 0)) as made:
        yield made


@needs_tool("tcpdump", "pgrep")
@pytest.mark.skipif(not may_capture(), reason="needs root, and a right to raw sockets")
def test_a_real_tap_sees_a_real_connection_and_leaves_no_process(listener: socket.socket) -> None:
    port = listener.getsockname()[1]
    tap = Tap("here", [], Scope({("TCP", port)}))
    assert tap.listening() == ""
    with socket.create_connection(("127.0.0.1", port), timeout=5) as client:
        source = client.getsockname()
    taken = tap.stop()
    known = observation(source, source=source, dialled=("127.0.0.1", port))
    assert (taken.blindness([known]), taken.dropped, taken.trouble) == ("", 0, "")
    assert {each.interface for each in taken.sightings} == {"lo"}
    left = subprocess.run(["pgrep", "-fa", f"tcpdump.*port {port}"], capture_output=True, text=True, check=False)
    assert left.stdout == ""


@needs_tool("tcpdump", "pgrep")
@pytest.mark.skipif(not may_capture(), reason="needs root, and a right to raw sockets")
def test_a_tap_that_reaches_its_limit_or_its_time_says_so(listener: socket.socket) -> None:
    port = listener.getsockname()[1]
    full, late = Tap("here", [], Scope({("TCP", port)}), packets=1), Tap("here", [], Scope({("TCP", 1)}), seconds=1)
    assert (full.listening(), late.listening()) == ("", "")
    socket.create_connection(("127.0.0.1", port), timeout=5).close()
    for tap in (full, late):
        assert tap._process is not None
        tap._process.wait(10)
        assert "ended before it was stopped" in tap.stop().trouble
