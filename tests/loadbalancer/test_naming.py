"""Hostnames: which Services are announced by one, what its DNS server answers, and where translated VIPs lead."""

import socket
import struct
from collections.abc import Iterator

import pytest

from esipp.base import dns as resolving
from images.loadbalancer.balancer import naming, nat
from images.loadbalancer.balancer.objects import Mode, Port
from images.loadbalancer.balancer.settings import parse
from tests.loadbalancer.objects import World, node_object, service_object, settings

VIPS = {"IPv4": ["192.0.2.10", "192.0.2.11"], "IPv6": ["2001:db8::10"]}
NAME = "web.test.lb.esipp.example"
NAMES = {NAME: [vip for vips in VIPS.values() for vip in vips]}
PORTS = (Port("TCP", 80, 30080, http=False), Port("UDP", 53, 30053, http=False))


@pytest.fixture
def world() -> Iterator[World]:
    made = World(settings(default=Mode.NAT, hostnames=True))
    made.tell("nodes", "all", node_object("one", "127.0.0.1"))
    yield made
    made.close()


def test_only_services_that_name_no_class_are_announced_by_a_hostname(world: World) -> None:
    world.tell("services", "all", service_object("web", loadBalancerClass=None), service_object("named"))
    found = dict(world.writer.wrote)
    assert found["web"] == [{"hostname": NAME}]
    assert found["named"] == [{"ip": "192.0.2.10", "ipMode": "VIP"}]
    assert world.balancer.names == {NAME: ["192.0.2.11"]}
    assert world.kernel.translated == {"192.0.2.11": [("TCP", 80, 30080)]}


def test_a_hostname_ends_with_its_service(world: World) -> None:
    service = service_object("web", loadBalancerClass=None)
    world.tell("services", "all", service)
    world.tell("services", "gone", service)
    assert world.balancer.names == {}
    world.writer.wrote.clear()
    plain = {**service, "spec": {**service["spec"], "type": "NodePort"}}
    world.tell("services", "changed", {**plain, "status": {"loadBalancer": {"ingress": [{"hostname": NAME}]}}})
    assert world.writer.wrote == [("web", [])], "it asks no more"


def test_a_status_that_says_so_already_is_not_written_again(world: World) -> None:
    service = service_object("web", loadBalancerClass=None)
    world.tell("services", "all", {**service, "status": {"loadBalancer": {"ingress": [{"hostname": NAME}]}}})
    assert world.writer.wrote == []


@pytest.mark.parametrize("default", [[], ["--default", "reference-ecmp"], ["--default", "reference-forward"]])
def test_nodes_would_know_no_vip_that_goes_on_unchanged(default: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parse(["--server", "https://x", *default, "--announce", "hostname"])
    assert "nodes know no VIP of a hostname" in capsys.readouterr().err


def asked(name: str, kind: int = naming.A, **names: str) -> list[str]:
    return list(resolving.read(naming.answer(resolving.query(7, name, kind), NAMES), 7, kind))


@pytest.mark.parametrize(("kind", "family"), [(naming.A, "IPv4"), (naming.AAAA, "IPv6")])
def test_a_hostname_stands_for_the_vips_of_each_family(kind: int, family: str) -> None:
    assert asked(NAME, kind) == VIPS[family]
    assert asked(f"{NAME.upper()}.", kind) == VIPS[family]


@pytest.mark.parametrize("name", ["other.test.lb.esipp.example", "lb.esipp.example", "localhost"])
def test_no_other_name_is_known(name: str) -> None:
    said = naming.answer(resolving.query(7, name, naming.A), NAMES)
    assert said[3] & 0xF == naming.NO_SUCH_NAME
    assert asked(name) == []


@pytest.mark.parametrize(
    ("query", "code"),
    [
        (struct.pack("!HHHHHH", 7, 0x0100, 1, 0, 0, 0), naming.FORMAT_ERROR),
        (struct.pack("!HHHHHH", 7, 0x0100, 1, 0, 0, 0) + b"\x3fabc", naming.FORMAT_ERROR),
        (struct.pack("!HHHHHH", 7, 0x0100, 1, 0, 0, 0) + b"\xc0\x0c\0\1\0\1", naming.FORMAT_ERROR),
        (struct.pack("!HHHHHH", 7, 0x0100, 1, 0, 0, 0) + b"\x02\xff\xff\0\0\1\0\1", naming.FORMAT_ERROR),
        (struct.pack("!HHHHHH", 7, 0x2800, 1, 0, 0, 0), naming.NOT_IMPLEMENTED),
    ],
)
def test_what_makes_no_sense_is_reported(query: bytes, code: int) -> None:
    assert naming.answer(query, NAMES)[3] & 0xF == code


@pytest.mark.parametrize("query", [b"", b"short", struct.pack("!HHHHHH", 7, 0x8000, 1, 0, 0, 0)])
def test_what_is_no_query_gets_no_answer(query: bytes) -> None:
    assert naming.answer(query, NAMES) == b""


def test_the_suite_asks_the_server_that_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    server = naming.Resolver(["127.0.0.1", "::1"], lambda: NAMES, 0)
    server.start()
    for host, port in zip(("127.0.0.1", "::1"), server.ports, strict=True):
        monkeypatch.setenv(resolving.RESOLVER, host)
        monkeypatch.setattr(resolving, "PORT", port)
        assert resolving.addresses_of(NAME) == NAMES[NAME]
        assert resolving.addresses_of("other.example") == []
    server.close()


def test_a_server_that_is_not_there_knows_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.bind(("127.0.0.1", 0))
        port = sock.getsockname()[1]
    monkeypatch.setenv(resolving.RESOLVER, "127.0.0.1")
    monkeypatch.setattr(resolving, "PORT", port)
    assert resolving.addresses_of(NAME) == []


def test_connections_are_spread_by_weights_and_take_nobody_s_address() -> None:
    said = nat.render({"192.0.2.10": nat.Translated(PORTS, (("172.18.0.2", 1), ("172.18.0.3", 3)))})
    assert "ip daddr 192.0.2.10 tcp dport 80 goto vip0_tcp_80" in said
    assert "ip daddr 192.0.2.10 udp dport 53 goto vip0_udp_53" in said
    assert "meta l4proto tcp numgen random mod 4 < 1 dnat ip to 172.18.0.2:30080" in said
    assert "\n    meta l4proto tcp dnat ip to 172.18.0.3:30080" in said, "the last one takes what is left"
    assert "masquerade" not in said
    assert "snat" not in said


def test_an_ipv6_node_and_a_vip_without_any() -> None:
    said = nat.render(
        {
            "2001:db8::10": nat.Translated(PORTS[:1], (("2001:db8::2", 1),)),
            "192.0.2.10": nat.Translated(PORTS, ()),
        }
    )
    assert "dnat ip6 to [2001:db8::2]:30080" in said
    assert "192.0.2.10" not in said, "what leads nowhere is left to the route that drops it"
