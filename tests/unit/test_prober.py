"""Our side of the prober's protocol, against probers that do what they should not, and one that is real."""

import ipaddress
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path as File
from typing import Any

import pytest

from esipp.catalog import HOUSE
from esipp.errors import HarnessError
from esipp.model import Claim, Family, Port, Protocol
from esipp.observation import Observation, Outcome
from esipp.probing import prober as module
from esipp.probing import transports
from esipp.probing.prober import CLAIMED, Job, Prober, job_on
from tests.unit.world import by_id

PATH = by_id("nodeport.local.tcp.ipv4.outside-1-to-endpoint-node").path
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


def test_one_socket_and_sctp_tags_are_kept() -> None:
    seen = results(replace(job(3), protocol="udp", one_socket=True))
    assert {each.port_pairs for each in seen} == {((4000, 4000),)}
    assert [each.tag for each in results(replace(job(2), protocol="sctp"))] == [7, 8]


@pytest.mark.parametrize(
    ("mode", "words"),
    [("dead", "no such image"), ("newer", "speaks protocol 4, this suite 3")],
)
def test_a_prober_that_does_not_start_right_is_told(mode: str, words: str) -> None:
    with prober(mode) as made, pytest.raises(HarnessError, match=words):
        made.hello()


def test_a_mute_prober_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "START_SECONDS", 0.2)
    with prober("mute") as made, pytest.raises(HarnessError, match="did not start within"):
        made.hello()


@pytest.mark.parametrize(
    ("mode", "words"),
    [("dies-at-work", "is gone"), ("garbles", "unreadable"), ("refuses", "no such protocol")],
)
def test_a_prober_that_fails_at_work_fails_its_jobs(mode: str, words: str) -> None:
    with prober(mode) as made:
        made.hello()
        with pytest.raises(HarnessError, match=words):
            made.submit(job()).result(timeout=10)


def test_a_job_for_a_dead_prober_fails_at_once() -> None:
    with prober("dies-at-work") as made:
        made.hello()
        with pytest.raises(HarnessError):
            made.submit(job()).result(timeout=10)
        with pytest.raises(HarnessError, match="is gone"):
            made.submit(job()).result(timeout=10)


def test_a_command_that_is_not_there_is_told() -> None:
    with pytest.raises(HarnessError, match="cannot be started"):
        Prober("x", ["/nowhere/prober"])


# ------------------------------------------------------------------------------------------------------- what is asked
def order(given: Job) -> dict[str, Any]:
    return given.order("7")


def test_an_order_has_only_what_was_asked_for() -> None:
    plain = order(job())
    assert sorted(plain) == ["count", "host", "id", "port", "protocol", "spacing", "timeout"]
    full = order(replace(job(), parallel=8, brief=True, one_socket=True, preamble=b"\x0d\x0a"))
    added = {"parallel": 8, "brief": True, "one_socket": True, "preamble": "0d0a"}
    assert full == {**plain, **added}
    http = order(replace(job(), protocol="http", url="/clientip", headers={"X": "y"}))
    assert (http["path"], http["headers"]) == ("/clientip", {"X": "y"})


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
    made = Prober("local", transports.local(HOUSE / "images" / "echoserver" / "prober.py"))
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


@pytest.mark.parametrize("claim", Claim)
@pytest.mark.parametrize("family", Family)
def test_the_real_prober_takes_every_job_we_make(claim: Claim, family: Family) -> None:
    path = replace(PATH, family=family, port=Port.HTTP, claim=claim)
    host = "127.0.0.1" if family is Family.IPV4 else "::1"
    with real() as made:
        (seen,) = made.submit(job_on(path, host, 1, 1, 1.0)).result(timeout=10)
    assert seen.outcome in (Outcome.REFUSED, Outcome.UNREACHABLE, Outcome.ERROR)
