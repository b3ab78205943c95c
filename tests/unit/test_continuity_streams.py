"""Streams of continuity that are no TCP connections: who may be silent for how long, and whose address pods see."""

from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from esipp.base.clock import Clock
from esipp.base.errors import HarnessError
from esipp.checks.check import Status, Verdict
from esipp.checks.continuity import NODEPORT, SERVED_UNREADY, STALE, ContinuityCheck, Phase, Way
from esipp.checks.model import Family, TrafficPolicy
from esipp.checks.stream import RECOVERS, Reuse, StreamKind
from esipp.judging.frame import Decision
from esipp.judging.timeline import SLICE_GONE, Mark, Sample, Stream
from esipp.probing.prober import Target
from esipp.scenarios.continuity.evidence import ContinuityEvidence, LinkChange
from esipp.scenarios.continuity.judge import Judge
from esipp.scenarios.continuity.traffic import Streams, Targets
from suites.continuity.checks import CHECKS as ALL_CHECKS
from suites.continuity.checks import WAYS
from suites.continuity.events import EVENTS, STREAMS, why_empty
from suites.streams import BULK, DATAGRAMS, ONE_PORT, SCTP_NEW, SCTP_PORT, STORM, UDP_NEW, UDP_ONE_WAY, UDP_SOCKET
from tests.unit.continuity_world import (
    ADDRESS,
    BEGAN,
    CHECKS,
    FEATURES,
    RETURNED,
    SINCE,
    STRANGER,
    busy,
    changed,
    changed_stream,
    control_lost,
    differing,
    key,
    lost,
    world,
)
from tests.unit.verdicts import judge_with

LOCAL, CLUSTER = "nodeport.local", "nodeport.cluster"
STEADY_KINDS = (UDP_SOCKET, UDP_NEW, UDP_ONE_WAY, SCTP_PORT, SCTP_NEW)


def silent(sample: Sample) -> Sample:
    return Sample(sample.seq, sample.started, sample.started + 1.0, "timeout")


def check_id(phase: Phase, slug: str, kind: StreamKind) -> str:
    return f"continuity.{phase.value}.{slug}.ipv4.{kind.name}"


def decided(seen: ContinuityEvidence, name: str) -> Decision:
    (check,) = (each for each in CHECKS if each.id == name)
    return Judge(seen).decide(check)


# ---------------------------------------------------------------------------------------------------------- the table
def test_every_field_has_checks_or_a_reason() -> None:
    crossed = {(c.subject.phase, c.subject.way, c.subject.stream) for c in ALL_CHECKS if c.subject.stream}
    for event in EVENTS:
        for way in WAYS:
            for kind in STREAMS:
                assert ((event.phase, way, kind) in crossed) == (why_empty(event, way, kind) == "")


def test_names_of_streams_are_no_claims() -> None:
    assert len({kind.name for kind in STREAMS}) == len(STREAMS)
    assert len({check.id for check in ALL_CHECKS}) == len(ALL_CHECKS)


# -------------------------------------------------------------------------------------------------------- the verdict
@pytest.mark.parametrize("kind", STEADY_KINDS)
def test_a_stream_that_stays_silent_beside_tcp_fails_in_the_phase_in_which_that_began(kind: StreamKind) -> None:
    began = BEGAN[Phase.POLICY_CHANGES] + 2
    seen = changed_stream(world(), CLUSTER, kind, began, began + 13, silent)
    assert differing(seen) == {check_id(Phase.POLICY_CHANGES, CLUSTER, kind): Status.FAIL}


@pytest.mark.parametrize("kind", [UDP_SOCKET, SCTP_PORT])
def test_a_shorter_silence_is_allowed(kind: StreamKind) -> None:
    began = BEGAN[Phase.POLICY_CHANGES] + 2
    seen = changed_stream(world(), CLUSTER, kind, began, began + kind.recovers - 0.8, silent)
    assert differing(seen) == {}
    assert "lost" in decided(seen, check_id(Phase.POLICY_CHANGES, CLUSTER, kind)).observed


def test_a_second_of_silence_while_nothing_changes_is_too_much() -> None:
    seen = changed_stream(world(), LOCAL, UDP_SOCKET, SINCE + 1, SINCE + 2.6, silent)
    assert differing(seen) == {check_id(Phase.QUIET, LOCAL, UDP_SOCKET): Status.FAIL}


