"""What packets add to policy changes: an echo that lies is found, and so are requests that only seem to be dropped."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from esipp.base.clock import Clock
from esipp.checks.check import Feature, Status, Verdict, is_about
from esipp.checks.model import POD_BACKEND, Family, Outcome
from esipp.checks.policy_change import At, ChangingService, PolicyChange
from esipp.judging.observation import Observation, Witness
from esipp.judging.timeline import Sample, Stream
from esipp.ledger.codec import judged, read_judged
from esipp.packets.capture import IN, NAMED, OUT, REQUEST, Capture, End, Sighting, plain
from esipp.probing.prober import Traffic
from esipp.scenarios.policy_change.evidence import SAMPLED, PolicyChangeEvidence
from esipp.scenarios.policy_change.run import to_follow
from esipp.scenarios.policy_change.sections import summary
from esipp.testbed.endpoints import endpoints_of
from suites.compatibility.isolation import CHECKS as ALL_CHECKS
from tests.unit.policy_change_world import BARE, EVERY, HOME, World
from tests.unit.recorded_world import summary_lines
from tests.unit.test_packet_watch import CELL, watching
from tests.unit.test_testbed import set_testbed
from tests.unit.verdicts import judge_with
from tests.unit.world import BACKEND_ADDRESSES, CLIENT_ADDRESSES, FINE, NODE_ADDRESSES, NODES, VIP

CHECKS = [check for check in ALL_CHECKS if is_about(check, PolicyChange)]
FEATURES = {name: Feature(True, "made up") for check in ALL_CHECKS for name in check.features}
NODE_PORT = ChangingService.NODE_PORT
V4 = Family.IPV4
TARGET = next(port for (host, port), _ in endpoints_of(set_testbed(CELL.subject.path)).items() if host == "10.244.2.5")
"""A port of the backend."""

Fits = Callable[[Stream, Sample], bool]


def never(_: Stream, __: Sample) -> bool:
    return False


@dataclass
class Packets:
    """What captures of all nodes show of a world.

    Args:
        lies: connections that packets show with a node's address, whatever the echo server says.
        delivered: connections without an answer whose request reaches the backend.
        dropped: packets that the kernel of the endpoint node lost.
    """

    lies: Fits = never
    delivered: Fits = never
    dropped: int = 0
    observations: dict[tuple[str, int], Observation] = field(default_factory=dict)
    sightings: list[Sighting] = field(default_factory=list)

    def witness(self, seen: PolicyChangeEvidence) -> PolicyChangeEvidence:
        """The evidence with what the captures show of it."""
        for course in seen.courses.values():
            for (at, family), stream in course.data.items():
                dialled = VIP if at is At.VIP else NODE_ADDRESSES[BARE if at is At.BARE_NODE else HOME]
                for sample in stream.samples:
                    self._connect(stream, sample, (dialled[family], 30123), family)
        sampled = to_follow(seen, Traffic(*_nobody(), observations=self.observations))
        captures = [
            Capture(node, b"", tuple(each for each in self.sightings if each.node == node),
                    self.dropped if node == HOME else 0)
            for node in NODES
        ]  # fmt: skip
        return replace(seen, witnesses=watching(*captures).witnesses(sampled))

    def _connect(self, stream: Stream, sample: Sample, dialled: End, family: Family) -> None:
        number = len(self.observations)
        client = CLIENT_ADDRESSES["outside-1"][family], 1024 + number
        backend = BACKEND_ADDRESSES[POD_BACKEND][family], TARGET
        arrives = sample.answered or self.delivered(stream, sample)
        source = NODE_ADDRESSES[HOME][family] if self.lies(stream, sample) else sample.source or client[0]
        came = source, client[1]
        taken = BARE if dialled[0] == NODE_ADDRESSES[BARE][family] else HOME
        for node, direction, ends in ((taken, IN, (client, dialled)), *([(HOME, OUT, (came, backend))] * arrives)):
            made = self._sight(node, direction, sample.started, number * 1000, *ends)
            self.sightings += [made, replace(made, kind=NAMED, join=number * 1000 + 1, nonce=f"n:{number}")]
        if not sample.answered:
            self.sightings = [each for each in self.sightings if each.nonce != f"n:{number}"]
        echo = {"protocol": "tcp", "local_address": backend[0], "local_port": backend[1]} if sample.answered else None
        seen = (sample.source, client[1]) if sample.answered else None
        self.observations[stream.name, sample.seq] = Observation(
            stream.name, sample.seq, Outcome(sample.outcome), client, dialled, seen, echo,
            started=sample.started, ended=sample.ended, time=sample.started, nonce=f"n:{number}",
        )  # fmt: skip

    @staticmethod
    def _sight(node: str, direction: str, when: float, join: int, source: End, destination: End) -> Sighting:
        ends = plain(source), plain(destination)
        assert ends[0] is not None
        assert ends[1] is not None
        return Sighting(node, "eth0", direction, when, "TCP", REQUEST, join, *ends)


def _nobody() -> tuple[Any, Clock]:
    return None, Clock(0.0, 0.0)


def verdicts(seen: PolicyChangeEvidence, service: ChangingService = NODE_PORT) -> dict[str, Verdict]:
    """The verdicts on a Service in IPv4, by the end of the check's id."""
    return {
        check.id.removeprefix("flip.").replace(f"{service}.ipv4.", ""): judge_with(check, seen, FEATURES, {})
        for check in CHECKS
        if check.subject.service is service and check.subject.family is V4
    }


