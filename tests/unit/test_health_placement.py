"""Placement at random: the same for one seed anywhere, something each round; how wrong nodes are reported."""

import json
import os
import random
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from esipp.base.interrupt import Stop, StoppedError
from esipp.base.waiting import Budget
from esipp.checks.catalog import HOUSE
from esipp.checks.health import Answer, Place
from esipp.checks.model import Family, Outcome
from esipp.cluster.client import ApiError
from esipp.judging.frame import UNWRITTEN
from esipp.scenarios.changing_pods import SERVICE_LABEL
from esipp.scenarios.health import placement
from esipp.scenarios.health.evidence import Followed, HealthEvidence, Node
from esipp.scenarios.health.placement import AFTER, ROUNDS, Board, Placement, Slot
from esipp.scenarios.timeouts import TIMEOUTS
from tests.unit.health_world import no_answer, say

PLACES = (Place.ENDPOINT_NODE, Place.BARE_NODE, Place.OTHER_NODE, Place.CONTROL_PLANE)
SLOTS: list[Slot] = [(place, number) for place in PLACES for number in range(2)]
SEEDS = range(200)


def drawn(seed: int, slots: list[Slot] = SLOTS, rounds: int = ROUNDS) -> list[tuple[int, Board, Board]]:
    """Each round's number, the board before it, and the board after."""
    chance, board, found = random.Random(seed), Board(slots, set(slots)), []
    for number in range(1, rounds + 1):
        there, ready = board.draw(chance, number)
        found.append((number, board, Board(slots, set(there), set(ready))))
        board = found[-1][2]
    return found


def placement_of(seed: int) -> str:
    """A whole game as text."""
    return json.dumps([[sorted(map(str, after.there)), sorted(map(str, after.ready))] for _, _, after in drawn(seed)])


def test_the_seed_alone_decides() -> None:
    program = "from tests.unit.test_health_placement import placement_of; print(placement_of(7))"
    for hashing in ("0", "1", "4242"):
        environment = {**os.environ, "PYTHONHASHSEED": hashing}
        other = subprocess.run(
            [sys.executable, "-c", program], cwd=HOUSE, env=environment, capture_output=True, text=True, check=True
        )
        assert other.stdout.strip() == placement_of(7)
    assert len({placement_of(seed) for seed in SEEDS}) == len(SEEDS)


@pytest.mark.parametrize("slots", [SLOTS, SLOTS[:4]], ids=["four nodes", "two nodes"])
def test_every_round_changes_what_is_true(slots: list[Slot]) -> None:
    for seed in SEEDS:
        for number, before, after in drawn(seed, slots, 40):
            assert before.truth() != after.truth(), (seed, number)
            assert after.ready <= after.there <= set(slots)
            assert set(after.truth()) == {place for place, _ in slots}


def test_no_pod_of_a_node_is_exchanged_for_another() -> None:
    """While that goes on a node may rightly say either count: being right, then wrong, would prove nothing."""
    for seed in SEEDS:
        for number, before, after in drawn(seed):
            for place in PLACES:
                old, new = ({slot for slot in board.ready if slot[0] is place} for board in (before, after))
                assert old <= new or new <= old, (seed, number)
            assert not (after.ready & before.there) - after.there


def test_what_a_game_must_have_happens() -> None:
    for seed in SEEDS:
        truths = {number: after.truth() for number, _, after in drawn(seed)}
        assert set(truths[1].values()) == {1}, "each node follows up, and down by round 3"
        for number in (3, 8, 13, 18):
            assert set(truths[number].values()) == {0}
            assert any(truths[number + 1].values())
        for number in (5, 15):
            assert sorted(truths[number].values()) == [0, 0, 0, 2]
            assert sorted(truths[number + 1].values()) == [0, 0, 0, 1]


def test_pods_are_created_and_deleted_on_every_kind_of_node() -> None:
    gone: set[Place] = set()
    new: set[Place] = set()
    for seed in SEEDS:
        for _, before, after in drawn(seed):
            gone |= {slot[0] for slot in before.there - after.there}
            new |= {slot[0] for slot in after.there - before.there}
    assert gone == new == set(PLACES)