def elsewhere(sample: Sample) -> Sample:
    return sample._replace(pod="another", node="c")


@pytest.mark.parametrize("phase", [phase for phase in Phase if phase is not Phase.QUIET])
def test_a_socket_keeps_its_pod_where_no_endpoint_changes(phase: Phase) -> None:
    """A restarted kube-proxy cleared all UDP entries (kubernetes/kubernetes#122740)."""
    event = next(event for event in EVENTS if event.phase is phase)
    began = BEGAN[phase] + 3
    seen = changed_stream(world(), CLUSTER, UDP_SOCKET, began, began + 2, elsewhere)
    name = check_id(phase, CLUSTER, UDP_SOCKET)
    if event.leaves_endpoints:
        assert differing(seen) == {name: Status.FAIL}
        assert "went on from" in decided(seen, name).reason
    else:
        assert differing(seen) == {}


def test_a_pod_that_is_no_longer_ready_loses_its_sockets() -> None:
    """Then an endpoint changed, although nothing was done to it."""
    began = BEGAN[Phase.KUBE_PROXY] + 3
    seen = changed_stream(world(), CLUSTER, UDP_SOCKET, began, began + 2, elsewhere)
    name = check_id(Phase.KUBE_PROXY, CLUSTER, UDP_SOCKET)
    (pod,) = {
        each.pod for each in seen.sent[key(CLUSTER)[0], Family.IPV4, UDP_SOCKET.name].view(began - 1, began - 0.1)
    }
    for pods, status in (((pod, "another"), Status.PASS), (("c1",), Status.FAIL)):
        marks = [*seen.marks, *(Mark(began - 0.1 if each == pod else began + 1.9, "unready", each) for each in pods)]
        assert decided(replace(seen, marks=marks), name).status is status


@pytest.mark.parametrize("kind", [UDP_NEW, SCTP_PORT])
def test_other_streams_may_reach_any_pod(kind: StreamKind) -> None:
    began = BEGAN[Phase.KUBE_PROXY] + 3
    assert differing(changed_stream(world(), CLUSTER, kind, began, began + 2, elsewhere)) == {}


def test_a_stream_may_reach_another_pod_from_its_next_port_on() -> None:
    """Each stream goes on from a new port at the end of each phase."""
    ended = next(window for window in world().windows if window.phase is Phase.KUBE_PROXY).until
    for since in (ended - 0.3, ended):
        seen = changed_stream(world(), CLUSTER, UDP_SOCKET, since, 1e6, elsewhere)
        assert check_id(Phase.KUBE_PROXY, CLUSTER, UDP_SOCKET) not in differing(seen)
        assert check_id(Phase.QUIET, CLUSTER, UDP_SOCKET) not in differing(seen)


def test_a_socket_keeps_its_pod_while_nothing_changes() -> None:
    ended = next(window for window in world().windows if window.phase is Phase.KUBE_PROXY).until
    seen = changed_stream(world(), CLUSTER, UDP_SOCKET, ended + 1.0, 1e6, elsewhere)
    assert differing(seen)[check_id(Phase.QUIET, CLUSTER, UDP_SOCKET)] is Status.FAIL


def test_a_silence_is_measured_by_tcp_on_the_same_way() -> None:
    began = BEGAN[Phase.POLICY_CHANGES] + 2
    seen = changed_stream(world(), CLUSTER, UDP_SOCKET, began, began + 13, silent)
    seen = changed(seen, CLUSTER, began, lost, count=40)
    name = check_id(Phase.POLICY_CHANGES, CLUSTER, UDP_SOCKET)
    assert name not in differing(seen)
    assert differing(changed(seen, "default.cluster", began, lost))[f"continuity.policy-flips.{CLUSTER}.ipv4.no-loss"]


def test_a_busy_machine_decides_nothing() -> None:
    began = BEGAN[Phase.POLICY_CHANGES] + 2
    seen = changed_stream(world(), CLUSTER, UDP_SOCKET, began, began + 13, silent)
    assert (
        differing(control_lost(seen, began))[check_id(Phase.POLICY_CHANGES, CLUSTER, UDP_SOCKET)] is Status.INCONCLUSIVE
    )
    assert differing(busy(seen, began, 2.0))[check_id(Phase.POLICY_CHANGES, CLUSTER, UDP_SOCKET)] is Status.INCONCLUSIVE