def wrong(seen: PolicyChangeEvidence, service: ChangingService = NODE_PORT) -> dict[str, Status]:
    return {name: each.status for name, each in verdicts(seen, service).items() if each.status not in FINE}


def in_phase(at: At, number: int, fits: Callable[[Sample], bool] = lambda _: True) -> Fits:
    """The connections over IPv4 at an entry between one change and the next."""
    return lambda stream, sample: (
        f" {at} {V4}" in stream.name and number * EVERY <= sample.started < (number + 1) * EVERY and fits(sample)
    )


def settled(sample: Sample) -> bool:
    """Whether a connection was over in the last second before the next change."""
    return EVERY - 1.0 < sample.ended % EVERY < EVERY


# --------------------------------------------------------------------------------------------------- a healthy world
@pytest.mark.parametrize("service", list(ChangingService))
def test_a_healthy_world_is_judged_as_without_packets_and_says_how_many_they_show(service: ChangingService) -> None:
    without, seen = World(service).seen(), Packets().witness(World(service).seen())
    assert wrong(seen, service) == {}
    before, after = verdicts(without, service), verdicts(seen, service)
    assert {name: replace(each, witnesses="") for name, each in after.items()} == before
    bare = seen.witnesses[f"{service} {At.BARE_NODE} {V4}"]
    assert all(each.seen and not each.contradiction for each in bare)
    said = after["bare-node.settles"].witnesses
    assert said == f"echo server, and packets of {len(bare)} of 280 connections"


def test_a_bounded_sample_is_followed_the_ends_of_each_phase_of_each_entry() -> None:
    seen = World(ChangingService.DEFAULT).seen()
    (course,) = seen.courses.values()
    for place, stream in course.data.items():
        chosen = {seq for name, seq in course.sampled() if name == stream.name}
        phases = course.phases(*place)
        assert len(chosen) <= 3 * SAMPLED * len(phases)
        for phase in phases:
            made = [sample.seq for sample in phase.samples]
            over = [sample.seq for sample in phase.samples if sample.ended < phase.until]
            assert {*made[:SAMPLED], *over[-SAMPLED:]} <= chosen
            assert not {*made[SAMPLED:]} & chosen - {*over[-SAMPLED:]}


def test_of_established_connections_the_first_and_the_last_exchange_is_followed() -> None:
    (course,) = World().seen().courses.values()
    for each in course.kept:
        (stream,) = each.streams
        ends = [stream.samples[0].seq, stream.samples[-1].seq]
        assert [seq for name, seq in course.sampled() if name == stream.name] == ends


# ------------------------------------------------------------------------------------------------- an echo that lies
@pytest.mark.parametrize("number", [2, 6])
def test_an_echo_that_lies_in_one_phase_is_found(number: int) -> None:
    seen = World().seen()
    assert wrong(seen) == {}, "by the echo server alone"
    lied = Packets(lies=in_phase(At.ENDPOINT_NODE, number)).witness(seen)
    found = wrong(lied)
    assert set(found.values()) == {Status.ERROR}
    assert set(found) == {name for name in verdicts(lied) if "endpoint-node" in name and "kept" not in name}
    said = verdicts(lied)["endpoint-node.settles"]
    assert "the packet to it came from 172.18.0.2" in said.reason


