"""Our side of the prober's protocol, against probers that do what they should not, and one that is real."""

import ipaddress
import itertools
import json
import socket
import statistics
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import replace
from pathlib import Path as File
from typing import Any

import pytest

from esipp.base.errors import HarnessError
from esipp.checks.catalog import HOUSE
from esipp.checks.model import Claim, Client, Family, Outcome, Port, Protocol, Role, Vantage
from esipp.judging.link_owners import ANSWERED_WITHIN, LinkAnswer
from esipp.judging.observation import Observation
from esipp.ledger.codec import read_record, record_of
from esipp.probing import prober as module
from esipp.probing import vantages
from esipp.probing.prober import CLAIMED, Job, Prober, job_on, read_result, read_who_has, who_has
from tests.unit.world import by_id

PATH = by_id("nodeport.local.tcp.ipv4.outside-1-to-endpoint-node").subject.path
FAKE = File(__file__).with_name("fake_prober.py")
PROXY_V2_SIGNATURE = bytes.fromhex("0d0a0d0a000d0a515549540a")


@contextmanager
def prober(mode: str) -> Iterator[Prober]:
    made = Prober("outside-1", [sys.executable, "-B", str(FAKE), mode])
    try:
        yield made
    finally:
        made.close()


def job(count: int = 2) -> Job:
    return Job(PATH.key, "tcp", "192.0.2.9", 80, count, timeout=1.0)


def results(given: Job) -> list[Observation]:
    with prober("well") as made:
        made.hello()
        return made.submit(given).result(timeout=10)


def test_results_become_observations() -> None:
    with prober("well") as made:
        assert made.hello()["addresses"] == ["192.0.2.1", "2001:db8::1"]
        seen = made.submit(job(3)).result(timeout=10)
    assert [each.seq for each in seen] == [0, 1, 2]
    assert seen[1].path == PATH.key
    assert seen[1].source == ("192.0.2.1", 4001)
    assert seen[1].seen == ("192.0.2.1", 4001)
    assert seen[1].dialled == ("192.0.2.9", 80)
    assert seen[1].backend == "backend"
    assert seen[1].nonce == "n1"
    assert seen[1].port_pairs == ((4001, 4001),)
    assert (seen[1].count, seen[1].tag) == (1, None)


def test_groups_of_a_brief_job_become_one_observation_each() -> None:
    most, lost = results(replace(job(200), brief=True))
    assert (most.count, lost.count) == (199, 1)
    assert (most.outcome, lost.outcome) == (Outcome.ANSWERED, Outcome.TIMEOUT)
    assert most.source == most.seen == ("192.0.2.1", 4000)
    assert len(most.port_pairs) == 199
    assert most.port_pairs[:2] == ((4000, 4000), (4001, None))
    assert (lost.seen, lost.port_pairs) == (None, ((4999, None),))
    assert most.connected is not None
    assert lost.connected is None, "it was never connected"
    assert most.nonce == lost.nonce == ""


def test_groups_tell_when_each_of_their_probes_began_and_ended() -> None:
    line = {
        "brief": True,
        "outcome": "timeout",
        "count": 2,
        "started": 1.0,
        "ended": 13.0,
        "source_address": "192.0.2.1",
    }
    line |= {"ports": [[4000, None], [4001, None]], "moments": [[1.0, 11.0], [3.0, 13.0]]}
    seen = read_result(job(2), line)
    assert seen.spans == ((1.0, 11.0), (3.0, 13.0))
    assert read_record(json.loads(json.dumps(record_of(seen))), Observation) == seen
    assert replace(seen, moments=()).spans == (), "of a group whose times nobody kept"
    assert "moments" not in record_of(replace(seen, moments=()))
    one = read_result(job(1), {"outcome": "timeout", "started": 1.0, "ended": 11.0})
    assert one.spans == ((1.0, 11.0),)


