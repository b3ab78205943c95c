"""Resolve jobs of the prober: names by the system's resolver, against a DNS server of our own, and one that hangs."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.echoserver.harness import IMAGE, PATIENCE, EchoServer, Line, Prober, Process
from tests.echoserver.namespaces import NOT_ALLOWED, TOOLS, Namespace, namespaces_work
from tests.tools import require_tool


def resolve(prober: Prober, name: str, family: str = "ipv4", **more: Any) -> list[Line]:
    """The results of a resolve job, once it is done."""
    return prober.take(ask(prober, name, family, **more))


def ask(prober: Prober, name: str, family: str = "ipv4", **more: Any) -> str:
    prober.given += 1
    job = f"name{prober.given}"
    prober.send({"id": job, "protocol": "resolve", "host": name, "family": family, "timeout": PATIENCE, **more})
    return job


def test_localhost(prober: Prober) -> None:
    results = resolve(prober, "localhost", count=3, spacing=0.01)
    assert sorted(result["seq"] for result in results) == [0, 1, 2]
    for result in results:
        assert (result["outcome"], result["addresses"], result["detail"]) == ("answered", ["127.0.0.1"], None)
        assert result["started"] < result["ended"]
        keys = ("echo", "connected", "source_address", "source_port")
        assert [result[key] for key in keys] == [None] * 4


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"host": "127.0.0.1"}, "not an address"),
        ({"host": "127.1"}, "not an address"),
        ({"host": "::1"}, "host is a DNS name"),
        ({"host": ""}, "host is a DNS name"),
        ({"host": "a b"}, "host is a DNS name"),
        ({"host": "ä.example"}, "host is a DNS name"),
        ({"host": "x" * 255}, "host is a DNS name"),
        ({"host": ["a"]}, "host is a DNS name"),
        ({"family": "IPv4"}, "family is ipv4 or ipv6"),
        ({"family": None}, "family is ipv4 or ipv6"),
        ({"family": ["ipv4"]}, "family is ipv4 or ipv6"),
        ({"port": 53}, "not for resolve: port"),
        ({"source_port": 53, "brief": True}, "not for resolve: brief, source_port"),
        ({"source_address": "127.0.0.1"}, "not for resolve: source_address"),
        ({"preamble": "00"}, "preamble is for"),
        ({"path": "/"}, "for http and get only"),
    ],
)
def test_malformed_jobs(prober: Prober, change: dict[str, Any], complaint: str) -> None:
    since = len(prober.lines)
    prober.send({"id": "bad", "protocol": "resolve", "host": "localhost", "family": "ipv4", **change})
    assert complaint in prober.wait_for(lambda line: line.get("id") == "bad", since)["error"]


# ----------------------------------------------------------------------------------------- a DNS server of our own
DNS = """
import ipaddress, json, socket, struct
ZONE = {
    b"web.default.svc.cluster.local": ["10.96.0.20", "10.96.0.3", "fd00:10:96::5"],
    b"four.cluster.local": ["10.96.0.4"],
    b"outside.example": ["192.0.2.7", "2001:db8::7"],
}
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
    sock.bind(("127.0.0.1", 53))
    print(json.dumps({"event": "listening"}), flush=True)
    while True:
        data, peer = sock.recvfrom(4096)
        at, labels = 12, []
        while data[at]:
            labels.append(data[at + 1 : at + 1 + data[at]])
            at += 1 + data[at]
        name, kind = b".".join(labels).lower(), int.from_bytes(data[at + 1 : at + 3], "big")
        print(json.dumps({"asked": name.decode(), "kind": kind}), flush=True)
        if labels[0] == b"mute":
            continue
        code = 2 if labels[0] == b"broken" else 0 if name in ZONE else 3
        found = [ipaddress.ip_address(each) for each in ZONE.get(name, ())]
        found = [each.packed for each in found if each.version == (4 if kind == 1 else 6)]
        answers = b"".join(struct.pack("!HHHIH", 0xC00C, kind, 1, 5, len(each)) + each for each in found)
        head = data[:2] + struct.pack("!HHHHH", 0x8580 | code, 1, len(found), 0, 0)
        sock.sendto(head + data[12 : at + 5] + answers, peer)
