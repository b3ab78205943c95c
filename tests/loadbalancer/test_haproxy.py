"""HAProxy's configuration, what a reload tells a new worker, and what is made of what HAProxy says."""

import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from esipp.base.json import Json
from images.loadbalancer.balancer.checks import Target
from images.loadbalancer.balancer.decisions import Decisions
from images.loadbalancer.balancer.faults import FAULTS
from images.loadbalancer.balancer.haproxy import HAProxy, with_new_servers
from images.loadbalancer.balancer.haproxy_config import Proxied, log_socket, proxied, render
from images.loadbalancer.balancer.objects import Mode, Node, Service, node_of, service_of
from tests.loadbalancer.objects import OWN, node_object, service_object, settings
from tests.tools import needs_tool

PORTS = [
    {"protocol": "UDP", "port": 53, "nodePort": 30053},
    {"protocol": "TCP", "port": 80, "nodePort": 30080, "appProtocol": "http"},
    {"protocol": "TCP", "port": 81, "nodePort": 30081},
]
VIPS = {"IPv4": ["192.0.2.10", "192.0.2.11"], "IPv6": ["2001:db8::10"]}
PROXIES = [mode for mode in Mode if not mode.forwards]


def nodes() -> dict[str, Node]:
    made = [node_of(node_object(f"n{number}", f"10.0.0.{number}", f"fd00::{number}")) for number in (1, 2)]
    return {node.name: node for node in made}


def service(mode: Mode = Mode.PROXY, **spec: Json) -> Service:
    made = service_of(service_object(mode=mode.value, ports=PORTS, **spec))
    assert made
    return made


def served(mode: Mode = Mode.PROXY) -> list[Proxied]:
    return proxied({service(mode): VIPS}, nodes())


def rendered(mode: Mode = Mode.PROXY, *faults: str) -> str:
    return render(served(mode), OWN, settings(Path("/run/balancer"), faults, period=1.5, timeout=0.7, unhealthy=3))


def block(text: str, head: str) -> list[str]:
    """The lines of one section."""
    after = text.split(f"\n{head}\n", 1)[1].splitlines()
    return [line.strip() for line in after[: next((i for i, x in enumerate(after) if x[0] != " "), len(after))]]


def test_the_first_port_of_each_family_is_checked_and_the_others_follow() -> None:
    text = rendered()
    assert block(text, "backend test.web.IPv4.80") == [
        "source 192.0.2.1",
        "log global",
        "option log-health-checks",
        "option httpchk",
        "http-check send meth GET uri /healthz ver HTTP/1.1 hdr Host esipp-reference",
        "http-check expect status 200",
        "default-server inter 1500ms rise 1 fall 3",
        "server n1 10.0.0.1:30080 check port 31000",
        "server n2 10.0.0.2:30080 check port 31000",
    ]
    assert block(text, "backend test.web.IPv6.81") == [
        "source [2001:db8::1]",
        "server n1 [fd00::1]:30081 track test.web.IPv6.80/n1",
        "server n2 [fd00::2]:30081 track test.web.IPv6.80/n2",
    ]
    assert block(text, "frontend test.web.IPv6.80") == ["bind [2001:db8::10]:80", "default_backend test.web.IPv6.80"]
    assert block(text, "frontend test.web.IPv4.80")[:2] == ["bind 192.0.2.10:80", "bind 192.0.2.11:80"]
    assert "timeout check 700ms" in text
    assert ".53" not in text  # UDP is not served


@pytest.mark.parametrize(
    ("mode", "port_80", "port_81"),
    [
        (Mode.PROXY, "", ""),
        (Mode.PROXY_V1, " send-proxy", " send-proxy"),
        (Mode.PROXY_V2, " send-proxy-v2", " send-proxy-v2"),
        (Mode.PROXY_XFF, "", ""),
    ],
)
def test_how_the_client_is_reported(mode: Mode, port_80: str, port_81: str) -> None:
    text = rendered(mode)
    for port, reported in ((80, port_80), (81, port_81)):
        assert block(text, f"backend test.web.IPv4.{port}")[-1].endswith(("31000" if port == 80 else "/n2") + reported)
    forwarded = ["option forwardfor" in block(text, f"backend test.web.IPv4.{port}") for port in (80, 81)]
    assert forwarded == [mode is Mode.PROXY_XFF, False]


def test_what_cannot_be_served_is_left_out() -> None:
    only_udp = service_of(service_object(mode="reference-proxy", ports=PORTS[:1]))
    unchecked = service_of(service_object(mode="reference-proxy", healthCheckNodePort=0))
    assert only_udp
    assert unchecked
    assert proxied({only_udp: VIPS, unchecked: VIPS}, nodes()) == []


@pytest.mark.parametrize(
    ("fault", "mode", "there", "gone"),
    [
        ("ignore-health", Mode.PROXY, "server n1 10.0.0.1:30080\n", "check port"),
        ("keep-one", Mode.PROXY, "fall 1000000", "fall 3"),
        ("slow", Mode.PROXY, "inter 15000ms", "inter 1500ms"),
        ("forge-xff", Mode.PROXY_XFF, "set-header X-Forwarded-For 192.0.2.1", "forwardfor"),
        ("drop-xff", Mode.PROXY_XFF, "mode http", "forwardfor"),
        ("wrong-proxy-header", Mode.PROXY_V2, "set-src str(2001:db8::1)", "forwardfor"),
        ("drop-proxy-header", Mode.PROXY_V2, "check port 31000\n", "send-proxy"),
        ("wrong-path", Mode.PROXY, "uri /livez ver", "uri /healthz"),
        ("hang", Mode.PROXY, "silent-drop if { rand(12) eq 0 }", "set-src"),
        ("unequal", Mode.PROXY, "server n2 10.0.0.2:30080 check port 31000 weight 4\n", "weight 1"),
    ],
)
def test_faults(fault: str, mode: Mode, there: str, gone: str) -> None:
    text = rendered(mode, fault)
    assert there in text
    assert gone not in text