def test_a_probe_that_its_own_host_did_not_let_begin_has_no_port() -> None:
    line = {"brief": True, "outcome": "unreachable", "detail": "EPERM: Operation not permitted (at once)", "count": 2}
    seen = read_result(job(2), line | {"source_address": None, "ports": [[None, None], [None, None]]})
    assert (seen.outcome, seen.count, seen.source) == (Outcome.UNREACHABLE, 2, None)


def test_one_socket_and_sctp_tags_are_kept() -> None:
    seen = results(replace(job(3), protocol="udp", one_socket=True))
    assert {each.port_pairs for each in seen} == {((4000, 4000),)}
    assert [each.tag for each in results(replace(job(2), protocol="sctp"))] == [7, 8]


@pytest.mark.parametrize(
    ("mode", "words"),
    [("dead", "no such image"), ("newer", "has protocol version 9; this suite needs 8")],
)
def test_a_prober_that_does_not_start_right_is_reported(mode: str, words: str) -> None:
    with prober(mode) as made, pytest.raises(HarnessError, match=words):
        made.hello()


def test_what_kubectl_complains_of_is_reported_without_its_log_header() -> None:
    with prober("kubectl") as made, pytest.raises(HarnessError) as gone:
        made.hello()
    assert gone.value.sentence == "The prober of outside-1 is gone: it ended. Its last output: websocket: close 1006"


def test_a_mute_prober_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "START_SECONDS", 0.2)
    with prober("mute") as made, pytest.raises(HarnessError, match="did not start within"):
        made.hello()


@pytest.mark.parametrize(
    ("mode", "words"),
    [("dies-at-work", "is gone"), ("garbles", "unreadable"), ("counts", "unreadable"), ("refuses", "no such protocol")],
)
def test_a_prober_that_fails_at_work_fails_its_jobs(mode: str, words: str) -> None:
    with prober(mode) as made:
        made.hello()
        with pytest.raises(HarnessError, match=words):
            made.submit(job()).result(timeout=10)


def test_a_prober_that_says_nothing_any_more_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PULSE_SECONDS", 0.02)
    monkeypatch.setattr(module, "SILENT_SECONDS", 0.2)
    with prober("holds") as made:
        made.hello()
        with pytest.raises(HarnessError, match="not even to a liveness request"):
            made.submit(job()).result(timeout=60)


def test_whoever_writes_to_one_that_reads_nothing_any_more_is_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PULSE_SECONDS", 0.02)
    monkeypatch.setattr(module, "SILENT_SECONDS", 0.2)
    deaf = Prober("x", ["sleep", "600"])
    writing = threading.Thread(target=lambda: [deaf.submit(job()) for _ in range(3000)], daemon=True)
    writing.start()  # more than a pipe holds
    writing.join(timeout=60)
    over = not writing.is_alive()
    deaf._process.kill()
    deaf.close()
    assert over, "it waited for somebody to read"


def test_a_prober_that_is_slow_and_lives_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PULSE_SECONDS", 0.02)
    with prober("lives") as made:
        made.hello()
        under_way, before = made.submit(job()), made._last_event
        wait_until(lambda: made._last_event > before + 0.2)
        assert not under_way.done()


def test_a_job_for_a_dead_prober_fails_at_once() -> None:
    with prober("dies-at-work") as made:
        made.hello()
        with pytest.raises(HarnessError):
            made.submit(job()).result(timeout=10)
        with pytest.raises(HarnessError, match="is gone"):
            made.submit(job()).result(timeout=10)


def test_a_command_that_is_not_there_is_reported() -> None:
    with pytest.raises(HarnessError, match="Cannot start"):
        Prober("x", ["/nowhere/prober"])


# ------------------------------------------------------------------------------------------------------- what is asked
def order(given: Job) -> dict[str, Any]:
    return given.order("7")