"""
RESOLV_CONF = """\
nameserver 127.0.0.1
search default.svc.cluster.local cluster.local
options ndots:5 timeout:30 attempts:1
"""


class Pod:
    """A network namespace with a DNS server and a prober whose /etc/resolv.conf is a pod's."""

    def __init__(self, namespace: Namespace, dns: Process, prober: Prober) -> None:
        self.namespace, self.dns, self.prober = namespace, dns, prober


@pytest.fixture(scope="module")
def pod(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pod]:
    if not namespaces_work():
        pytest.skip(NOT_ALLOWED)
    require_tool(*TOOLS)
    conf = tmp_path_factory.mktemp("pod") / "resolv.conf"
    conf.write_text(RESOLV_CONF)
    own_files = ["unshare", "--mount", "--", "sh", "-c", 'mount --bind "$0" /etc/resolv.conf && exec "$@"', str(conf)]
    if subprocess.run([*own_files, "true"], capture_output=True, check=False).returncode:
        pytest.skip("mounts are not allowed here")
    namespace = Namespace()
    try:
        command = [*namespace.prefix, sys.executable, "-B", "-c", DNS]
        with Process(command) as dns:
            dns.wait_for(lambda _: True)
            with Prober(prefix=[*namespace.prefix, *own_files]) as prober:
                yield Pod(namespace, dns, prober)
                assert [line for line in (*prober.lines, *dns.lines) if "not json" in line] == []
    finally:
        namespace.remove()


@pytest.mark.parametrize(
    ("name", "family", "addresses"),
    [
        ("web", "ipv4", ["10.96.0.20", "10.96.0.3"]),
        ("web", "ipv6", ["fd00:10:96::5"]),
        ("web.default.svc.cluster.local", "ipv4", ["10.96.0.20", "10.96.0.3"]),
        ("WEB.default.svc.cluster.local.", "ipv6", ["fd00:10:96::5"]),
        ("four", "ipv4", ["10.96.0.4"]),
        ("outside.example", "ipv6", ["2001:db8::7"]),
    ],
)
def test_search_domains_and_families_hold(pod: Pod, name: str, family: str, addresses: list[str]) -> None:
    (result,) = resolve(pod.prober, name, family)
    assert (result["outcome"], result["addresses"], result["detail"]) == ("answered", addresses, None)


@pytest.mark.parametrize(
    ("name", "family", "codes"),
    [
        ("nobody.example.", "ipv4", ("EAI_NONAME",)),
        ("nobody", "ipv6", ("EAI_NONAME",)),
        ("four.cluster.local.", "ipv6", ("EAI_NODATA", "EAI_NONAME", "EAI_ADDRFAMILY")),
        ("broken.example.", "ipv4", ("EAI_AGAIN",)),
        ("a..b", "ipv4", ("EAI_NONAME", "EAI_FAIL")),
        ("x" * 64 + ".example.", "ipv4", ("EAI_NONAME", "EAI_FAIL")),
    ],
)
def test_names_without_an_address(pod: Pod, name: str, family: str, codes: tuple[str, ...]) -> None:
    (result,) = resolve(pod.prober, name, family)
    assert (result["outcome"], result["addresses"]) == ("unresolved", []), result
    code, _, words = result["detail"].partition(": ")
    assert code in codes
    assert len(words) > 5, "the resolver's own"


def test_every_lookup_asks_anew(pod: Pod) -> None:
    since = len(pod.dns.lines)
    assert len(resolve(pod.prober, "outside.example.", count=5)) == 5
    assert len(resolve(pod.prober, "four.cluster.local.")) == 1
    pod.dns.wait_for(lambda line: line.get("asked") == "four.cluster.local", since)  # so it has said all before that
    asked = [line for line in pod.dns.lines[since:] if line.get("asked") == "outside.example"]
    assert [line["kind"] for line in asked] == [1] * 5