# ------------------------------------------------------------------------------------------ how a round is followed
class Nodes:
    """Stands for the asker: what each node says in look after look, and then in the answers after it has settled."""

    def __init__(self, bare: Callable[[int], Answer], after: Answer | None = None) -> None:
        self.bare, self.after, self.looks = bare, after, 0
        self.families, self.timeouts = [Family.IPV4], TIMEOUTS
        self.stop = Stop()
        service = {"spec": {"healthCheckNodePort": 30001}}
        self.testbed: Any = type("Stage", (), {"services": {"health-placement": service}})()

    def everywhere(self, port: int) -> dict[tuple[Place, Family], Answer]:
        self.looks += 1
        answers = {Place.ENDPOINT_NODE: say(2, "x", count=1), Place.BARE_NODE: self.bare(self.looks)}
        return {(place, Family.IPV4): answer for place, answer in answers.items()}

    def on_nodes(
        self, port: int, *, count: int, spacing: float, timeout: float = 2.0
    ) -> dict[Node, Future[list[dict[str, Any]]]]:
        return {(p, Family.IPV4): self._answered(p, count) for p in (Place.ENDPOINT_NODE, Place.BARE_NODE)}

    def _answered(self, place: Place, count: int) -> Future[list[dict[str, Any]]]:
        answer = say(2, "x", count=1) if place is Place.ENDPOINT_NODE else self.after or say(0, "x", count=1)
        response = {"status": answer.status, "headers": dict(answer.headers), "body": answer.body}
        future: Future[list[dict[str, Any]]] = Future()
        future.set_result([{"outcome": answer.outcome.value, "response": response, "count": count}])
        return future


def followed(bare: Callable[[int], Answer], after: Answer | None = None) -> tuple[Followed, Followed]:
    """How the bare node followed a round that leaves it without a pod: its status, its count."""
    nodes: Any = Nodes(bare, after)
    nodes.timeouts = replace(TIMEOUTS, round_followed=Budget("made up", 0.05, need=1, spacing=0.0))
    ground: Any = None
    trial = Placement(nodes, ground, 0)
    status, count = trial._follow({Place.ENDPOINT_NODE: 2, Place.BARE_NODE: 0})
    here = Place.ENDPOINT_NODE, Family.IPV4
    assert (status[here].after, count[here].after) == ({"right": AFTER}, {"right": AFTER})
    return status[Place.BARE_NODE, Family.IPV4], count[Place.BARE_NODE, Family.IPV4]


RIGHT, STALE = say(0, "x", count=1), say(1, "x", count=1)


def test_a_node_that_is_right_at_once() -> None:
    status, count = followed(lambda look: RIGHT)
    assert (status.last, status.after) == ("", {"right": AFTER})
    assert status.seconds is not None
    assert count.seconds is not None


def test_a_node_that_comes_late() -> None:
    status, count = followed(lambda look: STALE if look < 6 else RIGHT)
    assert status.seconds is not None
    assert (status.last, count.last) == ("200", "localEndpoints 1")
    assert status.after == count.after == {"right": AFTER}


@pytest.mark.parametrize(
    ("versions", "follows", "doubted"),
    [
        (("7", "7", "7", "7"), None, True),
        (("7", "8", "8", "9"), None, False),
        (("7", "7", "7", "7"), 0.2, False),
        ((), None, False),
    ],
    ids=["unchanged", "changed", "unchanged, but followed", "may not be listed"],
)
def test_a_round_that_is_not_followed_is_in_doubt_if_the_endpoint_slices_did_not_change(
    monkeypatch: pytest.MonkeyPatch, versions: tuple[str, ...], follows: float | None, doubted: bool
) -> None:
    left = list(versions)

    def listed(path: str, labelSelector: str) -> list[Any]:  # noqa: N803 - the API's own name
        assert (path.rpartition("/")[2], labelSelector) == ("endpointslices", f"{SERVICE_LABEL}=health-placement")
        if not versions:
            raise ApiError(403, "Forbidden", "endpointslices is forbidden", f"GET {path}")
        return [{"metadata": {"name": "of-pods", "resourceVersion": left.pop(0)}}]

    nodes: Any = Nodes(lambda _: STALE)
    nodes.listeners, nodes.testbed.namespace = (lambda _: set()), "esipp"
    nodes.testbed.cluster = SimpleNamespace(list=listed)
    status = {(Place.BARE_NODE, Family.IPV4): Followed(follows, "503")}
    monkeypatch.setattr(placement, "placed", lambda _: PLACES)
    for name, result in (("_change", ("made ready", 1)), ("_states", {}), ("_follow", (status, status))):
        monkeypatch.setattr(Placement, name, lambda *_, result=result: result)
    monkeypatch.setattr(Placement, "_stable", lambda *_: None)
    ground: Any = None
    seen = HealthEvidence()
    Placement(nodes, ground, 0).perform(seen, rounds=2)
    assert [each.trouble == UNWRITTEN for each in seen.rounds] == [doubted, doubted]