def test_an_order_has_only_what_was_asked_for() -> None:
    plain = order(job())
    assert sorted(plain) == ["count", "host", "id", "port", "protocol", "spacing", "timeout", "token"]
    full = order(replace(job(), parallel=8, brief=True, one_socket=True, preamble=b"\x0d\x0a"))
    added = {"parallel": 8, "brief": True, "one_socket": True, "preamble": "0d0a"}
    assert full == {**plain, **added}
    http = order(replace(job(), protocol="http", url="/clientip", headers={"X": "y"}))
    assert (http["path"], http["headers"]) == ("/clientip", {"X": "y"})
    assert "method" not in http
    lasting = order(replace(job(), protocol="lasting", spacing=0.1))
    assert lasting == {**plain, "protocol": "lasting", "spacing": 0.1}
    resolve = order(Job("names", "resolve", "web.default", 0, 1, timeout=1.0, family=Family.IPV6))
    assert (resolve["host"], resolve["family"]) == ("web.default", "ipv6")
    assert "port" not in resolve
    assert "token" not in resolve
    get = order(replace(job(), protocol="get", url="/healthz", method="HEAD"))
    assert (get["path"], get["headers"], get["method"]) == ("/healthz", {}, "HEAD")
    assert "token" not in get, "others than echo servers are asked"


def test_an_order_goes_over_as_it_is() -> None:
    with prober("echoes") as made:
        made.hello()
        (seen,) = made.submit(job()).result(timeout=10)
    assert json.loads(seen.detail) == order(job()) | {"id": "1"}


@pytest.mark.parametrize("protocol", Protocol)
def test_a_path_is_spoken_in_its_own_protocol(protocol: Protocol) -> None:
    made = job_on(replace(PATH, protocol=protocol), "192.0.2.9", 80, 5, 1.0)
    assert (made.key, made.protocol, made.count) == (replace(PATH, protocol=protocol).key, protocol.value.lower(), 5)
    assert job_on(replace(PATH, port=Port.HTTP), "192.0.2.9", 80, 5, 1.0).protocol == "http"
    assert job_on(replace(PATH, one_socket=True), "192.0.2.9", 80, 5, 1.0).one_socket
    on_a_node = replace(PATH, client=Client("host-on-other-node", Vantage.NODE, Role.OTHER_NODE))
    given = replace(job_on(on_a_node, "192.0.2.9", 80, 5, 1.0), wide=7, linger=0.1).order("a")
    assert (given["wide"], given["spare"]) == (7, (30000, 32767))
    assert "linger" not in given  # of TCP, what comes twice is the kernel's business


def test_a_forged_header_claims_nobodys_address() -> None:
    forged = job_on(replace(PATH, port=Port.HTTP, claim=Claim.FORWARDED_FOR), "192.0.2.9", 80, 1, 1.0)
    assert forged.headers == {"X-Forwarded-For": CLAIMED}
    assert forged.preamble == b""


@pytest.mark.parametrize("family", Family)
def test_a_forged_proxy_protocol_header_is_well_formed(family: Family) -> None:
    first = job_on(replace(PATH, family=family, claim=Claim.PROXY_V1), "192.0.2.9", 80, 1, 1.0).preamble
    words = first.decode().removesuffix("\r\n").split(" ")
    assert words[:2] == ["PROXY", "TCP4" if family is Family.IPV4 else "TCP6"]
    assert ipaddress.ip_address(words[2]).version == ipaddress.ip_address(words[3]).version
    second = job_on(replace(PATH, family=family, claim=Claim.PROXY_V2), "192.0.2.9", 80, 1, 1.0).preamble
    assert second[:12] == PROXY_V2_SIGNATURE
    assert second[12] == 0x21, "version 2, command PROXY"
    assert second[13] == (0x11 if family is Family.IPV4 else 0x21)
    assert int.from_bytes(second[14:16], "big") == len(second) - 16
    size = 4 if family is Family.IPV4 else 16
    assert str(ipaddress.ip_address(second[16 : 16 + size])) == words[2]