def test_a_dns_server_that_is_silent_is_a_timeout(pod: Pod) -> None:
    results = resolve(pod.prober, "mute.example.", count=3, timeout=0.3)
    assert [(each["outcome"], each["detail"], each["addresses"]) for each in results] == [
        ("timeout", "no answer", [])
    ] * 3
    (result,) = resolve(pod.prober, "four")
    assert result["outcome"] == "answered"


# ------------------------------------------------------------------------------------------- a resolver that hangs
HANGING = """
import os, socket, sys, time
sys.path.insert(0, sys.argv.pop(1))
import prober
released = sys.argv.pop(1)
real = socket.getaddrinfo
def getaddrinfo(name, *more):
    if name == b"odd":
        raise MemoryError("odd")
    while name == b"hangs" and not os.path.exists(released):
        time.sleep(0.01)
    return real(b"localhost", *more)
socket.getaddrinfo = getaddrinfo
sys.exit(prober.main())
"""


class Hanging(Prober):
    """A prober whose resolver hangs for the name ``hangs`` until it is released."""

    def __init__(self, folder: Path) -> None:
        self.released = folder / "released"
        command = [sys.executable, "-B", "-c", HANGING, str(IMAGE), str(self.released)]
        Process.__init__(self, command, {"PATH": os.environ["PATH"]})
        self.about = self.wait_for(lambda line: line.get("event") == "ready")
        self.given = 0


def test_a_resolver_that_hangs_holds_up_nobody(tmp_path: Path) -> None:
    with EchoServer() as server, Hanging(tmp_path) as prober:
        job = ask(prober, "hangs", count=20)
        results = prober.take(prober.give("tcp", "127.0.0.1", server.ports["tcp"], count=20))
        assert {result["outcome"] for result in results} == {"answered"}
        assert resolve(prober, "localhost")[0]["addresses"] == ["127.0.0.1"]
        assert not [line for line in prober.lines if line.get("id") == job]
        began = time.monotonic()
        assert prober.process.stdin is not None
        prober.process.stdin.close()
        assert prober.exit_code() == 0
        assert time.monotonic() - began < PATIENCE / 2, "it does not wait for the resolver"


def test_where_all_threads_hang_the_next_names_are_not_held_against_them(tmp_path: Path) -> None:
    with Hanging(tmp_path) as prober:
        assert {each["outcome"] for each in resolve(prober, "hangs", count=64, timeout=0.2)} == {"timeout"}
        (result,) = resolve(prober, "localhost", timeout=0.2)
        assert (result["outcome"], result["addresses"]) == ("error", [])
        assert result["detail"] == "not asked: 64 lookups before it have no answer"
        waits = ask(prober, "localhost", count=100, parallel=3)
        cancelled = ask(prober, "localhost", count=3)
        prober.send({"cancel": cancelled})
        assert prober.wait_for(lambda line: line.get("id") == cancelled)["cancelled"]
        prober.released.touch()
        assert {each["outcome"] for each in prober.take(waits)} == {"answered"}
        assert {each["outcome"] for each in resolve(prober, "hangs", count=100)} == {"answered"}


def test_a_cancelled_lookup_tells_nothing_when_it_comes_back(tmp_path: Path) -> None:
    with Hanging(tmp_path) as prober:
        job = ask(prober, "hangs", count=2)
        assert resolve(prober, "localhost")[0]["outcome"] == "answered"
        prober.send({"cancel": job})
        done = prober.wait_for(lambda line: line.get("id") == job)
        assert done == {"id": job, "done": True, "probes": 0, "cancelled": True}
        prober.released.touch()
        assert len(resolve(prober, "hangs", count=70)) == 70
        assert [line for line in prober.lines if line.get("id") == job] == [done]


def test_what_is_wrong_with_the_resolver_itself_is_our_own_trouble(tmp_path: Path) -> None:
    with Hanging(tmp_path) as prober:
        results = resolve(prober, "odd", count=100)
        assert {(each["outcome"], each["detail"]) for each in results} == {("error", "MemoryError('odd')")}