def test_one_in_ten_lost_while_nothing_changes_is_too_much_and_one_in_fifty_is_not() -> None:
    def one_in(count: int) -> Callable[[Sample], Sample]:
        return lambda sample: silent(sample) if sample.seq % count == 0 else sample

    few = changed_stream(world(), LOCAL, UDP_SOCKET, SINCE, 1e9, one_in(50))
    assert differing(few) == {}
    many = changed_stream(world(), LOCAL, UDP_SOCKET, SINCE, 1e9, one_in(10))
    assert differing(many) == {check_id(Phase.QUIET, LOCAL, UDP_SOCKET): Status.FAIL}


def test_a_wrong_source_of_one_datagram_is_noticed() -> None:
    began = BEGAN[Phase.DELETED] + 1
    wrong = changed_stream(world(), LOCAL, UDP_NEW, began, began + 0.2, lambda s: s._replace(source=STRANGER))
    assert differing(wrong) == {check_id(Phase.DELETED, LOCAL, UDP_NEW): Status.FAIL}
    at = BEGAN[Phase.CORDON] + 1
    masqueraded = changed_stream(world(), LOCAL, SCTP_NEW, at, at + 0.5, lambda s: s._replace(source=ADDRESS["a"]))
    assert differing(masqueraded) == {check_id(Phase.CORDON, LOCAL, SCTP_NEW): Status.FAIL}


def rewritten(kind: StreamKind, lag: float, source: str = ADDRESS["a"]) -> ContinuityEvidence:
    """The Service of another protocol is Local again only so many seconds after that of TCP."""
    back = BEGAN[Phase.POLICY_CHANGES] + RETURNED
    return changed_stream(world(), LOCAL, kind, back, back + lag, lambda s: s._replace(source=source))


@pytest.mark.parametrize("kind", [UDP_NEW, SCTP_NEW, UDP_SOCKET, SCTP_PORT])
def test_a_service_of_another_protocol_may_return_to_local_after_that_of_tcp_but_not_long_after(
    kind: StreamKind,
) -> None:
    name = check_id(Phase.POLICY_CHANGES, LOCAL, kind)
    assert differing(rewritten(kind, 1.4)) == {}, "rules of the one are written a sync after those of the other"
    assert differing(rewritten(kind, RECOVERS - 0.1)) == {}
    assert differing(rewritten(kind, RECOVERS + 1.5)) == {name: Status.FAIL}
    assert "192.0.2.1" in decided(rewritten(kind, RECOVERS + 1.5), name).reason
    assert differing(rewritten(kind, 1.4, STRANGER)) == {name: Status.FAIL}, "no policy shows this address"


def test_a_return_that_is_late_on_a_busy_machine_is_undecided() -> None:
    name, back = check_id(Phase.POLICY_CHANGES, LOCAL, UDP_NEW), BEGAN[Phase.POLICY_CHANGES] + RETURNED
    late = rewritten(UDP_NEW, RECOVERS + 1.5)
    assert differing(busy(late, back + 2.0, 1.0)) == {name: Status.INCONCLUSIVE}
    assert differing(rewritten(SCTP_NEW, RECOVERS + 0.6)) == {
        check_id(Phase.POLICY_CHANGES, LOCAL, SCTP_NEW): Status.INCONCLUSIVE
    }, "probes half a second apart cannot tell"


def stale(seen: ContinuityEvidence, kind: StreamKind) -> ContinuityEvidence:
    """A client whose port goes on to the pod that was deleted; others are answered."""
    since = BEGAN[Phase.DELETED] + 0.5 + 8
    return changed_stream(seen, LOCAL, kind, since, BEGAN[Phase.DELETED] + 22, silent)