# ------------------------------------------------------------------------------------------------------- the real one
@contextmanager
def real() -> Iterator[Prober]:
    made = Prober("local", vantages.local(HOUSE / "images" / "echoserver" / "prober.py"))
    try:
        made.hello()
        yield made
    finally:
        made.close()


def test_the_real_prober_speaks_the_same_protocol() -> None:
    with real() as made:
        seen = made.submit(Job(PATH.key, "tcp", "127.0.0.1", 1, 3, timeout=1.0)).result(timeout=10)
    assert [each.outcome for each in seen] == [Outcome.REFUSED] * 3
    assert {each.path for each in seen} == {PATH.key}


def test_the_real_prober_tells_equal_results_as_one() -> None:
    with real() as made:
        brief = Job(PATH.key, "tcp", "127.0.0.1", 1, 50, timeout=1.0, brief=True, parallel=8)
        seen = made.submit(brief).result(timeout=10)
    assert sum(each.count for each in seen) == 50
    assert {each.outcome for each in seen} == {Outcome.REFUSED}


def test_the_real_prober_s_lasting_connections_are_counted() -> None:
    def answer(connection: socket.socket) -> None:
        for _ in range(2):  # then it closes
            nonce = connection.recv(4096).decode().split()[1].partition("/")[2]
            said = {"schema": 1, "nonce": nonce, "peer_address": "127.0.0.1", "peer_port": 1}
            connection.sendall(json.dumps(said).encode() + b"\n")

    with real() as made, serving(answer) as port:
        lasting = Job(PATH.key, "lasting", "127.0.0.1", port, 5, timeout=10.0, spacing=0.01)
        seen = made.submit(lasting).result(timeout=10)
        assert len(made.ask(lasting).result(timeout=10)) == 5
        assert made.stream(lasting, lambda line: None).wait(10) == 5
    assert [each.connection for each in seen] == [0, 0, 0, 1, 1]
    assert [each.outcome is Outcome.ANSWERED for each in seen] == [True, True, False, True, True]
    assert seen[2].outcome is Outcome.RESET
    assert ["connection" in record_of(each) for each in seen] == [False] * 3 + [True] * 2


def test_the_real_prober_resolves_names() -> None:
    with real() as made:
        (seen,) = made.submit(Job("names", "resolve", "localhost", 0, 1, timeout=10.0)).result(timeout=10)
    assert (seen.outcome, seen.addresses, seen.dialled) == (Outcome.ANSWERED, ("127.0.0.1",), ("localhost", 0))
    assert record_of(seen)["addresses"] == ["127.0.0.1"]


@pytest.mark.parametrize("claim", Claim)
@pytest.mark.parametrize("family", Family)
def test_the_real_prober_takes_every_job_we_make(claim: Claim, family: Family) -> None:
    path = replace(PATH, family=family, port=Port.HTTP, claim=claim)
    host = "127.0.0.1" if family is Family.IPV4 else "::1"
    with real() as made:
        (seen,) = made.submit(job_on(path, host, 1, 1, 1.0)).result(timeout=10)
    assert seen.outcome in (Outcome.REFUSED, Outcome.UNREACHABLE, Outcome.ERROR)


# ------------------------------------------------------------------------------------------- asked, streamed and timed
BODY = b'{"localEndpoints": 0}'
ANSWER = b"HTTP/1.1 503 Service Unavailable\r\nX-Weight: 0\r\nContent-Length: %d\r\n\r\n" % len(BODY) + BODY


def health_check() -> AbstractContextManager[int]:
    """A server that says 503 to everybody, as kube-proxy's health check does; gives its port."""

    def say(connection: socket.socket) -> None:
        connection.recv(4096)
        connection.sendall(ANSWER)

    return serving(say)


