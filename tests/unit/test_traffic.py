"""Steady streams of one prober: started, redirected, stopped; what came in is in order on our clock."""

import json
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

import pytest

from esipp.base.clock import Clock
from esipp.base.errors import HarnessError
from esipp.judging.timeline import SENT, read_arrived
from esipp.probing.prober import ASKS, Job, Pace, Target, Traffic, steady
from suites.streams import BULK, DATAGRAMS, SCTP_PORT, TCP_LASTING, UDP_NEW, UDP_ONE_WAY, UDP_SOCKET

PACE = Pace(0.1, 0.9)
HEALTH = Target("192.0.2.1", 31000)


@dataclass
class Running:
    """A job that runs; ``gone`` is a prober that died meanwhile."""

    job: Job
    sink: Callable[[dict[str, Any]], None]
    cancelled: bool = False
    waited: bool = False
    gone: bool = False

    def cancel(self) -> None:
        self.cancelled = True

    def wait(self, _seconds: float) -> None:
        self.waited = True
        if self.gone:
            raise HarnessError("the prober is gone.")

    def says(self, seq: int, started: float, outcome: str = "answered", **more: Any) -> None:
        self.sink({"seq": seq, "started": started, "ended": started + 0.01, "outcome": outcome, **more})


class FakeProber:
    def __init__(self) -> None:
        self.running: list[Running] = []

    def stream(self, job: Job, sink: Callable[[dict[str, Any]], None]) -> Running:
        self.running.append(Running(job, sink))
        return self.running[-1]


def made() -> tuple[Traffic, FakeProber]:
    prober: Any = FakeProber()
    return Traffic(prober, Clock(100.0, 0.001)), prober


def test_results_are_on_our_clock_and_in_order_once_stopped() -> None:
    traffic, prober = made()
    stream = traffic.connect("a way", Target("192.0.2.9", 80), PACE)
    (running,) = prober.running
    assert (running.job.protocol, running.job.host, running.job.port) == ("tcp", "192.0.2.9", 80)
    assert (running.job.spacing, running.job.timeout, stream.spacing) == (0.1, 0.9, 0.1)
    running.says(1, 101.1)
    running.says(0, 101.0, "timeout", detail="no SYN-ACK")
    traffic.stop_all()
    assert running.cancelled
    assert running.waited
    assert [(each.seq, each.started) for each in stream.samples] == [(0, 1.0), (1, pytest.approx(1.1))]
    assert traffic.details == {("a way", 0): "no SYN-ACK"}


def test_whole_requests_to_echo_servers_are_kept_if_packets_are_to_follow_them() -> None:
    prober: Any = FakeProber()
    traffic = Traffic(prober, Clock(100.0, 0.001), observations={})
    traffic.connect("a way", Target("192.0.2.9", 80), PACE)
    traffic.check_health("a health check", HEALTH, PACE)
    way, health = prober.running
    way.says(3, 101.0, "timeout", source_address="192.0.2.7", source_port=40000, nonce="a:1:3")
    health.says(0, 101.0, "refused")
    assert traffic.observations is not None
    (kept,) = traffic.observations.items()
    assert kept[0] == ("a way", 3)
    assert (kept[1].source, kept[1].dialled, kept[1].nonce) == (("192.0.2.7", 40000), ("192.0.2.9", 80), "a:1:3")
    assert made()[0].observations is None


def test_one_stream_is_stopped_and_the_others_go_on() -> None:
    traffic, prober = made()
    first, second = (traffic.connect(name, Target("192.0.2.9", 80), PACE) for name in "ab")
    traffic.stop([])
    assert not any(each.cancelled for each in prober.running), "none of them is not all of them"
    traffic.stop([first])
    assert [each.cancelled for each in prober.running] == [True, False]
    assert (first.frozen, second.frozen) == (True, False)
    traffic.stop([first, second])
    assert second.frozen


def test_health_checks_go_on_at_another_port_in_the_same_stream() -> None:
    traffic, prober = made()
    stream = traffic.check_health("health", HEALTH, PACE)
    other = traffic.check_health("another service's", Target("192.0.2.1", 32000), PACE)
    same_port = traffic.connect("a nodePort", HEALTH, PACE)
    traffic.redirect(31000, 31001)
    old, *_, new = prober.running
    assert (old.cancelled, new.job.port, new.job.key) == (True, 31001, "health")
    assert len(prober.running) == 4, "only health checks, and only at that port"
    new.says(0, 101.0, response={"status": 503})
    assert [each.outcome for each in stream.samples] == ["503"]
    traffic.redirect(31001, 31002)
    traffic.redirect(31000, 31003)
    assert [each.job.port for each in prober.running[3:]] == [31001, 31002]
    traffic.stop_all()
    assert all(each.cancelled and each.waited for each in prober.running)
    assert all(each.frozen for each in (stream, other, same_port))