def test_silence_after_the_pod_has_gone_is_stale_if_other_ports_are_answered() -> None:
    name = check_id(Phase.DELETED, LOCAL, SCTP_PORT)
    seen = stale(world(), SCTP_PORT)
    found = decided(seen, name)
    assert (found.status, found.evidence) == (Status.FAIL, STALE)
    assert "which was gone; from other ports" in found.reason
    (check,) = (each for each in CHECKS if each.id == name)
    judged = {
        proxy: judge_with(check, Judge(seen), FEATURES, {"service-proxy": proxy}).status
        for proxy in ("kube-proxy", "cilium")
    }
    assert judged == {"kube-proxy": Status.KNOWN, "cilium": Status.FAIL}
    assert decided(stale(seen, SCTP_NEW), name).evidence != STALE


@pytest.mark.parametrize("kind", [UDP_SOCKET, SCTP_PORT])
def test_no_node_can_know_that_a_pod_has_gone_before_its_endpoint_slice_says_so(kind: StreamKind) -> None:
    """On a busy machine, kubelets reported a pod's end up to 3.3 s late; kube-proxy followed in 4 s."""
    name, since = check_id(Phase.DELETED, CLUSTER, kind), BEGAN[Phase.DELETED] + 3
    seen = changed_stream(world(), CLUSTER, kind, since, since + kind.recovers + 3.0, silent)
    last = [each for each in seen.sent[key(CLUSTER)[0], Family.IPV4, kind.name].view(0.0, since) if each.answered][-1]

    def status(at: float, pod: str, family: Family = Family.IPV4) -> tuple[Status, str]:
        marks = [*seen.marks, Mark(since + at, SLICE_GONE, pod, family.value)]
        found = decided(replace(seen, marks=marks), name)
        return found.status, found.observed

    known, said = status(3.5, last.pod)
    assert known is Status.PASS
    assert "once its EndpointSlice no longer listed the pod" in said
    assert status(1.0, last.pod)[0] is Status.FAIL, "known for two seconds too long"
    assert status(3.5, "another")[0] is Status.FAIL
    assert status(3.5, last.pod, Family.IPV6)[0] is Status.FAIL
    assert status(kind.recovers + 4.0, last.pod)[0] is Status.FAIL, "it ended before anybody knew"


def test_a_silence_barely_too_long_on_a_busy_machine_is_undecided() -> None:
    began, name = BEGAN[Phase.POLICY_CHANGES] + 2, check_id(Phase.POLICY_CHANGES, CLUSTER, UDP_SOCKET)
    for seconds, late, status in (
        (UDP_SOCKET.recovers + 0.5, 0.0, Status.FAIL),
        (UDP_SOCKET.recovers + 0.5, 0.8, Status.INCONCLUSIVE),
        (UDP_SOCKET.recovers + 9.5, 0.8, Status.FAIL),
    ):
        seen = busy(changed_stream(world(), CLUSTER, UDP_SOCKET, began, began + seconds, silent), began + 1, late)
        assert decided(seen, name).status is status, (seconds, late)


def test_silence_before_any_change_is_not_stale() -> None:
    began = BEGAN[Phase.POLICY_CHANGES] + 2
    seen = changed_stream(world(), CLUSTER, SCTP_PORT, began, began + 13, silent)
    assert decided(seen, check_id(Phase.POLICY_CHANGES, CLUSTER, SCTP_PORT)).evidence == "lost"


def untranslated(phase: Phase = Phase.PROXY_MODE, after: float = 0.3, lasts: float = 9.0) -> ContinuityEvidence:
    """A node translates nothing for 0.7 s, and a client's SCTP port is silent from then on."""
    at = BEGAN[phase] + 3
    seen = changed_stream(world(), CLUSTER, UDP_SOCKET, at, at + 0.7, silent)
    return changed_stream(seen, CLUSTER, SCTP_PORT, at + after, at + after + lasts, silent)


def of_sctp_port(seen: ContinuityEvidence, phase: Phase = Phase.PROXY_MODE) -> Verdict:
    (check,) = (each for each in CHECKS if each.id == check_id(phase, CLUSTER, SCTP_PORT))
    return judge_with(check, Judge(seen), FEATURES, {"service-proxy": "kube-proxy"})


def test_a_port_that_a_node_did_not_translate_once_is_a_finding() -> None:
    """24 and 26 of 48 INITs were lost, 9.0 and 11.0 s at most (kind-iptables, 2026-11-29)."""
    found = of_sctp_port(untranslated())
    assert found.status is Status.KNOWN
    assert "as it began, node b answered no datagram of the established UDP flow" in found.observed