@contextmanager
def serving(say: Callable[[socket.socket], None]) -> Iterator[int]:
    """A TCP server that has this done with every connection; gives its port."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                with connection, suppress(OSError):
                    say(connection)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        try:
            yield listener.getsockname()[1]
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()


def getting(port: int, count: int, spacing: float = 0.0) -> Job:
    return Job("node-1", "get", "127.0.0.1", port, count, timeout=1.0, spacing=spacing)


def left(made: Prober) -> int:
    """Orders that the prober's reader still waits for, once it has read all that was sent."""
    made.clock(1)
    return len(made._orders) + len(made._cancelled)


def test_asking_gives_the_whole_answers() -> None:
    with real() as made, health_check() as port:
        first, second = made.ask(getting(port, 2)).result(timeout=10)
        (brief,) = made.ask(replace(getting(port, 9), brief=True)).result(timeout=10)
        (seen,) = made.submit(getting(port, 1)).result(timeout=10)
    expected = {
        "status": 503,
        "headers": {"x-weight": "0", "content-length": str(len(BODY))},
        "body": BODY.decode(),
    }
    assert first["response"] == second["response"] == brief["response"] == expected
    assert brief["count"] == 9
    assert seen.outcome is Outcome.ANSWERED


def test_results_are_streamed_as_they_arrive() -> None:
    lines: list[tuple[float, dict[str, Any]]] = []
    with real() as made, health_check() as port:
        clock = made.clock()
        stream = made.stream(getting(port, 50, spacing=0.02), lambda line: lines.append((time.monotonic(), line)))
        assert stream.wait(10) == 50
        assert stream.wait(0) == 50
        stream.cancel()
        assert left(made) == 0
    assert {line["response"]["status"] for _, line in lines} == {503}
    starts = [line["started"] for _, line in lines]
    assert statistics.median(b - a for a, b in itertools.pairwise(starts)) > 0.019, "nobody is early"
    assert lines[0][0] < clock.ours(starts[-1]), "the first has arrived before the last began"


def test_a_stream_is_cancelled() -> None:
    enough = threading.Event()
    orders: list[dict[str, Any]] = []

    def sink(line: dict[str, Any]) -> None:
        orders.append(line)
        if len(orders) == 5:
            enough.set()

    with real() as made, health_check() as port:
        stream = made.stream(getting(port, 100_000, spacing=0.01), sink)
        assert enough.wait(10)
        stream.cancel()
        stream.cancel()
        assert stream.wait(10) == len(orders) < 500
        assert left(made) == 0
        time.sleep(0.05)
        assert stream.wait(0) == len(orders), "nothing comes any more"


def test_cancelling_what_is_nearly_done_hurts_nobody() -> None:
    """The prober refuses to cancel what is done; that must not be taken for trouble."""
    with real() as made, health_check() as port:
        for _ in range(50):
            streams = [made.stream(getting(port, 1), lambda line: None) for _ in range(4)]
            for stream in streams:
                stream.cancel()
            assert all(stream.wait(10) <= 1 for stream in streams)
        assert left(made) == 0


def test_a_cancellation_too_late_is_no_trouble() -> None:
    with prober("well") as made:
        made.hello()
        stream = made.stream(job(1), lambda line: None)
        assert stream.wait(10) == 1
        made._cancelled.add("1")  # as if it had been sent just before the job was done
        made._take({"id": "1", "error": "no such job"})
        assert not made._cancelled
        assert made.ask(job(1)).result(timeout=10)


def test_what_the_sink_raises_ends_the_stream() -> None:
    calls: list[int] = []

    def sink(line: dict[str, Any]) -> None:
        calls.append(1)
        raise KeyError("seq")

    with real() as made, health_check() as port:
        stream = made.stream(getting(port, 100_000, spacing=0.01), sink)
        with pytest.raises(HarnessError, match=r": KeyError: 'seq'") as raised:
            stream.wait(10)
        assert isinstance(raised.value.__cause__, KeyError)
        wait_until(lambda: left(made) == 0)
        assert len(made.ask(getting(port, 3)).result(timeout=10)) == 3, "others go on"
    assert len(calls) == 1


def wait_until(true: Callable[[], bool]) -> None:
    end = time.monotonic() + 10
    while not true():
        assert time.monotonic() < end
        time.sleep(0.01)


