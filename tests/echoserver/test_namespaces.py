"""Echo server and prober in network namespaces of their own, a router between them: addresses, routes, scopes."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.echoserver.harness import PATIENCE, EchoServer, Prober, Process
from tests.echoserver.namespaces import Namespace, needs_namespaces, numbers, rules, sweep, wire, within

pytestmark = needs_namespaces


@dataclass
class Lab:
    """client 10.1.0.2 -- 10.1.0.1 router 10.2.0.1 -- 10.2.0.2 server, the same in fd01:: and fd02::."""

    client: Namespace
    router: Namespace
    server: Namespace
    echo: EchoServer
    prober: Prober

    def probe(self, protocol: str, host: str, **more: Any) -> dict[str, Any]:
        return self.prober.probe(protocol, host, more.pop("port", self.echo.ports[protocol]), **more)


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    sweep()
    made: list[Namespace] = []
    try:
        for _ in range(3):
            made.append(Namespace())
        client, router, server = made
        wire(client, router, ("eth0", "toclient"), 1)
        wire(server, router, ("eth0", "toserver"), 2)
        for namespace, net in ((client, 1), (server, 2)):
            namespace.ip("route", "add", "default", "via", f"10.{net}.0.1")
            namespace.ip("-6", "route", "add", "default", "via", f"fd0{net}::1")
        for key in ("ipv4/ip_forward", "ipv6/conf/all/forwarding"):
            router.sysctl(key, "1")
        for key in ("ipv4/icmp_ratelimit", "ipv6/icmp/ratelimit"):  # else only some of our probes hear of it
            router.sysctl(key, "0")
        with EchoServer("--sctp=7000", prefix=server.prefix) as echo, Prober(prefix=client.prefix) as prober:
            yield Lab(client, router, server, echo, prober)
            assert not [
                line for line in (*prober.lines, *echo.lines) if "not json" in line or line.get("event") == "error"
            ]
    finally:
        for namespace in made:
            namespace.remove()


PROTOCOLS = ("tcp", "http", "udp", "sctp")
SIDES = {"ipv4": ("10.1.0.2", "10.2.0.2"), "ipv6": ("fd01::2", "fd02::2")}


@pytest.mark.parametrize("family", SIDES)
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_the_client_is_seen_as_it_is(lab: Lab, protocol: str, family: str) -> None:
    client, server = SIDES[family]
    result = lab.probe(protocol, server)
    assert result["outcome"] == "answered", result
    echo = result["echo"]
    assert (echo["peer_address"], echo["local_address"], echo["family"]) == (client, server, family)
    assert (result["source_address"], result["source_port"]) == (client, echo["peer_port"])


def test_the_prober_knows_its_addresses(lab: Lab) -> None:
    assert lab.prober.about["addresses"] == ["10.1.0.2", "fd01::2"]
    lab.client.add_address("10.1.0.77", 32, "eth0")
    lab.client.add_address("2001:db8::77", 128, "eth0")
    try:
        lab.prober.send({"describe": True, "id": "again"})
        again = lab.prober.wait_for(lambda line: line.get("id") == "again")["addresses"]
        assert again == ["10.1.0.2", "10.1.0.77", "2001:db8::77", "fd01::2"]
    finally:
        lab.client.ip("addr", "del", "10.1.0.77/32", "dev", "eth0")
        lab.client.ip("addr", "del", "2001:db8::77/128", "dev", "eth0")


@pytest.mark.parametrize("address", ["10.1.0.88", "fd01::88"])
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_second_address_as_source(lab: Lab, protocol: str, address: str) -> None:
    family = "ipv6" if ":" in address else "ipv4"
    length = 128 if family == "ipv6" else 32
    lab.client.add_address(address, length, "eth0")
    try:
        result = lab.probe(protocol, SIDES[family][1], source_address=address)
        assert result["outcome"] == "answered", result
        assert result["source_address"] == result["echo"]["peer_address"] == address
    finally:
        lab.client.ip("addr", "del", f"{address}/{length}", "dev", "eth0")


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_link_local_addresses_have_scopes(lab: Lab, protocol: str) -> None:
    """The router's own side, dialled over the wire with %eth0 by the client, answered with its scope."""
    command = [*lab.router.prefix, "ip", "-6", "-o", "addr", "show", "dev", "toclient", "scope", "link"]
    words = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    router = words[words.index("inet6") + 1].split("/")[0]
    with EchoServer("--sctp=7000", prefix=lab.router.prefix) as echo:
        result = lab.probe(protocol, f"{router}%eth0", port=echo.ports[protocol])
        assert result["outcome"] == "answered", result
        document = result["echo"]
        assert document["peer_address"] == result["source_address"]
        assert document["peer_address"].startswith("fe80::")
        assert document["peer_address_raw"] == f"{document['peer_address']}%toclient"
        assert document["peer_scope"] == "toclient"
        assert (document["local_address"], document["local_address_raw"]) == (router, f"{router}%toclient")
        if protocol == "http":
            check = ["python3", "-c", CLIENTIP.format(host=router, port=echo.ports["http"])]
            got = subprocess.run([*lab.client.prefix, *check], capture_output=True, text=True, check=True).stdout
            assert got.startswith(f"[{document['peer_address']}%toclient]:")