def test_one_lie_is_set_aside_if_others_agree() -> None:
    one = in_phase(At.ENDPOINT_NODE, 2, settled)
    last = [sample for stream, sample in _samples(World().seen()) if one(stream, sample)][-1]
    lied = Packets(lies=lambda stream, sample: one(stream, sample) and sample == last).witness(World().seen())
    assert wrong(lied) == {}
    said = verdicts(lied)["endpoint-node.settles"]
    assert "1 of 280 set aside: the backend reports the peer" in said.sees


def test_a_connection_that_is_set_aside_is_not_judged() -> None:
    """The one connection on which both witnesses differ is the one that shows another address."""
    seen = World().seen()
    stream = seen.courses[NODE_PORT].data[At.ENDPOINT_NODE, V4]
    at = next(n for n, sample in enumerate(stream.samples) if sample.started > 3 * EVERY) - 1
    stream.samples[at] = stream.samples[at]._replace(source="203.0.113.9")
    assert wrong(seen)["endpoint-node.never-otherwise"] is Status.FAIL
    strange = stream.samples[at]
    lied = Packets(lies=lambda of, sample: of is stream and sample == strange).witness(seen)
    assert wrong(lied) == {}


def test_a_lie_without_any_agreement_is_an_error() -> None:
    name = f"{NODE_PORT} {At.ENDPOINT_NODE} {V4}"
    seen = replace(World().seen(), witnesses={name: [Witness(name, 3, False, contradiction="they differ")]})
    assert wrong(seen)["endpoint-node.settles"] is Status.ERROR


def test_a_capture_that_loses_packets_is_no_evidence() -> None:
    lied = Packets(lies=in_phase(At.ENDPOINT_NODE, 2), dropped=1).witness(World().seen())
    assert wrong(lied) == {}
    witnesses = lied.witnesses[f"{NODE_PORT} {At.ENDPOINT_NODE} {V4}"]
    assert not any(each.contradiction for each in witnesses)
    silent = lied.witnesses[f"{NODE_PORT} {At.BARE_NODE} {V4}"]
    assert {each.delivered is not None for each in silent if each.seen} == {True}, "silence needs whole captures"


@pytest.mark.parametrize("number", [1, 2])
def test_a_control_listener_that_lies_makes_its_familys_checks_errors(number: int) -> None:
    name = f"listener of {At.BARE_NODE} {V4}"
    witnesses = [Witness(name, seq, True, contradiction="they differ" if seq < number else "") for seq in range(4)]
    seen = replace(World().seen(), witnesses={name: witnesses})
    assert set(wrong(seen).values()) == ({Status.ERROR} if number > 1 else set())
    ipv6 = [check for check in CHECKS if check.subject.service is NODE_PORT and check.subject.family is Family.IPV6]
    assert {judge_with(check, seen, FEATURES, {}).status for check in ipv6} <= set(FINE)


def test_lies_on_established_connections_cost_them_or_the_check() -> None:
    seen = World().seen()
    course = seen.courses[NODE_PORT]
    (kept,) = [each for each in course.kept if (each.at, each.family) == (At.BARE_NODE, V4)]
    (stream,) = kept.streams
    others = [Stream(f"{stream.name} {number}", 0.1, stream.samples) for number in (1, 2)]
    kept.streams = [stream, *others]

    def judged_with(*lies: Stream) -> Verdict:
        made = {each.name: [Witness(each.name, 0, True, contradiction="they differ" if each in lies else "")]
                for each in kept.streams}  # fmt: skip
        return verdicts(replace(seen, witnesses=made))["bare-node.kept"]

    assert judged_with().witnesses.startswith("echo server, and packets of 3 of ")
    one = judged_with(others[0])
    assert (one.status, one.observed.partition(";")[0]) == (Status.PASS, "2 of 2 connections kept")
    assert judged_with(others[0], others[1]).status is Status.ERROR, (
        "their numbers are the same, they are two all the same"
    )


