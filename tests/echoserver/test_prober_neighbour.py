"""Neighbour jobs of the prober: where the kernel sends the frames to an address on the own link."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

import pytest

from images.echoserver import prober as module
from tests.echoserver.harness import Line, Prober
from tests.echoserver.namespaces import Namespace, needs_namespaces

VIPS = {"ipv4": "192.0.2.9", "ipv6": "2001:db8::9"}
NODES = {"02:00:00:00:00:01": "192.0.2.1", "02:00:00:00:00:02": "192.0.2.2"}
FIRST, SECOND = NODES

pytestmark = needs_namespaces


class Lab:
    """A prober in a namespace with one link, and a neighbour table that the test writes."""

    def __init__(self, space: Namespace) -> None:
        self.space = space
        space.ip("link", "add", "wire", "type", "veth", "peer", "name", "end")
        space.ip("link", "set", "end", "up")
        space.ip("link", "set", "wire", "up")
        space.add_address("192.0.2.100", 24, "wire")
        space.add_address("2001:db8::100", 64, "wire")
        for link, address in NODES.items():
            self.put(address, link)
        self.prober = Prober(prefix=space.prefix)

    def put(self, address: str, link: str) -> None:
        """Have the kernel send the frames to an address there."""
        self.space.ip("neigh", "replace", address, "lladdr", link, "dev", "wire")

    def follow(self, address: str, **more: Any) -> str:
        self.prober.given += 1
        job = f"neighbour{self.prober.given}"
        self.prober.send({"id": job, "protocol": "neighbour", "host": address, "count": 1000, **more})
        return job

    def told(self, job: str, number: int) -> Line:
        """A job's result of this number."""
        return self.prober.wait_for(lambda line: line.get("id") == job and line.get("seq") == number)


@pytest.fixture
def lab() -> Iterator[Lab]:
    space = Namespace()
    try:
        made = Lab(space)
        with made.prober:
            yield made
    finally:
        space.remove()


@pytest.mark.parametrize("family", VIPS)
def test_each_change_of_the_link_address_is_told(lab: Lab, family: str) -> None:
    vip = VIPS[family]
    lab.put(vip, FIRST)
    job = lab.follow(vip)
    first = lab.told(job, 0)
    assert (first["outcome"], first["link"], first["addresses"]) == ("answered", FIRST, [NODES[FIRST]])
    lab.put("192.0.2.77", SECOND)  # another address tells nothing about this one
    lab.put(vip, SECOND)
    lab.put(vip, FIRST)
    second, third = lab.told(job, 1), lab.told(job, 2)
    assert (second["link"], second["addresses"]) == (SECOND, sorted([NODES[SECOND], "192.0.2.77"]))
    assert (third["link"], third["addresses"]) == (FIRST, [NODES[FIRST]])
    assert first["started"] < second["started"] <= third["started"]


def test_an_entry_that_comes_back_as_it_was_is_no_change(lab: Lab) -> None:
    job = lab.follow(VIPS["ipv4"])  # not known yet
    lab.put(VIPS["ipv4"], FIRST)
    assert lab.told(job, 0)["link"] == FIRST
    lab.space.ip("neigh", "del", VIPS["ipv4"], "dev", "wire")
    lab.put(VIPS["ipv4"], FIRST)
    lab.put(VIPS["ipv4"], SECOND)
    assert lab.told(job, 1)["link"] == SECOND


def test_further_addresses_of_the_link_address_are_told(lab: Lab) -> None:
    lab.put(VIPS["ipv4"], FIRST)
    job = lab.follow(VIPS["ipv4"])
    lab.told(job, 0)
    lab.put("192.0.2.77", SECOND)
    lab.space.ip("neigh", "del", NODES[FIRST], "dev", "wire")
    lab.put(NODES[FIRST], FIRST)  # known before
    lab.put("192.0.2.78", FIRST)
    again = lab.told(job, 1)
    assert (again["link"], again["addresses"]) == (FIRST, [NODES[FIRST], "192.0.2.78"])


def test_it_is_done_after_its_count_and_when_it_is_cancelled(lab: Lab) -> None:
    lab.put(VIPS["ipv4"], FIRST)
    once, for_ever = lab.follow(VIPS["ipv4"], count=1), lab.follow(VIPS["ipv4"])
    assert lab.prober.wait_for(lambda line: line.get("id") == once and line.get("done", False))["probes"] == 1
    lab.told(for_ever, 0)
    lab.prober.send({"cancel": for_ever})
    ended = lab.prober.wait_for(lambda line: line.get("id") == for_ever and line.get("done", False))
    assert (ended["probes"], ended["cancelled"]) == (1, True)


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"host": "web.example"}, "host is a literal"),
        ({"port": 80}, "not for neighbour: port"),
        ({"spacing": 1, "timeout": 1}, "not for neighbour: spacing, timeout"),
    ],
)
def test_malformed_jobs(prober: Prober, change: dict[str, Any], complaint: str) -> None:
    since = len(prober.lines)
    prober.send({"id": "bad", "protocol": "neighbour", "host": "192.0.2.9", **change})
    assert complaint in prober.wait_for(lambda line: line.get("id") == "bad", since)["error"]


def message(kind: int, family: int, *attributes: bytes) -> bytes:
    body = module.NEIGHBOUR_HEAD.pack(family, 2, 2, 0, 1) + b"".join(attributes)
    return module.NETLINK_HEAD.pack(module.NETLINK_HEAD.size + len(body), kind, 0, 1, 0) + body


def attribute(name: int, value: bytes) -> bytes:
    return (struct.pack("=HH", 4 + len(value), name) + value).ljust(4 + len(value) + 3 & ~3, b"\0")


def test_what_is_no_neighbour_is_passed_over() -> None:
    address, link = attribute(module.NDA_DST, bytes([192, 0, 2, 9])), attribute(module.NDA_LLADDR, bytes(6))
    whole = message(module.RTM_NEWNEIGH, 2, address, link)
    assert module.neighbour_messages(whole) == [(module.RTM_NEWNEIGH, "192.0.2.9", "00:00:00:00:00:00")]
    gone = message(module.RTM_DELNEIGH, 2, address, link)
    assert module.neighbour_messages(gone) == [(module.RTM_DELNEIGH, "192.0.2.9", "")]
    asked = message(module.RTM_NEWNEIGH, 2, address)  # no answer has come yet
    assert module.neighbour_messages(asked) == [(module.RTM_NEWNEIGH, "192.0.2.9", "")]
    ended = module.NETLINK_HEAD.pack(20, module.NLMSG_DONE, 2, 1, 0) + bytes(4)
    assert module.neighbour_messages(whole + ended)[1:] == [(module.NLMSG_DONE, "", "")]
    other = message(16, 2, address, link)
    bridge = message(module.RTM_NEWNEIGH, 7, attribute(module.NDA_DST, bytes(4)), link)  # AF_BRIDGE
    assert module.neighbour_messages(other + bridge + whole) == module.neighbour_messages(whole)
    for cut in range(len(whole)):
        assert module.neighbour_messages(whole[:cut]) == []
    assert module.neighbour_messages(bytes(64)) == []