CLIENTIP = """
import socket
info = socket.getaddrinfo("{host}%eth0", {port}, type=socket.SOCK_STREAM)[0]
with socket.socket(info[0]) as s:
    s.connect(info[4])
    s.sendall(b"GET /clientip HTTP/1.0\\r\\n\\r\\n")
    print(s.makefile().read().split("\\n\\n", 1)[1], end="")
"""


@pytest.mark.parametrize("address", ["10.2.0.200", "fd02::200"])
@pytest.mark.parametrize("protocol", ["udp", "sctp"])
def test_answers_come_from_a_second_address(lab: Lab, protocol: str, address: str) -> None:
    length = 128 if ":" in address else 32
    lab.server.add_address(address, length, "lo")
    lab.router.ip("route", "add", f"{address}/{length}", "via", "fd02::2" if ":" in address else "10.2.0.2")
    try:
        result = lab.probe(protocol, address)
        assert (result["outcome"], result["echo"]["local_address"]) == ("answered", address), result
    finally:
        lab.router.ip("route", "del", f"{address}/{length}")
        lab.server.ip("addr", "del", f"{address}/{length}", "dev", "lo")


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize(
    ("kind", "outcome"),
    [("blackhole", "timeout"), ("unreachable", "unreachable"), ("prohibit", "unreachable")],
)
@pytest.mark.parametrize("family", SIDES)
def test_what_a_router_says(lab: Lab, family: str, kind: str, outcome: str, protocol: str) -> None:
    nowhere = {"ipv4": "198.51.100.7", "ipv6": "2001:db8:7::7"}[family]
    flag = "-6" if family == "ipv6" else "-4"
    lab.router.ip(flag, "route", "add", kind, nowhere)
    # A source of its own, as a router tells one host only so many errors in a row. An error that comes back within the
    # connect() itself, as over veth, counts with the kernel only when a second one follows its second SYN.
    source = f"10.1.0.{100 + next(numbers)}" if family == "ipv4" else f"fd01::1:{next(numbers)}"
    length = 64 if family == "ipv6" else 24
    lab.client.add_address(source, length, "eth0")
    try:
        result = lab.probe(protocol, nowhere, timeout=0.5 if outcome == "timeout" else 5, source_address=source)
        assert result["outcome"] == outcome, result
        assert (result["connected"], result["echo"]) == (None, None)
        assert result["source_address"] == source
        if protocol in ("udp", "sctp") and outcome == "unreachable":
            assert f"from {'10.1.0.1' if family == 'ipv4' else 'fd01::1'})" in result["detail"]
    finally:
        lab.client.ip("addr", "del", f"{source}/{length}", "dev", "eth0")
        lab.router.ip(flag, "route", "del", kind, nowhere)


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("family", SIDES)
def test_answers_that_get_lost(lab: Lab, family: str, protocol: str) -> None:
    flag, client = "-6" if family == "ipv6" else "-4", SIDES[family][0]
    lab.server.ip(flag, "route", "add", "blackhole", client)
    try:
        assert lab.probe(protocol, SIDES[family][1], timeout=0.4)["outcome"] == "timeout"
    finally:
        lab.server.ip(flag, "route", "del", "blackhole", client)
    assert lab.probe(protocol, SIDES[family][1])["outcome"] == "answered"


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("family", SIDES)
def test_no_route_from_here(lab: Lab, family: str, protocol: str) -> None:
    flag, nowhere = {"ipv4": ("-4", "203.0.113.9"), "ipv6": ("-6", "2001:db8:9::9")}[family]
    lab.client.ip(flag, "route", "add", "unreachable", nowhere)
    try:
        result = lab.probe(protocol, nowhere)
        assert result["outcome"] == "unreachable", result
        assert result["detail"].endswith("(at once)")
    finally:
        lab.client.ip(flag, "route", "del", "unreachable", nowhere)