# ------------------------------------------------------------------------------------- silence that is none
def test_a_bare_node_that_hands_on_in_silence_under_local_is_found() -> None:
    handed = in_phase(At.BARE_NODE, 4, settled)
    seen = Packets(delivered=handed).witness(World().seen())
    assert wrong(World().seen()) == {}, "the client gets no answer"
    assert wrong(seen) == dict.fromkeys(("bare-node.settles", "bare-node.never-otherwise"), Status.FAIL)
    for name in ("settles", "never-otherwise"):
        reason = verdicts(seen)[f"bare-node.{name}"].reason
        assert "no answer, but packets reached a backend: at the node: 172.18.0.101:" in reason
    assert "-> 10.244.2.5:" in verdicts(seen)["bare-node.settles"].reason


def test_a_bare_node_may_hand_on_until_it_knows_of_local() -> None:
    early = in_phase(At.BARE_NODE, 4, lambda sample: sample.started % EVERY < 0.3)
    world = World(silent={At.BARE_NODE: 0.3})
    assert wrong(Packets(delivered=early).witness(world.seen())) == wrong(world.seen()) == {}


def test_a_syn_that_the_next_policy_lets_through_breaks_no_silence() -> None:
    """On a busy machine a client gave up after its kernel had sent the SYN again, under the next policy."""
    later = in_phase(At.BARE_NODE, 4, lambda sample: sample.ended >= 5 * EVERY)
    seen = Packets(delivered=later).witness(World().seen())
    course = seen.courses[NODE_PORT]
    (name,) = [stream.name for (at, family), stream in course.data.items() if (at, family) == (At.BARE_NODE, V4)]
    last = [
        sample.seq for sample in course.data[At.BARE_NODE, V4].samples if later(course.data[At.BARE_NODE, V4], sample)
    ]
    told = [Witness(name, seq, True, delivered=("192.0.2.1", 1)) for seq in last]
    assert told
    assert wrong(replace(seen, witnesses={**seen.witnesses, name: told})) == {}


def test_a_request_that_arrives_and_is_not_answered_is_lost_elsewhere() -> None:
    world = World(silent={At.ENDPOINT_NODE: 0.2})
    seen = Packets(delivered=lambda stream, _: At.ENDPOINT_NODE in stream.name).witness(world.seen())
    assert wrong(seen) == wrong(world.seen()) == {"no-loss-at-endpoint-node": Status.FAIL}


# --------------------------------------------------------------------------------------------------- what is said
def test_a_run_without_captures_says_so_and_an_older_one_says_nothing() -> None:
    old = World().seen()
    assert {each.witnesses for each in verdicts(old).values()} == {""}
    blind = verdicts(replace(old, blind="the capture on worker-a lacks 1 of 2 known connections"))
    assert {each.witnesses for each in blind.values()} == {
        "echo server only: the capture on worker-a lacks 1 of 2 known connections"
    }
    assert {name: each.status for name, each in blind.items()} == {n: e.status for n, e in verdicts(old).items()}


def test_a_ledger_has_what_packets_said_and_is_judged_alike() -> None:
    seen = Packets(delivered=in_phase(At.BARE_NODE, 4, settled)).witness(World().seen())
    seen.blind = "the capture on worker-c is empty"
    again = read_judged("flips", judged("flips", seen)["seen"])
    assert again == seen
    assert verdicts(again) == verdicts(seen)


def test_the_summary_says_how_many_connections_packets_show() -> None:
    seen = Packets(lies=in_phase(At.ENDPOINT_NODE, 2)).witness(World().seen())
    made = [each for of in seen.witnesses.values() for each in of]
    lies = sum(bool(each.contradiction) for each in made)
    assert SAMPLED < lies < 2 * SAMPLED, "the first ones of the phase still are as under Cluster"
    text = " ".join(" ".join(summary_lines(summary, seen)).split())
    assert f"packets show {len(made) - lies} of {len(made)} connections that were followed" in text
    assert f"{lies} contradict the echo server" in text


def _samples(seen: PolicyChangeEvidence) -> Iterator[tuple[Stream, Sample]]:
    return ((stream, s) for course in seen.courses.values() for stream in course.data.values() for s in stream.samples)
