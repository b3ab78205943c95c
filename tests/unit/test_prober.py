"""Our side of the prober's protocol, against probers that do what they should not, and one that is real."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path as File

import pytest

from esipp.catalog import HOUSE
from esipp.errors import HarnessError
from esipp.model import Outcome
from esipp.probing import prober as module
from esipp.probing import transports
from esipp.probing.prober import Job, Prober
from tests.unit.world import by_id

PATH = by_id("nodeport.local.tcp.ipv4.outside-1-to-endpoint-node").path
FAKE = File(__file__).with_name("fake_prober.py")


@contextmanager
def prober(mode: str) -> Iterator[Prober]:
    made = Prober("outside-1", [sys.executable, "-B", str(FAKE), mode])
    try:
        yield made
    finally:
        made.close()


def job(count: int = 2) -> Job:
    return Job(PATH, "192.0.2.9", 80, count, timeout=1.0)


def test_results_become_observations() -> None:
    with prober("well") as made:
        assert made.hello()["addresses"] == ["192.0.2.1", "2001:db8::1"]
        seen = made.submit(job(3)).result(timeout=10)
    assert [each.seq for each in seen] == [0, 1, 2]
    assert seen[1].source == ("192.0.2.1", 4001)
    assert seen[1].seen == ("192.0.2.1", 4001)
    assert seen[1].dialled == ("192.0.2.9", 80)
    assert seen[1].backend == "backend"


@pytest.mark.parametrize(
    ("mode", "words"),
    [("dead", "no such image"), ("newer", "speaks protocol 2")],
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


def test_the_real_prober_speaks_the_same_protocol() -> None:
    made = Prober("local", transports.local(HOUSE / "images" / "echoserver" / "prober.py"))
    try:
        made.hello()
        closed = Job(PATH, "127.0.0.1", 1, 3, timeout=1.0)
        seen = made.submit(closed).result(timeout=10)
    finally:
        made.close()
    assert [each.outcome for each in seen] == [Outcome.REFUSED] * 3
    assert {each.path for each in seen} == {PATH.key}