@pytest.mark.parametrize(("mode", "words"), [("dies-at-work", "is gone"), ("refuses", "no such protocol")])
def test_a_prober_that_fails_at_work_fails_streams_and_questions(mode: str, words: str) -> None:
    for begin in (
        lambda made: made.stream(job(), lambda line: None).wait(10),
        lambda made: made.ask(job()).result(timeout=10),
        lambda made: made.clock(),
    ):
        with prober(mode) as made:
            made.hello()
            with pytest.raises(HarnessError, match=words):
                begin(made)
            assert not made._orders
            if mode == "dies-at-work":
                with pytest.raises(HarnessError, match=words):
                    begin(made)


def test_a_death_ends_all_that_is_under_way() -> None:
    with real() as made, health_check() as port:
        streams = [made.stream(getting(port, 100_000, spacing=0.01), lambda line: None) for _ in range(3)]
        asked = made.ask(getting(port, 100_000, spacing=0.01))
        made._process.kill()
        for stream in streams:
            with pytest.raises(HarnessError, match="is gone: it ended"):
                stream.wait(10)
            stream.cancel()
        with pytest.raises(HarnessError, match="is gone"):
            asked.result(timeout=10)


def test_closing_ends_all_that_is_under_way() -> None:
    with real() as made, health_check() as port:
        stream = made.stream(getting(port, 100_000, spacing=0.01), lambda line: None)
        made.close()
        with pytest.raises(HarnessError, match="is gone"):
            stream.wait(10)
        with pytest.raises(HarnessError, match="is gone"):
            made.ask(getting(port, 1)).result(timeout=10)


def test_waiting_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CLOCK_SECONDS", 0.1)
    monkeypatch.setattr(module, "PULSE_SECONDS", 600.0)
    with prober("holds") as made:
        made.hello()
        with pytest.raises(HarnessError, match=r"not done after 0.1 s .0 results so far"):
            made.stream(job(), lambda line: None).wait(0.1)
        with pytest.raises(HarnessError, match="did not report its time"):
            made.clock()
        assert len(made._orders) == 1, "the stream goes on"


def test_a_description_without_a_time_is_unreadable() -> None:
    with prober("timeless") as made:
        made.hello()
        with pytest.raises(HarnessError, match="unreadable"):
            made.clock()


def test_the_clock_of_this_machine_is_ours() -> None:
    with real() as made:
        clock = made.clock()
        assert len({made.clock(1) for _ in range(3)}) == 3
    assert abs(clock.offset) <= clock.uncertainty < 0.05
    assert clock.ours(5.0 + clock.offset) == pytest.approx(5.0)


def test_many_threads_share_a_prober() -> None:
    counts: list[int] = []

    def work(made: Prober, port: int) -> None:
        for _ in range(5):
            counts.append(made.stream(getting(port, 7), lambda line: None).wait(10))
            counts.append(len(made.ask(getting(port, 7)).result(timeout=10)))
            made.clock(1)

    with real() as made, health_check() as port:
        threads = [threading.Thread(target=work, args=(made, port)) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert left(made) == 0
    assert counts == [7] * 80


def test_a_question_to_the_link_and_a_probe_from_the_link_local_address() -> None:
    asked = order(who_has("192.0.2.9", 3, 0.2))
    assert asked == {
        "id": "7", "protocol": "who-has", "host": "192.0.2.9", "count": 3, "spacing": 0.2, "timeout": ANSWERED_WITHIN,
    }  # fmt: skip
    from_there = order(Job("x", "get", "2001:db8::1", 10256, 1, 1.0, link_local=True))
    assert from_there["source_address"] == "link-local"
    told = read_who_has({"started": 3.5, "outcome": "answered", "links": ["02:00:00:00:00:01"], "detail": None})
    assert told == LinkAnswer(3.5, Outcome.ANSWERED, ("02:00:00:00:00:01",))
