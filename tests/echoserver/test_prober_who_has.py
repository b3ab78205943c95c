"""Who-has jobs of the prober, and probes from a link-local address: what only hosts of the own link can be asked."""

from __future__ import annotations

import socket
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from images.echoserver import prober as module
from tests.echoserver.harness import EchoServer, Line, Prober
from tests.echoserver.namespaces import Namespace, needs_namespaces

VIPS = {"ipv4": "192.0.2.9", "ipv6": "2001:db8::9"}
LENGTHS = {"ipv4": 32, "ipv6": 128}
LINKS = ("02:00:00:00:00:01", "02:00:00:00:00:02")

pytestmark = needs_namespaces


class Lab:
    """A prober at a bridge, and two hosts behind it."""

    def __init__(self, spaces: list[Namespace]) -> None:
        self.own, *self.hosts = spaces
        self.own.ip("link", "add", "bridge0", "type", "bridge")
        for number, (host, link) in enumerate(zip(self.hosts, LINKS, strict=True), 1):
            self.own.ip("link", "add", f"to{number}", "type", "veth", "peer", "name", "eth", "netns", host.name)
            self.own.ip("link", "set", f"to{number}", "master", "bridge0", "up")
            host.ip("link", "set", "eth", "address", link, "up")
            host.add_address(f"192.0.2.{number}", 24, "eth")
            host.add_address(f"2001:db8::{number}", 64, "eth")
        self.own.ip("link", "set", "bridge0", "up")
        self.own.add_address("192.0.2.100", 24, "bridge0")
        self.own.add_address("2001:db8::100", 64, "bridge0")
        self.prober = Prober(prefix=self.own.prefix)

    def have(self, number: int, family: str) -> None:
        """Give a host the VIP too, on its interface, as kube-vip does."""
        self.hosts[number].add_address(VIPS[family], LENGTHS[family], "eth")

    def ask(self, address: str, **more: Any) -> list[Line]:
        self.prober.given += 1
        job = f"who-has{self.prober.given}"
        self.prober.send({"id": job, "protocol": "who-has", "host": address, "timeout": 0.5, **more})
        return self.prober.take(job)


@pytest.fixture
def lab() -> Iterator[Lab]:
    spaces = [Namespace() for _ in range(3)]
    try:
        made = Lab(spaces)
        with made.prober:
            yield made
    finally:
        for space in spaces:
            space.remove()


@pytest.mark.parametrize("family", VIPS)
def test_every_host_that_has_an_address_answers(lab: Lab, family: str) -> None:
    vip = VIPS[family]
    (nobody,) = lab.ask(vip)
    assert (nobody["outcome"], nobody["links"], nobody["detail"]) == ("timeout", [], "no answer")
    lab.have(0, family)
    (one,) = lab.ask(vip)
    assert (one["outcome"], one["links"]) == ("answered", [LINKS[0]])
    lab.have(1, family)
    for both in lab.ask(vip, count=3, spacing=0.1):
        assert (both["outcome"], both["links"]) == ("answered", list(LINKS))


@pytest.mark.parametrize("family", VIPS)
def test_only_the_host_that_is_asked_for_is_told(lab: Lab, family: str) -> None:
    lab.have(0, family)
    lab.have(1, family)
    other = {"ipv4": "192.0.2.2", "ipv6": "2001:db8::2"}[family]
    lab.prober.send({"id": "vip", "protocol": "who-has", "host": VIPS[family], "timeout": 0.5, "count": 3})
    (asked,) = lab.ask(other)
    assert asked["links"] == [LINKS[1]]
    assert [each["links"] for each in lab.prober.take("vip")] == [list(LINKS)] * 3


@pytest.mark.parametrize("address", ["203.0.113.9", "2001:db8:1::9"])
def test_who_is_behind_a_gateway_cannot_be_asked(lab: Lab, address: str) -> None:
    lab.own.ip("route", "add", "default", "via", "192.0.2.1")
    lab.own.ip("-6", "route", "add", "default", "via", "2001:db8::1")
    (asked,) = lab.ask(address)
    assert (asked["outcome"], asked["detail"]) == ("unreachable", module.NOT_ON_LINK)
    (dialled,) = lab.prober.take(
        lab.prober.give("tcp", "2001:db8:1::9", 80, source_address=module.LINK_LOCAL, timeout=0.5)
    )
    assert (dialled["outcome"], dialled["detail"]) == ("unreachable", module.NOT_ON_LINK)