@needs_tool("haproxy")
@pytest.mark.parametrize("mode", PROXIES)
@pytest.mark.parametrize("fault", [None, *FAULTS])
def test_haproxy_accepts_it(tmp_path: Path, mode: Mode, fault: str | None) -> None:
    path = tmp_path / "haproxy.cfg"
    path.write_text(rendered(mode, *([fault] if fault else [])).replace("/run/balancer", str(tmp_path)))
    checked = subprocess.run(["haproxy", "-c", "-f", str(path)], capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stderr
    complaints = [x for x in checked.stderr.splitlines() if "[WARNING]" in x or "[ALERT]" in x]
    assert [x for x in complaints if "server-state" not in x and "servers.state" not in x] == []


HEAD = "1\n# be_id be_name srv_id srv_name …\n"
KNOWN = "3 test.web.IPv4.80 1 n1 {address} 2 0 1 1 9 15 3 2 6 0 0 0 - {port} - 0 {check_port} - - 0"


def test_a_new_worker_gets_what_is_known_and_that_the_rest_is_down() -> None:
    [check_port] = {one.service.check_port for one in served()}
    known = KNOWN.format(address="10.0.0.1", port=30080, check_port=check_port)
    lines = with_new_servers(HEAD + known, served()).splitlines()
    assert lines[:2] == HEAD.splitlines()
    assert known in lines
    states = {tuple(line.split()[1:4:2]): line.split()[5] for line in lines[2:]}
    every = {(f"test.web.{family}.{port}", node) for family in VIPS for port in (80, 81) for node in ("n1", "n2")}
    assert set(states) == every
    assert {where for where, state in states.items() if state != "0"} == {("test.web.IPv4.80", "n1")}
    assert len(with_new_servers("", served()).splitlines()) == 2 + len(every)


def test_a_health_port_that_has_changed_is_not_handed_on_from_the_last_worker() -> None:
    changed = proxied({service(externalTrafficPolicy="Cluster"): VIPS}, nodes())
    assert {one.service.check_port for one in changed} == {10256}
    known = KNOWN.format(address="10.0.0.9", port=30079, check_port=32000)
    lines = with_new_servers(HEAD + known, changed).splitlines()
    assert lines[2] == KNOWN.format(address="10.0.0.1", port=30080, check_port=10256)
    ports = {(line.split()[1], line.split()[21]) for line in lines[2:]}
    asked = {(f"test.web.{family}.80", "10256") for family in VIPS}
    assert ports == asked | {(f"test.web.{family}.81", "0") for family in VIPS}
    kept = with_new_servers(HEAD + known, changed, keeps_ports=True).splitlines()[2]
    assert kept == KNOWN.format(address="10.0.0.1", port=30080, check_port=32000)


def test_what_is_served_no_more_is_forgotten() -> None:
    assert with_new_servers(HEAD + KNOWN.format(address="10.0.0.1", port=30080, check_port=1), []) == HEAD


@pytest.fixture
def decisions() -> Decisions:
    return Decisions()


@pytest.fixture
def haproxy(tmp_path: Path, decisions: Decisions) -> Iterator[HAProxy]:
    """Without a program, so that only what it would say counts."""
    made = HAProxy(settings(tmp_path), OWN, decisions, program=str(tmp_path / "none"))
    made._adopt(served())
    yield made
    made.close()


def until(wanted: Callable[[], bool]) -> None:
    end = time.monotonic() + 10
    while not wanted():
        assert time.monotonic() < end
        time.sleep(0.005)


def test_what_it_logs_is_a_decision_at_that_moment(haproxy: HAProxy, decisions: Decisions, tmp_path: Path) -> None:
    target = Target(("test", "web"), "uid-web", "IPv4", "n2")
    health = haproxy.health(target)
    assert health
    assert not health.healthy
    began = time.monotonic()
    server = "server test.web.IPv4.80/n2"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        sock.connect(str(log_socket(tmp_path)))
        for line in (
            f"Health check for {server} succeeded, reason: Layer7 check passed, code: 200, check duration: 1ms",
            f"S{server[1:]} is UP. 1 active and 0 backup servers online.",
            "Server test.web.IPv4.81/n2 is UP via test.web.IPv4.80/n2.",  # it tracks: no news
            "Server test.gone.IPv4.80/n2 is UP.",
            f"Health check for {server} failed, reason: Layer4 timeout, check duration: 1001ms, status: 0/1 DOWN.",
            f"S{server[1:]} is DOWN. 0 active and 0 backup servers left.",
        ):
            sock.send(line.encode())
    until(lambda: decisions.last == 4)
    decided = [(d["kind"], d.get("nodes", d.get("healthy")), d["why"]) for d in decisions.after(0, 0)[0]]
    assert decided == [
        ("health", True, "status 200"),
        ("steer", ["n2"], "n2 became healthy"),
        ("health", False, "Layer4 timeout"),
        ("steer", [], "n2 became unhealthy"),
    ]
    assert all(began <= d["monotonic"] <= time.monotonic() for d in decisions.after(0, 0)[0])


def test_a_program_that_cannot_be_started_is_reported_and_tried_no_faster_than_it_should(
    haproxy: HAProxy, capfd: pytest.CaptureFixture[str]
) -> None:
    haproxy.serve({service(): VIPS}, nodes())
    shown = ""

    def reported() -> bool:
        nonlocal shown
        shown += capfd.readouterr().err
        return "haproxy:" in shown

    until(reported)