def test_a_port_that_is_silent_for_another_reason_is_none_of_these() -> None:
    at = BEGAN[Phase.PROXY_MODE] + 3
    alone = changed_stream(world(), CLUSTER, SCTP_PORT, at, at + 9, silent)
    lies = {
        "the node translated": alone,
        "another node did not": changed_stream(alone, LOCAL, UDP_SOCKET, at, at + 0.7, silent),
        "silent before that": untranslated(after=-1.1),
        "silent from later on": untranslated(after=1.1),
        "silent for too long": untranslated(lasts=14),
        "and once more": changed_stream(untranslated(lasts=7), CLUSTER, SCTP_PORT, at + 13, at + 20, silent),
        "all other ports are, too": changed_stream(untranslated(), CLUSTER, SCTP_NEW, at, at + 10, silent),
    }
    found = {name: of_sctp_port(lie).status for name, lie in lies.items()}
    assert found == dict.fromkeys(lies, Status.FAIL)


def test_in_no_other_phase_a_port_may_stay_untranslated() -> None:
    phase = Phase.POLICY_CHANGES
    assert of_sctp_port(untranslated(phase), phase).status is Status.FAIL


def test_udp_that_goes_on_to_a_pod_that_is_gone_is_not_known() -> None:
    name = check_id(Phase.DELETED, LOCAL, UDP_SOCKET)
    assert differing(stale(world(), UDP_SOCKET)) == {name: Status.FAIL}


def test_what_a_pod_had_counted_that_is_gone_is_not_known() -> None:
    began = BEGAN[Phase.DELETED]
    seen = changed_stream(world(), LOCAL, UDP_ONE_WAY, began, began + 13, silent)
    assert differing(seen) == {}
    unknown = replace(world(), uncounted="node a has no agent")
    assert set(differing(unknown).values()) == {Status.INCONCLUSIVE}


def test_what_pods_had_counted_before_they_could_not_be_asked_is_known() -> None:
    """Once, a kubelet was stopped in the last phase, and the checks of all earlier phases were undecided, too."""
    later = BEGAN[Phase.DELETED]
    cut = replace(world(), uncounted="the agent on b is gone", counted_until=later - 1)
    undecided = {name for name, status in differing(cut).items() if status is Status.INCONCLUSIVE}
    before = {phase for phase, began in BEGAN.items() if began < later}
    assert undecided
    assert not any(f".{phase}." in name for name in undecided for phase in before | {Phase.QUIET})
    assert set(differing(cut).values()) == {Status.INCONCLUSIVE}
    lost = changed_stream(cut, LOCAL, UDP_ONE_WAY, SINCE, later - 1, silent)
    assert differing(lost)[check_id(Phase.QUIET, LOCAL, UDP_ONE_WAY)] is Status.FAIL


# ----------------------------------------------------------------------------------------------- large packets
def test_datagrams_of_a_size_that_are_lost_are_noticed() -> None:
    for kind in DATAGRAMS:
        seen = changed_stream(world(), LOCAL, kind, 0, 1e9, silent)
        assert differing(seen) == {check_id(Phase.QUIET, LOCAL, kind): Status.FAIL}


@pytest.mark.parametrize(
    ("slug", "since", "mode", "status"),
    [
        (CLUSTER, 0.0, "dsr", Status.KNOWN),
        (CLUSTER, 0.0, "snat", Status.FAIL),
        (CLUSTER, SINCE + 1.0, "dsr", Status.FAIL),  # some went through
        (LOCAL, 0.0, "dsr", Status.FAIL),  # to a pod of the dialled node
    ],
)
def test_large_datagrams_to_another_node_are_lost_in_dsr_mode(
    slug: str, since: float, mode: str, status: Status
) -> None:
    kind = DATAGRAMS[1]
    seen = changed_stream(world(), slug, kind, since, 1e9, silent)
    (check,) = (each for each in CHECKS if each.id == check_id(Phase.QUIET, slug, kind))
    facts = {"service-proxy": "cilium", "cilium.load-balancer-mode": mode}
    assert judge_with(check, Judge(seen), FEATURES, facts).status is status


