"""What packets testify of silence: only captures of every backend's node, without loss, can say that nothing came."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from esipp.base.errors import HarnessError
from esipp.checks.model import AddressClass, Backends, Family, Outcome
from esipp.judging.observation import Observation, Witness
from esipp.judging.topology import Pod
from esipp.packets.capture import IN, OUT, REQUEST, Capture, Sighting
from esipp.packets.trace import Watch
from esipp.testbed import manifests
from esipp.testbed.endpoints import endpoints_of, scope_of
from tests.unit.test_testbed import set_testbed
from tests.unit.world import CLIENT_ADDRESSES, NODE_ADDRESSES, NODES, by_id, show, verdict

CELL = by_id("nodeport.local.tcp.ipv4.outside-1-to-bare-node")
CLIENT = (CLIENT_ADDRESSES["outside-1"][Family.IPV4], 40000)
DIALLED = (NODE_ADDRESSES[NODES[1]][Family.IPV4], 30123)
SILENT = Observation(CELL.subject.path.key, 0, Outcome.TIMEOUT, CLIENT, DIALLED, started=1.0, ended=3.0, time=10.0)


def watching(*captures: Capture, blind: str = "") -> Watch:
    return Watch(endpoints_of(set_testbed(CELL.subject.path)), captures=list(captures), blind=blind)


def backend() -> tuple[str, int]:
    """A backend's address and port on the endpoint node."""
    ends = endpoints_of(set_testbed(CELL.subject.path))
    return next(end for end, node in ends.items() if node == NODES[0] and end[0] == "10.244.2.5")


def sighting(node: str, destination: tuple[str, int], direction: str = IN, time: float = 10.0) -> Sighting:
    return Sighting(node, "eth0", direction, time, "TCP", REQUEST, 1000, CLIENT, destination)


def word_of(watch: Watch, observation: Observation = SILENT) -> Witness:
    (witness,) = watch.witnesses({CELL.subject.path.key: [observation]})[CELL.subject.path.key]
    return witness


AT_BARE = Capture(NODES[1], sightings=(sighting(NODES[1], DIALLED),))
AT_HOME = Capture(NODES[0])
AT_CONTROL = Capture(NODES[3])


def test_silence_is_witnessed_where_every_backends_node_was_watched() -> None:
    witness = word_of(watching(AT_HOME, AT_BARE, AT_CONTROL))
    assert (witness.seen, witness.delivered, witness.contradiction) == (True, None, "")


def test_silence_is_not_witnessed_where_the_backends_node_is_blind() -> None:
    watch = watching(AT_BARE, blind="the capture on worker-a lacks 1 of 2 known connections")
    witness = word_of(watch)
    assert (witness.seen, witness.delivered) == (False, None)
    said = verdict(CELL, witnesses={CELL.subject.path.key: [witness]}, blind=watch.blind)
    assert said.witnesses == f"echo server only: {watch.blind}"


@pytest.mark.parametrize("lossy", [0, 1])
def test_silence_is_not_witnessed_by_captures_that_lost_packets(lossy: int) -> None:
    captures = [AT_HOME, AT_BARE, AT_CONTROL]
    captures[lossy] = replace(captures[lossy], dropped=1)
    assert not word_of(watching(*captures)).seen


def test_what_was_delivered_is_witnessed_however_little_was_watched() -> None:
    went_on = replace(AT_BARE, sightings=(*AT_BARE.sightings, sighting(NODES[1], backend(), OUT, 10.001)))
    witness = word_of(watching(went_on))
    assert (witness.seen, witness.delivered) == (True, CLIENT)


def test_an_answer_is_witnessed_by_what_was_seen_of_it_alone() -> None:
    seen = show(CELL.subject.path, AddressClass.CLIENT)
    local = backend()
    assert seen.echo is not None
    echo = {**seen.echo, "local_address": local[0], "local_port": local[1]}
    answered = replace(seen, source=CLIENT, dialled=DIALLED, seen=CLIENT, echo=echo, time=10.0)
    went_on = replace(AT_BARE, sightings=(*AT_BARE.sightings, sighting(NODES[1], local, OUT, 10.001)))
    assert word_of(watching(went_on), answered).seen


def test_the_pods_of_another_scenario_are_backends_where_it_says_so() -> None:
    testbed = set_testbed(CELL.subject.path)
    testbed.pods["every-node-1"] = Pod("every-node-1", NODES[2], {Family.IPV4: "10.244.3.9"})
    pods = {Backends.POD: {"every-node-1"}}
    assert "10.244.3.9" not in {end[0] for end in endpoints_of(testbed)}
    assert {end[0]: node for end, node in endpoints_of(testbed, pods).items()}["10.244.3.9"] == NODES[2]
    assert scope_of(testbed, pods).holds("UDP", ("10.244.3.9", manifests.UDP))
    assert not scope_of(testbed).holds("UDP", ("10.244.3.9", manifests.UDP))
    ends = {"source": CLIENT, "dialled": DIALLED, "seen": CLIENT, "time": 10.0, "outcome": Outcome.ANSWERED}
    echo = {"local_address": "10.244.3.9", "local_port": manifests.TCP}
    answered = replace(SILENT, echo=echo, **ends)
    at_pod = Capture(NODES[2], sightings=(sighting(NODES[2], ("10.244.3.9", manifests.TCP), OUT),))
    assert not word_of(watching(AT_BARE, at_pod), answered).seen
    watch = Watch(endpoints_of(testbed, pods), captures=[AT_BARE, at_pod])
    witness = word_of(watch, answered)
    assert (witness.seen, witness.delivered) == (True, CLIENT)
    lies = word_of(watch, replace(answered, seen=("10.0.0.9", 40000)))
    assert lies.contradiction.startswith("the backend reports the peer 10.0.0.9:40000, the packet to it came from ")


class Agent:
    """A prober that never comes back with what it was sent for."""

    def __init__(self, trouble: Exception) -> None:
        self.trouble = trouble

    def submit(self, job: object) -> Any:
        def result(timeout: float) -> list[Observation]:
            raise self.trouble

        return SimpleNamespace(result=result)


@pytest.mark.parametrize("trouble", [TimeoutError(), HarnessError("it ended", "x")])
def test_an_agent_in_trouble_blinds_its_capture_and_ends_nothing(trouble: Exception) -> None:
    watch = Watch({}, known={NODES[0]: (cast(Any, Agent(trouble)), ("172.18.0.2", 30000))})
    watch._send_known()
    assert watch._known.get(NODES[0], []) == []
    assert "there is no known connection" in AT_HOME.blindness(watch._known.get(NODES[0], []))


@pytest.mark.parametrize(
    ("shown", "said"),
    [
        ((True, False), ["no capture shows any of 1 answered connections over SCTP: only the echo server shows them"]),
        ((True, True), []),
        ((False, False), []),  # then captures are blind as a whole, which their own proof says
    ],
)
def test_a_protocol_that_no_capture_shows_is_said(shown: tuple[bool, bool], said: list[str]) -> None:
    keys = ("nodeport.local.tcp.ipv4.outside-1-to-bare-node", "nodeport.local.sctp.ipv4.outside-1-to-bare-node")
    made = {
        key: [replace(SILENT, path=key, outcome=Outcome.ANSWERED, echo={"protocol": key.split(".")[2]})] for key in keys
    }
    seen = {key: [Witness(key, 0, seen=each)] for key, each in zip(keys, shown, strict=True)}
    assert watching().unseen(made, seen) == said