def test_a_prober_that_is_gone_leaves_streams_in_order() -> None:
    traffic, prober = made()
    stream = traffic.connect("a", Target("192.0.2.9", 80), PACE)
    prober.running[0].gone = True
    with pytest.raises(HarnessError):
        traffic.stop_all()
    assert stream.frozen


def test_lines_can_go_to_a_function() -> None:
    traffic, prober = made()
    lines: list[int] = []
    traffic.follow(steady("n", "lasting", HEALTH, PACE, 7), lambda line: lines.append(line["seq"]))
    assert prober.running[0].job.count == 7
    prober.running[0].says(3, 1.0)
    traffic.stop_all()
    assert lines == [3]
    assert prober.running[0].waited


def test_every_kind_of_stream_is_a_job() -> None:
    traffic, prober = made()
    for kind in (UDP_SOCKET, UDP_ONE_WAY, SCTP_PORT, BULK[0], DATAGRAMS[1], UDP_NEW, TCP_LASTING):
        traffic.send(kind, kind.name, Target("192.0.2.9", 80))
    orders = {each.job.key: each.job.order("x") for each in prober.running}
    assert (orders["udp-socket"]["protocol"], orders["udp-socket"]["one_socket"]) == ("udp", True)
    assert (orders["udp-one-way"]["one_way"], "one_socket" in orders["udp-one-way"]) == (True, False)
    assert (orders["sctp-port"]["protocol"], orders["sctp-port"]["spacing"]) == ("sctp", 0.5)
    assert (orders["bulk-1mb"]["protocol"], orders["bulk-1mb"]["size"]) == ("bulk", 1_000_000)
    assert (orders["udp-mtu"]["size"], "size" in orders["udp-new"]) == ("mtu", False)
    assert orders["tcp-lasting"]["protocol"] == "lasting"
    assert all("token" in job for job in orders.values())


class Backend:
    """A prober that reaches a pod, and what the pod says."""

    def __init__(self, document: dict[str, Any], silent: int = 0) -> None:
        self.asked: list[Job] = []
        self.document, self.silent = document, silent

    def ask(self, job: Job) -> Future[list[dict[str, Any]]]:
        self.asked.append(job)
        answer: Future[list[dict[str, Any]]] = Future()
        said = {"response": {"status": 200, "body": json.dumps(self.document)}}
        answer.set_result([{"detail": "not connected"} if len(self.asked) <= self.silent else said])
        return answer


def test_datagrams_that_nobody_answers_are_those_that_pods_have_counted() -> None:
    traffic, prober = made()
    stream = traffic.send(UDP_ONE_WAY, "one way", Target("192.0.2.9", 80))
    for seq in range(5):
        prober.running[0].says(seq, 101.0 + seq / 10, "sent", nonce=f"af:one:{seq}")
    backend: Any = Backend({"pod": "a1", "senders": [{"address": "192.0.2.7", "port": 5, "arrived": [[0, 1], [4, 4]]}]})
    traffic.ask_arrived(backend, Target("10.0.0.1", 8080), "a")
    assert backend.asked[0].url.endswith("/af:one")
    assert {sample.outcome for sample in stream.samples} == {SENT}
    traffic.stop_all()
    assert [sample.outcome for sample in stream.samples] == ["answered", "answered", "timeout", "timeout", "answered"]
    assert stream.samples[4][4:] == ("a1", "a", "192.0.2.7")


@pytest.mark.parametrize("silent", [0, ASKS - 1, ASKS])
def test_a_pod_that_does_not_say_what_it_counted_is_asked_again(silent: int) -> None:
    traffic, prober = made()
    stream = traffic.send(UDP_ONE_WAY, "one way", Target("192.0.2.9", 80))
    prober.running[0].says(0, 101.0, "sent", nonce="af:one:0")
    senders = [{"address": "192.0.2.7", "port": 5, "arrived": [[0, 0]]}]
    backend: Any = Backend({"pod": "a1", "senders": senders}, silent)
    if silent == ASKS:
        with pytest.raises(HarnessError, match="asked 3 times: not connected"):
            traffic.ask_arrived(backend, Target("10.0.0.1", 8080), "a")
    else:
        traffic.ask_arrived(backend, Target("10.0.0.1", 8080), "a")
    traffic.stop_all()
    assert [sample.outcome for sample in stream.samples] == ["timeout" if silent == ASKS else "answered"]
    assert len(backend.asked) == min(silent + 1, ASKS)


@pytest.mark.parametrize("said", [{"detail": "not connected"}, {"response": {"status": 200, "body": '{"senders": ['}}])
def test_a_pod_that_cannot_say_what_it_counted_is_an_error(said: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"not connected|Expecting"):
        read_arrived(said, "a")