@pytest.mark.parametrize("family", SIDES)
@pytest.mark.parametrize("protocol", ["tcp", "http", "udp"])
def test_refused_over_the_wire(lab: Lab, protocol: str, family: str) -> None:
    result = lab.probe(protocol, SIDES[family][1], port=9)
    assert result["outcome"] == "refused", result
    if protocol == "udp":
        assert f"from {SIDES[family][1]})" in result["detail"]


def test_control_is_not_reached_from_outside(lab: Lab) -> None:
    for _, server in SIDES.values():
        assert lab.probe("http", server, port=lab.echo.ports["control"], path="/ready")["outcome"] == "refused"


@pytest.mark.parametrize("family", SIDES)
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_client_that_is_masqueraded_shows(lab: Lab, protocol: str, family: str) -> None:
    """The prober's own address and the echo's differ: that is how a run notices."""
    client, server = SIDES[family]
    with rules(lab.router, family, "nat POSTROUTING -o toserver -j MASQUERADE"):
        result = lab.probe(protocol, server)
        router = {"ipv4": "10.2.0.1", "ipv6": "fd02::1"}[family]
        assert (result["source_address"], result["echo"]["peer_address"]) == (client, router)


@pytest.mark.parametrize("masqueraded", [False, True])
@pytest.mark.parametrize("family", SIDES)
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_through_the_nat_of_a_service(lab: Lab, protocol: str, family: str, masqueraded: bool) -> None:
    """As kube-proxy does it: another address and port is dialled, and the answer comes from there."""
    client, server = SIDES[family]
    kernel = "tcp" if protocol == "http" else protocol
    router = {"ipv4": "10.1.0.1", "ipv6": "fd01::1"}[family]
    backend = f"{f'[{server}]' if family == 'ipv6' else server}:{lab.echo.ports[protocol]}"
    service = f"nat PREROUTING -d {router} -p {kernel} --dport 443 -j DNAT --to-destination {backend}"
    masquerade = ["nat POSTROUTING -o toserver -j MASQUERADE"] if masqueraded else []
    with rules(lab.router, family, service, *masquerade):
        results = lab.prober.take(lab.prober.give(protocol, router, 443, count=20))
    assert {result["outcome"] for result in results} == {"answered"}, results[0]
    seen = {(result["echo"]["peer_address"], result["echo"]["local_address"]) for result in results}
    assert seen == {({"ipv4": "10.2.0.1", "ipv6": "fd02::1"}[family] if masqueraded else client, server)}
    assert {result["echo"]["local_port"] for result in results} == {lab.echo.ports[protocol]}
    assert len({result["source_port"] for result in results}) == 20
    if protocol == "sctp":
        assert len({result["tag"] for result in results}) == 20


@pytest.mark.parametrize("family", SIDES)
@pytest.mark.parametrize("protocol", ["tcp", "udp", "sctp"])
def test_a_firewall_that_rejects(lab: Lab, protocol: str, family: str) -> None:
    """As kube-proxy does for a service without endpoints."""
    server, kind = SIDES[family][1], {"ipv4": "icmp-port-unreachable", "ipv6": "icmp6-port-unreachable"}[family]
    with rules(lab.router, family, f"filter FORWARD -d {server} -p {protocol} -j REJECT --reject-with {kind}"):
        result = lab.probe(protocol, server, timeout=5)
    assert result["outcome"] == "refused", result
    if protocol != "tcp":
        assert f"from {'10.1.0.1' if family == 'ipv4' else 'fd01::1'})" in result["detail"]