def test_a_packet_that_the_network_calls_too_large_is_one_that_may_be_lost() -> None:
    kind = DATAGRAMS[1]
    seen = changed_stream(world(), LOCAL, kind, 0, SINCE + 0.1, silent)
    details = {(f"{LOCAL} IPv4 {kind.name}", 0): "EMSGSIZE: Message too long (ICMP type 3 code 4 from 192.0.2.1)"}
    seen = replace(seen, details=details)
    found = decided(seen, check_id(Phase.QUIET, LOCAL, kind))
    assert found.status is Status.PASS
    assert "1 too large for a link" in found.observed


def test_one_transfer_that_is_reset_is_noticed() -> None:
    for slug in (LOCAL, "reference-proxy.local"):
        seen = changed_stream(
            world(), slug, BULK[0], 0, SINCE + 0.1, lambda s: Sample(s.seq, s.started, s.ended, "reset")
        )
        assert differing(seen) == {check_id(Phase.QUIET, slug, BULK[0]): Status.FAIL}


def test_a_transfer_beside_tcp_that_fails_too_is_undecided() -> None:
    seen = changed_stream(world(), LOCAL, BULK[0], 0, SINCE + 0.1, silent)
    seen = changed(seen, LOCAL, SINCE - 2, lost, count=50)
    assert differing(seen)[check_id(Phase.QUIET, LOCAL, BULK[0])] is Status.INCONCLUSIVE


# --------------------------------------------------------------------------------------------- certain source ports
def test_a_connection_from_a_port_that_others_have_too_must_be_answered() -> None:
    seen = changed_stream(world(), LOCAL, ONE_PORT, SINCE, SINCE + 0.2, silent)
    name = check_id(Phase.QUIET, LOCAL, ONE_PORT)
    assert differing(seen) == {name: Status.FAIL}
    (check,) = (each for each in CHECKS if each.id == name)
    assert judge_with(check, Judge(seen), FEATURES, {"service-proxy": "cilium"}).status is Status.KNOWN
    for outcome, status in (("reset", Status.KNOWN), ("refused", Status.FAIL)):
        broken = changed_stream(
            world(), LOCAL, ONE_PORT, SINCE, SINCE + 0.2, lambda s, o=outcome: Sample(s.seq, s.started, s.ended, o)
        )
        assert judge_with(check, Judge(broken), FEATURES, {"service-proxy": "cilium"}).status is status
        assert judge_with(check, Judge(broken), FEATURES, {"service-proxy": "kube-proxy"}).status is Status.FAIL


def test_a_connection_of_a_storm_that_is_lost_is_noticed_and_a_port_in_use_is_not() -> None:
    seen = changed_stream(world(), CLUSTER, STORM, SINCE + 0.1, SINCE + 0.1005, silent)
    assert differing(seen) == {check_id(Phase.QUIET, CLUSTER, STORM): Status.FAIL}
    held = changed_stream(
        world(), CLUSTER, STORM, SINCE, SINCE + 0.1, lambda s: Sample(s.seq, s.started, s.ended, "error")
    )
    assert differing(held) == {}
    seen = changed_stream(seen, CLUSTER, STORM, SINCE + 0.2, 1e9, lambda s: Sample(s.seq, s.started, s.ended, "error"))
    assert differing(seen) == {check_id(Phase.QUIET, CLUSTER, STORM): Status.FAIL}
    unmade = changed_stream(world(), CLUSTER, STORM, SINCE, 1e9, lambda s: Sample(s.seq, s.started, s.ended, "error"))
    assert differing(unmade) == {check_id(Phase.QUIET, CLUSTER, STORM): Status.ERROR}


# -------------------------------------------------------------------------------------------------------- the traffic
WAY = Way(NODEPORT, TrafficPolicy.LOCAL)


class Running:
    def __init__(self, sink: Callable[[dict[str, Any]], None], job: Any) -> None:
        self.sink, self.job, self.cancelled = sink, job, False

    def cancel(self) -> None:
        self.cancelled = True

    def wait(self, seconds: float) -> None:
        assert seconds > 0

    def says(self, seq: int, started: float, outcome: str = "answered", **more: Any) -> None:
        self.sink({"seq": seq, "started": started, "ended": started + 0.01, "outcome": outcome, **more})