def test_a_node_that_is_never_right() -> None:
    status, count = followed(lambda look: STALE, STALE)
    assert (status.seconds, status.last, status.after) == (None, "200", {"200": AFTER})
    assert (count.seconds, count.last, count.after) == (None, "localEndpoints 1", {"localEndpoints 1": AFTER})


def test_a_node_that_is_right_and_wrong_in_turns() -> None:
    status, _ = followed(lambda look: RIGHT if look % 2 else no_answer(Outcome.TIMEOUT, 1))
    assert (status.seconds, status.last) == (None, "timed out")


def test_a_node_that_is_right_for_a_while_is_not_excused_while_others_are_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    wrong_count = say(0, "x", count=1, localEndpoints=1)  # the count comes late, so that there are more looks

    def bare(look: int) -> Answer:
        return wrong_count if look < 4 else STALE if look == 4 else RIGHT

    status, count = followed(bare)
    assert status.seconds is not None
    assert status.after == {"200": 1, "right": AFTER}
    assert count.after == {"right": AFTER}


def test_a_node_that_forgets_after_it_has_settled() -> None:
    status, count = followed(lambda look: RIGHT, STALE)
    assert status.seconds is not None
    assert status.after == {"200": AFTER}
    assert count.after == {"localEndpoints 1": AFTER}


def test_a_right_status_with_a_wrong_count() -> None:
    lie = say(0, "x", count=1, localEndpoints=False)
    status, count = followed(lambda look: lie, lie)
    assert status.after == {"right": AFTER}
    assert (count.seconds, count.last) == (None, "localEndpoints false")


def rounds(monkeypatch: pytest.MonkeyPatch, *bare: Callable[[float], Answer]) -> list[tuple[Followed, float]]:
    """How the bare node's count followed rounds that leave it without a pod, and the seconds of each.

    Each function returns its answer by the seconds since the round began.
    """
    monkeypatch.setattr(placement, "COUNTED", 1.0)
    monkeypatch.setattr(placement, "LASTS", 0.2)
    ground: Any = None
    nodes: Any = Nodes(lambda look: RIGHT)
    nodes.timeouts = replace(TIMEOUTS, round_followed=Budget("made up", 3.0, need=1, spacing=0.01))
    trial, found = Placement(nodes, ground, 0), []
    for says in bare:
        began = time.monotonic()
        nodes.bare = lambda look, says=says, began=began: says(time.monotonic() - began)
        _, count = trial._follow({Place.ENDPOINT_NODE: 2, Place.BARE_NODE: 0})
        found.append((count[Place.BARE_NODE, Family.IPV4], time.monotonic() - began))
    return found


def test_a_count_that_stays_wrong_has_its_whole_time_only_in_the_first_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    def twice(at: float) -> Answer:
        return say(0, "x", count=1, localEndpoints=7 if at < 0.1 else 8)

    found = rounds(monkeypatch, twice, twice, twice, twice)
    assert [count.seconds for count, _ in found] == [None] * 4
    assert [count.last for count, _ in found] == ["localEndpoints 8"] * 4, "what it says for good"
    assert all(took >= 1.0 for _, took in found[:2])
    assert all(took < 0.9 for _, took in found[2:])


def test_a_count_that_comes_just_in_time_is_right(monkeypatch: pytest.MonkeyPatch) -> None:
    def slow(at: float) -> Answer:
        return say(0, "x", count=1, localEndpoints=3) if at < 0.5 else RIGHT

    assert all(count.seconds and count.seconds >= 0.5 for count, _ in rounds(monkeypatch, slow, slow, slow, slow))


def test_an_interrupt_ends_the_wait_for_nodes() -> None:
    nodes: Any = Nodes(lambda look: nodes.stop.set() or STALE)
    ground: Any = None
    with pytest.raises(StoppedError):
        Placement(nodes, ground, 0)._follow({Place.ENDPOINT_NODE: 2, Place.BARE_NODE: 0})
    assert nodes.looks == 1


def test_an_interrupt_ends_the_wait_for_answers() -> None:
    stop = Stop()
    never: Future[None] = Future()
    threading.Timer(0.2, stop.set).start()
    began = time.monotonic()
    with pytest.raises(StoppedError):
        stop.result(never, 60.0)
    assert time.monotonic() - began < 2.0
    with pytest.raises(TimeoutError):
        Stop().result(never, 0.1)