@pytest.mark.parametrize("family", SIDES)
@pytest.mark.parametrize("protocol", ["tcp", "udp", "sctp"])
def test_a_firewall_of_the_client_itself_that_drops(lab: Lab, protocol: str, family: str) -> None:
    """As kube-proxy does on a node for its own processes; of UDP and SCTP the kernel tells it at once."""
    server = SIDES[family][1]
    with rules(lab.client, family, f"filter OUTPUT -d {server} -p {protocol} -j DROP"):
        result = lab.probe(protocol, server, timeout=0.5)
    assert result["outcome"] == ("timeout" if protocol == "tcp" else "unreachable"), result


@pytest.mark.parametrize("family", SIDES)
def test_sctp_to_a_host_without_it(lab: Lab, family: str) -> None:
    """The router listens to no SCTP at all, and says so; the server does, but not on that port."""
    if Path("/proc/net/sctp").exists():
        pytest.skip("this kernel knows SCTP itself")
    router = {"ipv4": "10.1.0.1", "ipv6": "fd01::1"}[family]
    result = lab.probe("sctp", router)
    assert result["outcome"] == "refused", result
    assert f"from {router})" in result["detail"]
    assert lab.probe("sctp", SIDES[family][1], port=9, timeout=0.3)["outcome"] == "timeout"


@pytest.mark.parametrize("family", SIDES)
def test_sctp_ports_and_tags(lab: Lab, family: str) -> None:
    job = lab.prober.give("sctp", SIDES[family][1], 7000, count=6, spacing=0.02, source_port=[4000, 4002])
    results = lab.prober.take(job)
    assert [result["source_port"] for result in results] == [4000, 4001, 4002] * 2, results
    assert [result["echo"]["peer_port"] for result in results] == [4000, 4001, 4002] * 2
    assert all(0 < result["tag"] < 1 << 32 for result in results)
    nowhere = {"ipv4": "198.51.100.77", "ipv6": "2001:db8:7::77"}[family]
    lab.router.ip("-6" if family == "ipv6" else "-4", "route", "add", "blackhole", nowhere)
    try:  # one port cannot have two probes in flight to one place
        results = lab.prober.take(lab.prober.give("sctp", nowhere, 7000, count=2, source_port=4000, timeout=0.3))
    finally:
        lab.router.ip("-6" if family == "ipv6" else "-4", "route", "del", "blackhole", nowhere)
    assert sorted(result["outcome"] for result in results) == ["error", "timeout"]
    assert any("EADDRINUSE" in (result["detail"] or "") for result in results)
    foreign = {"ipv4": "10.1.0.222", "ipv6": "fd01::222"}[family]
    result = lab.probe("sctp", SIDES[family][1], source_address=foreign)
    assert result["outcome"] == "error", result
    assert "EADDRNOTAVAIL" in result["detail"]


@pytest.mark.parametrize("family", SIDES)
def test_sctp_hundreds_at_once(lab: Lab, family: str) -> None:
    jobs = [lab.prober.give("sctp", SIDES[family][1], 7000, count=20, brief=True) for _ in range(50)]
    for job in jobs:
        lab.prober.wait_for(lambda line, job=job: line.get("id") == job and "done" in line)
        (group,) = [line for line in lab.prober.lines if line.get("id") == job and "outcome" in line]
        assert (group["outcome"], group["count"]) == ("answered", 20)


SCTP_LIAR = """
import socket, sys
sys.path.insert(0, sys.argv[1])
import sctp
kind, family = sys.argv[2], socket.AF_INET6 if sys.argv[3] == "ipv6" else socket.AF_INET
sock = socket.socket(family, socket.SOCK_RAW, 132)
print('{"event": "up"}', flush=True)
while True:
    packet, peer = sock.recvfrom(2048)
    if family == socket.AF_INET:
        packet = packet[20:]
    asked = sctp.question(packet, 7001)
    if asked is None:
        continue
    port, tag, nonce = asked
    document = '{"schema": 1, "nonce": "%s", "peer_address": "192.0.2.1", "peer_port": 1}' % nonce
    abort = sctp.sealed(sctp.HEADER.pack(7001, port, tag), bytes([6, 0, 0, 4]))
    answer = sctp.answer(7001, port, tag, document.encode())
    say = {
        "abort": [abort], "abort and answer": [abort, answer], "bad checksum": [answer[:8] + bytes(4) + answer[12:]],
        "another nonce": [sctp.answer(7001, port, tag, document.replace(nonce, "other").encode())],
        "no cookie": [sctp.sealed(answer[:8], answer[12:32] + bytes([128, 5]) + answer[34:])],
        "another port": [sctp.answer(7002, port, tag, document.encode())],
        "another tag": [sctp.answer(7001, port, tag ^ 1, document.encode())],
        "cut": [answer[:20]], "tiny": [answer[:9], answer[:13]],
        "heartbeat": [sctp.sealed(answer[:8], bytes([4, 0, 0, 4]))],
    }[kind]
    for packet in say:
        sock.sendto(packet, (peer[0], 0))
"""