def traffic(*kinds: StreamKind) -> tuple[Streams, list[Running]]:
    made: list[Running] = []

    def stream(job: Any, sink: Callable[[dict[str, Any]], None]) -> Running:
        made.append(Running(sink, job))
        if job.protocol == "bulk":
            made[-1].says(0, 100.0, "reset" if job.size > 1_000_000 else "answered")
        return made[-1]

    target = Target("192.0.2.1", 30000)
    sent = {(WAY, Family.IPV4, kind): target for kind in kinds}
    prober: Any = SimpleNamespace(stream=stream)
    return Streams(prober, Targets({}, {}, {}, {}, sent), Clock(0.0, 0.0)), made


def test_where_the_frames_to_the_own_vip_go_is_followed() -> None:
    streams, made = traffic()
    (way,) = (way for way in WAYS if way.slug == "default.local")
    streams.targets = Targets({(way, Family.IPV4): Target("192.0.2.9", 80)}, {}, {})
    streams.start()
    (link,) = (running for running in made if running.job.protocol == "neighbour")
    assert link.job.order("x") == {"id": "x", "protocol": "neighbour", "host": "192.0.2.9", "count": 1_000_000}
    link.says(0, 10.0, link="02:00:00:00:00:01", addresses=["192.0.2.1"])
    link.says(1, 11.0, "error", link="", addresses=[])
    assert streams.links == {(way, Family.IPV4): [LinkChange(10.0, "02:00:00:00:00:01", ("192.0.2.1",))]}
    for seq in range(13):
        streams.streams[way, Family.IPV4].add(Sample(seq, 12 + seq / 10, 12 + seq / 10, "answered", "p", "n", STRANGER))
    link.says(2, 12.0, link="02:00:00:00:00:01", addresses=["192.0.2.1", "192.0.2.7"])  # no move
    assert streams.unsettled(13.3, [(way, Family.IPV4)]) == []
    link.says(3, 12.1, link="02:00:00:00:00:02", addresses=["192.0.2.2"])
    assert streams.unsettled(13.3, [(way, Family.IPV4)]) == ["default.local IPv4"]
    streams.stop()
    assert link.cancelled


def test_a_stream_that_keeps_its_port_goes_on_from_another_one_in_the_same_stream() -> None:
    streams, made = traffic(UDP_SOCKET, UDP_NEW)
    streams.start()
    made[0].says(0, 10.0)
    made[0].says(1, 10.1, "timeout", detail="no answer")
    streams.renew()
    assert [running.cancelled for running in made] == [True, False, False]
    made[2].says(0, 10.2)
    streams.stop()
    joined = streams.sent[WAY, Family.IPV4, "udp-socket"]
    assert [(sample.seq, sample.outcome) for sample in joined.samples] == [
        (0, "answered"), (1, "timeout"), (2, "answered"),
    ]  # fmt: skip
    assert streams.details == {("nodeport.local IPv4 udp-socket", 1): "no answer"}


def test_a_stream_is_silent_that_was_answered_and_is_no_more_until_that_is_known() -> None:
    streams, made = traffic(UDP_SOCKET, SCTP_PORT)
    control = streams.streams[WAY, Family.IPV4] = Stream("control", 0.1)
    streams.start()
    assert streams.silent(10.0) == []
    made[0].says(0, 10.0)
    for seq in range(150):
        at = 10.0 + seq / 10
        control.add(Sample(seq, at, at + 0.01, "timeout" if at < 12 else "answered"))
    assert streams.silent(11.0) == []
    assert streams.silent(13.0) == ["nodeport.local IPv4 udp-socket 0"]
    assert streams.silent(17.0) == ["nodeport.local IPv4 udp-socket 0"]
    assert streams.silent(24.6) == []
    assert streams.silent(24.6, [Mark(18.0, SLICE_GONE, "p", "IPv4")]) == ["nodeport.local IPv4 udp-socket 0"]


def test_a_larger_transfer_is_made_where_a_smaller_one_was_complete() -> None:
    streams, made = traffic(*BULK, *DATAGRAMS)
    streams.send_counted(lambda: None)
    assert [running.job.size for running in made if running.job.protocol == "bulk"] == [1_000_000, 10_000_000]
    assert {running.job.count for running in made if running.job.protocol == "udp"} == {8}