def test_a_probe_from_the_link_local_address(lab: Lab) -> None:
    with EchoServer(prefix=lab.hosts[0].prefix) as server:
        result = lab.prober.probe("tcp", "2001:db8::1", server.ports["tcp"], source_address=module.LINK_LOCAL)
        assert result["outcome"] == "answered", result
        assert result["source_address"].startswith("fe80::")
        assert result["echo"]["peer_address"] == result["source_address"].partition("%")[0]


def test_a_prober_without_the_right_says_so(lab: Lab) -> None:
    without = Prober(prefix=[*lab.own.prefix, "setpriv", "--bounding-set", "-net_raw", "--inh-caps", "-net_raw", "--"])
    with without:
        without.send({"id": "who", "protocol": "who-has", "host": VIPS["ipv4"], "timeout": 0.5})
        (result,) = without.take("who")
    assert result["outcome"] == "error"
    assert "CAP_NET_RAW" in result["detail"]


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"host": "web.example"}, "host is a literal"),
        ({"port": 80}, "not for who-has: port"),
        ({"brief": True}, "not for who-has: brief"),
        ({"protocol": "tcp", "port": 80, "source_address": "link-local"}, "link-local is for IPv6"),
    ],
)
def test_malformed_jobs(prober: Prober, change: dict[str, Any], complaint: str) -> None:
    since = len(prober.lines)
    prober.send({"id": "bad", "protocol": "who-has", "host": "192.0.2.9", **change})
    assert complaint in prober.wait_for(lambda line: line.get("id") == "bad", since)["error"]


def test_what_is_no_answer_is_passed_over() -> None:
    own, link = bytes([192, 0, 2, 100]), bytes.fromhex("020000000001")
    words = [module.ETHERNET, 0x0800, 6, 4, module.ARP_REPLY, link, bytes([192, 0, 2, 9]), bytes(6), own]
    assert module.replied(module.ARP.pack(*words), own) == ("192.0.2.9", LINKS[0])
    assert module.replied(module.ARP.pack(*words), bytes(4)) == ("", "")  # an answer to another host
    request = [*words[:4], module.ARP_REQUEST, *words[5:]]
    assert module.replied(module.ARP.pack(*request), own) == ("", "")
    assert module.replied(module.ARP.pack(*words)[:-1], own) == ("", "")

    target = socket.inet_pton(socket.AF_INET6, VIPS["ipv6"])
    option = bytes([module.TARGET_LINK, 1]) + link
    answer = bytes([module.ADVERTISEMENT, 0, 0, 0, module.SOLICITED, 0, 0, 0]) + target
    assert module.advertised(answer + option) == (VIPS["ipv6"], LINKS[0])
    assert module.advertised(answer + bytes([14, 1, *bytes(6)]) + option) == (VIPS["ipv6"], LINKS[0])
    unsolicited = answer[:4] + bytes(1) + answer[5:]  # gratuitous
    for other in (b"", answer, unsolicited + option, answer + bytes(8), bytes([135]) + answer[1:] + option):
        assert module.advertised(other) == ("", "")


def test_routes() -> None:
    def four(text: str) -> int:
        return int.from_bytes(socket.inet_aton(text), sys.byteorder)

    def line(network: str, gateway: str, mask: str, flags: int = 1) -> list[str]:
        return ["eth", f"{four(network):08X}", f"{four(gateway):08X}", f"{flags:04X}", "0", "0", "0",
                f"{four(mask):08X}", "0"]  # fmt: skip

    near = line("192.0.2.0", "0.0.0.0", "255.255.255.0")
    assert module.route4(near, "192.0.2.9") == (-24, 0, False, "eth")
    assert module.route4(near, "192.0.3.9") is None
    assert module.route4(line("0.0.0.0", "192.0.2.1", "0.0.0.0"), "192.0.3.9") == (0, 0, True, "")
    assert module.route4(line("192.0.2.0", "0.0.0.0", "255.255.255.0", 0x201), "192.0.2.9") is None