@pytest.mark.parametrize("family", SIDES)
@pytest.mark.parametrize(
    ("kind", "outcome", "words"),
    [
        ("abort", "refused", "ABORT"),
        ("abort and answer", "answered", ""),
        ("bad checksum", "invalid", "bad checksum"),
        ("another nonce", "invalid", "another nonce"),
        ("no cookie", "invalid", "without a state cookie"),
        ("another port", "misdirected", ""),
        ("another tag", "timeout", "no answer"),
        ("cut", "invalid", "bad checksum"),
        ("tiny", "timeout", "no answer"),
        ("heartbeat", "invalid", "neither INIT-ACK nor ABORT"),
    ],
)
def test_sctp_answers_of_other_kinds(lab: Lab, family: str, kind: str, outcome: str, words: str) -> None:
    command = ["python3", "-B", "-c", SCTP_LIAR, str(Path(ECHO[2]).parent), kind, family]
    with Process([*lab.router.prefix, *command]) as liar:
        liar.wait_for(lambda line: line.get("event") == "up")
        router = {"ipv4": "10.1.0.1", "ipv6": "fd01::1"}[family]
        result = lab.probe("sctp", router, port=7001, timeout=1)
    assert result["outcome"] == outcome, result
    assert words in (result["detail"] or "")
    assert (result["echo"] is not None) == (outcome in ("answered", "misdirected"))
    if outcome == "misdirected":
        assert result["answered_from"] == ("10.1.0.1:7002" if family == "ipv4" else "[fd01::1]:7002")


def test_ipv4_only_network() -> None:
    namespace = Namespace()
    try:
        namespace.sysctl("ipv6/conf/all/disable_ipv6", "1")
        with EchoServer("--sctp=7000", prefix=namespace.prefix) as echo, Prober(prefix=namespace.prefix) as prober:
            for protocol in PROTOCOLS:
                result = prober.probe(protocol, "127.0.0.1", echo.ports[protocol])
                assert (result["outcome"], result["echo"]["peer_address"]) == ("answered", "127.0.0.1")
            result = prober.probe("tcp", "::1", echo.ports["tcp"])
            assert (result["outcome"], result["echo"]) in {("unreachable", None), ("error", None)}
            port = str(echo.ports["control"])
            switch = [*namespace.prefix, *ECHO, "control", "ready=false", "--control", port]
            assert subprocess.run(switch, capture_output=True, check=False).stdout == b"ready=false\n"
    finally:
        namespace.remove()


ECHO = ["python3", "-B", str(Path(__file__).parents[2] / "images" / "echoserver" / "echoserver.py")]


def test_what_a_killed_test_left_is_swept_with_all_that_runs_in_it() -> None:
    with subprocess.Popen(["true"]) as killed:
        killed.wait()
    name = f"esipp-{killed.pid}-left"
    subprocess.run(["ip", "netns", "add", name], check=True)
    with subprocess.Popen(["nsenter", f"--net=/run/netns/{name}", "sh", "-c", "echo in; read x"],
                          stdin=subprocess.PIPE, stdout=subprocess.PIPE) as left:  # fmt: skip
        assert left.stdout is not None
        assert left.stdout.readline() == b"in\n"
        assert left.pid in within(name)
        sweep()
        assert left.wait(PATIENCE) == -signal.SIGKILL
    assert not Path(f"/run/netns/{name}").exists()