def test_storms_share_no_source_port_with_each_other_or_with_connections_from_one_port() -> None:
    """A storm of one Service lost a connection at a port that another one had just used (kind-cilium, 2026-11-30)."""
    streams, made = traffic(ONE_PORT, STORM, replace(STORM, name="another"))
    streams.send_counted(lambda: None)
    orders = [running.job.order("x")["source_port"] for running in made]
    (one, last), *storms = sorted(orders)
    assert one == last
    assert storms == [[one + 1, one + 250], [one + 251, one + 500]]


def test_a_pod_that_does_not_answer_is_an_error_of_ours() -> None:
    streams, made = traffic(UDP_ONE_WAY)
    streams.start()
    made[0].says(0, 10.0, "sent", nonce="a:b:0")

    def ask(_: Any) -> Any:
        return SimpleNamespace(result=lambda _: [{"outcome": "timeout", "detail": "not connected"}])

    silent_pod: Any = SimpleNamespace(ask=ask)
    with pytest.raises(HarnessError, match="not connected"):
        streams.ask_arrived(silent_pod, Target("10.0.0.1", 8080), "a")
    assert streams.counts
    assert UDP_ONE_WAY.reuse is Reuse.ONE_WAY


def test_sctp_that_goes_on_to_a_pod_that_is_no_longer_ready_is_known_and_udp_is_not() -> None:
    """kube-proxy cleans connection tracking for UDP alone (kubernetes/kubernetes#101968)."""
    pod = next(mark.pod for mark in world().marks if mark.what == "unready" and mark.at > BEGAN[Phase.FLAPS])
    out = BEGAN[Phase.FLAPS] + 1.0
    marks = [each for each in world().marks if each.pod != pod or not out - 1 < each.at < out + 21]
    marks += [Mark(out, "slice-unready", pod, "IPv4"), Mark(out + 0.2, "slice-unready-beside", pod)]
    marks += [Mark(out + 14.0, "slice-ready", pod, "IPv4")]

    def goes_on(sample: Sample) -> Sample:
        return sample._replace(outcome="answered", pod=pod, node="a", source=ADDRESS["b"], ended=sample.started + 0.01)

    for kind in (SCTP_PORT, UDP_SOCKET):
        for lasts, late in ((kind.recovers, False), (kind.recovers + 3.0, True)):
            seen = changed_stream(replace(world(), marks=marks), CLUSTER, kind, out, out + lasts, goes_on)
            seen = changed_stream(seen, CLUSTER, kind, out + lasts, out + 14.0, elsewhere)
            said = decided(seen, check_id(Phase.FLAPS, CLUSTER, kind))
            assert (said.evidence == SERVED_UNREADY) is late, said
            if late:
                assert f"unready in all EndpointSlices ({kind.recovers:.0f} s allowed)" in said.reason
    ending = [*marks, Mark(out - 0.1, "deleting", pod)]
    again = [*marks, Mark(out + 0.1, "slice-ready", pod, "IPv4")]
    for kind, these in (
        (UDP_SOCKET, ending),  # a pod that terminates may serve on
        (UDP_SOCKET, again),  # the pod is ready before the slices of other Services say that it was not
        (UDP_ONE_WAY, marks),  # no pod answers
    ):
        seen = changed_stream(replace(world(), marks=these), CLUSTER, kind, out, out + 13.0, goes_on)
        seen = changed_stream(seen, CLUSTER, kind, out + 13.0, out + 14.0, elsewhere)
        assert decided(seen, check_id(Phase.FLAPS, CLUSTER, kind)).evidence != SERVED_UNREADY
    known = {each.covers for each in check_of(Phase.FLAPS, SCTP_PORT).differences}
    assert SERVED_UNREADY in known
    assert SERVED_UNREADY not in {each.covers for each in check_of(Phase.FLAPS, UDP_SOCKET).differences}


def check_of(phase: Phase, kind: StreamKind) -> ContinuityCheck:
    return next(each for each in CHECKS if each.id == check_id(phase, CLUSTER, kind))
