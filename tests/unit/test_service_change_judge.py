"""The judge of changes to Services and pods: what it lets pass, what it sees, and what it leaves undecided."""

from dataclasses import replace
from fnmatch import fnmatchcase

import pytest

from esipp.checks.check import Feature, Level, Status, Verdict
from esipp.checks.model import Family, Protocol
from esipp.checks.stream import Reuse
from esipp.checks.timing import FIELD_LIMIT
from esipp.judging.frame import OVERLOADED, Known, run_queue
from esipp.judging.scenario import scenario_of
from esipp.judging.timeline import MOST_GAP, Sample, Stream
from esipp.scenarios.service_change.evidence import ServiceChangeEvidence
from esipp.scenarios.service_change.judge import UNCHANGED
from esipp.scenarios.service_change.subject import At, Claim, Event, is_closed
from suites.changes.checks import CHECKS as ALL
from suites.changes.events import EVENTS, why_not
from suites.changes.streams import COMPARED, ENTRIES, EXPIRED, STREAMS, UDP_IDLE
from tests.unit.service_change_world import EVERY, HOME, SPACING, World, event_of, frozen

NOT_PRETENDED = ("idle", "idle-3-min", "idle-16-min", "scaled-to-fifty")
"""Events that the pretended cluster does not know, nor what leaves a pod from a Service's nodePort."""

CHECKS = [
    check
    for check in ALL
    if check.subject.family is Family.IPV4
    and check.subject.event.name not in NOT_PRETENDED
    and check.subject.at.value != "out-of-its-node-port"
    and check.level is not Level.RECORD
    and check.subject.stream is not UDP_IDLE
]
FEATURES = {name: Feature(True, "made up") for check in CHECKS for name in check.features}
POSITIVE = ("served", "refused", "every-pod", "same-pod")
CILIUM = {"service-proxy": "cilium"}
KUBE_PROXY = {"service-proxy": "kube-proxy", "kubernetes": "v1.36.3", "kube-proxy-version": "1.36.3"}


NAMES = frozenset(stream.name for stream in STREAMS)


def verdicts(seen: ServiceChangeEvidence, facts: dict[str, str] | None = None, of: str = "") -> dict[str, Verdict]:
    """The verdicts on all checks, or on those of one event."""
    known = Known(facts or {}, FEATURES)
    checks = [check for check in CHECKS if not of or check.subject.event.name == of]
    return {check.id: scenario_of(check).judge(check, seen, known) for check in checks}


def statuses(world: World, facts: dict[str, str] | None = None) -> dict[str, Status]:
    return {name: verdict.status for name, verdict in verdicts(world.seen(), facts).items()}


def those(found: dict[str, Status], *statuses: Status) -> set[str]:
    return {name for name, status in found.items() if status in statuses}


def matching(*patterns: str) -> set[str]:
    return {check.id for check in CHECKS if any(fnmatchcase(check.id, pattern) for pattern in patterns)}


LONGER = matching("changes.proxy-sick.*", "changes.proxy-slow.*", "changes.node-readdressed.other-node.*")
"""Checks of events with stages that may last longer than those of this world."""

TRACKED = matching(*(f"changes.{name}.*" for name in ("scaled-to-zero", "replaced", "deleted", "taken-over")))
"""Checks of the events that all streams see."""


@pytest.mark.parametrize("lag", [0.1, 2.0])
def test_a_cluster_that_follows_passes(lag: float) -> None:
    assert set(statuses(World(lag=lag)).values()) == {Status.PASS}


def test_what_follows_within_the_limit_passes_and_later_does_not() -> None:
    assert set(statuses(World(lag=28.0, every=40.0)).values()) == {Status.PASS}
    late = statuses(World(lag=33.0, every=40.0))
    assert those(late, Status.FAIL) & TRACKED == TRACKED - matching("*.refused")


def test_a_stage_of_which_no_endpoint_slice_tells_says_nothing_of_nodes_that_go_on_as_before() -> None:
    def blamed(lie: World, late: float = 35.0) -> tuple[set[str], set[str]]:
        """The checks that fail, and those that are undecided if the EndpointSlices changed so late."""
        lie = replace(lie, every=40.0)
        seen = lie.seen("replaced")
        before = {name: verdict.status for name, verdict in verdicts(seen, of="replaced").items()}
        stages = seen.events["replaced"].stages
        stages[1] = replace(stages[1], unwritten=stages[1].accepted + late)
        after = verdicts(seen, of="replaced")
        untold = {name for name, verdict in after.items() if UNCHANGED in verdict.reason}
        assert {name for name in before if after[name].status is not before[name]} == untold
        return those(before, Status.FAIL), untold

    failed, untold = blamed(World(keeps=frozenset({"tcp-new"})))
    assert failed == untold == matching("changes.replaced.*.tcp-new.*")
    silent, untold = blamed(World(silent=frozenset({"tcp-new"})))
    assert silent
    assert not untold, "the pods of before did not answer either"
    failed, untold = blamed(World(keeps=frozenset({"tcp-new"})), late=5.0)
    assert failed
    assert not untold, "nodes had all the time that they may take"
    failed, untold = blamed(World(lag=33.0), late=10.0)
    assert untold, "nodes followed late, and within their time of the EndpointSlices' change"
    assert untold <= failed
    failed, untold = blamed(World(lag=33.0), late=1.0)
    assert failed
    assert not untold, "nodes had all the time that they may take, and followed later"


def test_one_way_datagrams_that_go_on_to_the_pods_of_before_fail() -> None:
    failed = those(statuses(World(keeps=frozenset({"udp-one-way"}))), Status.FAIL)
    expected = matching("changes.replaced.*.udp-one-way.*.served")
    assert expected
    assert failed >= expected


@pytest.mark.parametrize("name", ["tcp-new", "udp-new", "sctp-new"])
def test_new_flows_that_reach_pods_of_before_fail_everywhere(name: str) -> None:
    found = statuses(World(keeps=frozenset({name})), KUBE_PROXY)
    assert those(found, Status.FAIL) & TRACKED == matching(f"*.{name}.*") & TRACKED
    several = matching("*.scaled-up-and-down.*", "*.one-source-port.*", "*.affinity.*", "*.affinity-local.*") | LONGER
    assert those(found, Status.FAIL) >= matching(f"*.{name}.*.gone") - several
    assert not those(found, Status.KNOWN)


def test_a_socket_that_still_reaches_the_pods_of_before_is_a_known_defect_of_kube_proxy() -> None:
    world = World(keeps=frozenset({"udp-socket"}))
    found = statuses(world, KUBE_PROXY)
    gone = matching(*(f"changes.{name}.*.udp-socket.*.gone" for name in ("scaled-to-zero", "deleted", "retyped*")))
    gone |= matching("changes.one-node-port.*.udp-socket.*.gone", "changes.vip-udp.*.udp-socket.*.gone")
    gone |= matching(*(f"changes.{name}.*.udp-socket.*.gone" for name in ("proxy-stopped-deleted", "network-agent-*")))
    gone |= matching("changes.address-added-local.*.udp-socket.*.gone", "changes.port-*.udp-socket.*.gone")
    served = matching("changes.one-node-port.shared-node-port.udp-socket.*.served")
    served |= matching("changes.deleted.*.udp-socket.*.served")
    assert those(found, Status.KNOWN) == gone | served
    assert those(found, Status.FAIL) & TRACKED == matching("*.udp-socket.*") & TRACKED - gone - served
    assert not those(statuses(world), Status.KNOWN), "it is kube-proxy's"
    lost = statuses(World(keeps=frozenset({"udp-socket", "udp-new"})), KUBE_PROXY)
    assert served <= those(lost, Status.FAIL), "new flows are not answered either, or by the same pod"


@pytest.mark.parametrize(("of_before", "status"), [(True, Status.KNOWN), (False, Status.FAIL)])
def test_an_older_flow_that_ends_too_late_is_known_by_what_it_reached_until_then(
    of_before: bool, status: Status
) -> None:
    """The client forgot the way to the VIP 30.1 s after the Service was deleted (kind-iptables, 2026-11-27)."""
    every, asked = 40.0, (At.VIP, "udp-socket", Family.IPV4)
    seen = World(every=every).seen("vip-udp")
    event = seen.events["vip-udp"]
    old, began = event.streams[asked], every * (len(event.stages) - 1)
    pod = event.stages[-2].pods[0] if of_before else "a-stranger"
    made = [each for each in old.samples if each.started < began]
    for each in old.samples[len(made) :]:
        times = each.seq, each.started
        if each.started < began + FIELD_LIMIT + 1.0:
            made.append(Sample(*times, each.started + 0.002, "answered", pod, HOME, each.source or "192.0.2.9"))
        else:
            made.append(Sample(*times, each.started + 1.0, "timeout"))
    event.streams[asked] = frozen(Stream(old.name, old.spacing, made))
    said = verdicts(seen, KUBE_PROXY, of="vip-udp")["changes.vip-udp.vip.udp-socket.ipv4.gone"]
    assert said.status is status
    if status is Status.FAIL:
        assert "not answered by another pod only 31." in said.reason


def affinity_shows(*shown: str) -> ServiceChangeEvidence:
    """New connections of a client with an affinity, which these pods answer in turn after their Service left them."""
    seen = World().seen("affinity")
    event, asked = seen.events["affinity"], (At.BARE_NODE, "tcp-new", Family.IPV4)
    left = event.of_stages(asked)[2]
    made = [
        sample._replace(pod=shown[sample.seq % len(shown)])
        if left.stage.cause <= sample.started < left.until
        else sample
        for sample in event.streams[asked].samples
    ]
    event.streams[asked] = frozen(Stream(" ".join(asked), SPACING, made))
    return seen


def test_a_client_that_its_affinity_keeps_at_the_pod_of_before_is_known_of_cilium_and_only_there() -> None:
    had, _, another, *_ = event_of("affinity").changes[1].names
    for shown, status in (((had,), Status.KNOWN), ((another,), Status.FAIL), ((had, another), Status.FAIL)):
        found = verdicts(affinity_shows(*shown), CILIUM, of="affinity")
        kept = {found[f"changes.affinity.bare-node.tcp-new.ipv4.{claim}"].status for claim in ("served", "gone")}
        assert kept == {status}, shown
    assert (
        verdicts(affinity_shows(had), of="affinity")["changes.affinity.bare-node.tcp-new.ipv4.served"].status
        is Status.FAIL
    )


def namesake_shows(answered: str = "") -> ServiceChangeEvidence:
    """New connections while another Service loses the pods of this one: a pod answers them, or nobody."""
    seen = World().seen("namesake")
    event, asked = seen.events["namesake"], (At.BARE_NODE, "tcp-new", Family.IPV4)
    began = event.of_stages(asked)[2].stage.accepted
    made = [
        sample
        if sample.started < began
        else sample._replace(pod=answered)
        if answered
        else Sample(sample.seq, sample.started, sample.started + 1.0, "timeout")
        for sample in event.streams[asked].samples
    ]
    event.streams[asked] = frozen(Stream(" ".join(asked), SPACING, made))
    return seen


@pytest.mark.parametrize(
    ("facts", "answered", "status"),
    [
        ({**CILIUM, "cilium.version": "1.18.6"}, "", Status.KNOWN),
        ({**CILIUM, "cilium.version": "1.18.6"}, "a-stranger", Status.FAIL),
        ({**CILIUM, "cilium.version": "1.19.0"}, "", Status.FAIL),
        (KUBE_PROXY, "", Status.FAIL),
    ],
)
def test_an_endpoint_that_is_lost_with_a_namesake_is_known_of_some_versions_of_cilium(
    facts: dict[str, str], answered: str, status: Status
) -> None:
    found = verdicts(namesake_shows(answered), facts, of="namesake")
    assert found["changes.namesake.bare-node.tcp-new.ipv4.served"].status is status
    assert found["changes.namesake.endpoint-node.tcp-new.ipv4.served"].status is Status.PASS


def test_no_service_name_begins_another_one() -> None:
    names = [name for event in EVENTS for name in (event.service, event.another) if name]
    assert not [one for one in names for other in names if one != other and other.startswith(one)]


def test_what_cilium_keeps_at_a_pod_of_before_is_known_for_old_flows_only() -> None:
    found = statuses(World(keeps=frozenset({"udp-socket"})), CILIUM)
    assert those(found, Status.KNOWN) >= matching("*.scaled-to-zero.*.udp-socket.*.served") != set()
    kept = matching("*.udp-socket.*.served", "*.udp-socket.*.gone")
    kept -= matching("*.one-node-port.*", "*.moved-local.bare-node.*")  # no pod served these at first
    kept -= matching("*.address-reused.*another-service.*")
    kept -= matching(
        "*.one-node-port.*", "*.moved-local.bare-node.*", "*.clusterip-at-later-port.*"
    )  # no pod served these at first
    assert not those(found, Status.FAIL) & kept
    both = statuses(World(keeps=frozenset({"udp-socket", "udp-new"})), CILIUM)
    assert those(both, Status.FAIL) >= matching(
        "*.scaled-to-zero.*.udp-socket.*.gone", "*.scaled-to-zero.*.udp-new.*.gone"
    )
    new = statuses(World(keeps=frozenset({"tcp-new"})), CILIUM)
    assert those(new, Status.KNOWN) == matching("*.affinity*.tcp-new.*.served", "*.affinity*.tcp-new.*.gone")
    assert those(new, Status.FAIL) & TRACKED == matching("*.tcp-new.*") & TRACKED


def test_an_sctp_client_with_one_port_that_reaches_the_pod_of_before_is_a_known_defect_everywhere() -> None:
    found = statuses(World(keeps=frozenset({"sctp-port"})), KUBE_PROXY)
    assert those(found, Status.KNOWN) == matching("*.sctp-port.*")
    silent = statuses(World(silent=frozenset({"sctp-port"})), KUBE_PROXY)
    assert those(silent, Status.FAIL) == matching("*.sctp-port.*.served"), "nobody knows where these went"


def test_it_is_no_known_defect_if_new_sockets_reach_the_pods_of_before_too() -> None:
    found = statuses(World(keeps=frozenset({"udp-socket", "udp-new"})), KUBE_PROXY)
    assert not those(found, Status.KNOWN)


@pytest.mark.parametrize(("version", "status"), [("1.33.7", Status.KNOWN), ("1.34.0", Status.FAIL)])
def test_a_socket_that_still_reaches_the_target_port_of_before_is_known_of_some_versions(
    version: str, status: Status
) -> None:
    seen = World(keeps=frozenset({"udp-socket"})).seen("target-port")
    found = verdicts(seen, KUBE_PROXY | {"kube-proxy-version": version}, of="target-port")
    assert {verdict.status for name, verdict in found.items() if ".udp-socket." in name} == {status}
    assert {verdict.status for name, verdict in found.items() if ".udp-socket." not in name} == {Status.PASS}
    seen = World(keeps=frozenset({"udp-socket", "udp-new"})).seen("target-port")
    found = verdicts(seen, KUBE_PROXY | {"kube-proxy-version": version}, of="target-port")
    assert {verdict.status for name, verdict in found.items() if ".udp-socket." in name} == {Status.FAIL}


def test_a_later_version_does_not_have_the_defect() -> None:
    found = statuses(World(keeps=frozenset({"udp-socket"})), {**KUBE_PROXY, "kube-proxy-version": "1.37.0"})
    deleted = matching("changes.deleted.*.udp-socket.*.gone", "changes.deleted.*.udp-socket.*.served")
    assert those(found, Status.KNOWN) & TRACKED == deleted


@pytest.mark.parametrize(
    ("world", "facts", "status"),
    [
        (World(never_served=frozenset({"tcp-100kb"})), CILIUM, Status.KNOWN),
        (World(never_served=frozenset({"tcp-100kb"})), KUBE_PROXY, Status.FAIL),
        (World(never_served=frozenset({"tcp-100kb", "tcp-new"})), CILIUM, Status.FAIL),
        (World(silent=frozenset({"tcp-100kb"})), CILIUM, Status.FAIL),
    ],
    ids=["only large answers are lost", "not Cilium", "small ones are lost too", "large ones arrived before"],
)
def test_large_answers_that_are_lost_are_known_of_cilium_if_small_ones_arrive(
    world: World, facts: dict[str, str], status: Status
) -> None:
    said = verdicts(world.seen("replaced"), facts, of="replaced")
    assert said["changes.replaced.bare-node-over-small-mtu.tcp-100kb.ipv4.served"].status is status


@pytest.mark.parametrize(
    ("second", "status"),
    [(40.0, Status.KNOWN), (69.0, Status.KNOWN), (75.0, Status.FAIL)],
    ids=["while the object is away", "just after it came back", "later"],
)
def test_a_pod_of_a_node_without_an_object_may_lose_requests_with_cilium_and_no_other_client_may(
    second: float, status: Status
) -> None:
    def no_loss(facts: dict[str, str], *lost: str) -> dict[str, Status]:
        seen = World(lost_at=dict.fromkeys(lost, second)).seen("node-deleted")
        said = verdicts(seen, facts, of="node-deleted")
        return {name.split(".")[2]: each.status for name, each in said.items() if name.endswith("no-loss")}

    alone = no_loss(CILIUM, "clusterip tcp-new")
    assert alone.pop("clusterip") is status, "its client is on the node whose object is deleted"
    assert set(alone.values()) == {Status.PASS}
    assert no_loss(KUBE_PROXY, "clusterip tcp-new")["clusterip"] is Status.FAIL
    assert set(no_loss(CILIUM, "tcp-new").values()) == {Status.FAIL}, "clients elsewhere lost theirs, too"


LEFT = "node-left"


def test_a_node_that_left_is_asked_once_it_has_joined_and_all_others_at_all_times() -> None:
    asked = dict[At, set[Claim]]()
    for check in CHECKS:
        if (check.subject.event.name, check.subject.stream.name) == (LEFT, "tcp-new"):
            asked.setdefault(check.subject.at, set()).add(check.subject.claim)
    claims = {Claim.SERVED, Claim.GONE}
    others = {at: {*claims, Claim.NO_LOSS} for at in (At.ENDPOINT_NODE, At.BARE_NODE, At.CLUSTER_IP)}
    assert asked == {**others, At.OTHER_NODE: claims}


@pytest.mark.parametrize(
    ("since", "until", "pod", "failing"),
    [
        (EVERY, 2 * EVERY, "", set()),
        (2 * EVERY, 3 * EVERY, "", {"served"}),
        (2 * EVERY, 3 * EVERY, "changes-1", {"served", "gone"}),
    ],
    ids=["silent while it is away", "silent once it has joined", "joined with the endpoint of before"],
)
def test_a_node_that_joins_must_serve_what_is_asked_of_it_then(
    since: float, until: float, pod: str, failing: set[str]
) -> None:
    seen, asked = World().seen(LEFT), (At.OTHER_NODE, "tcp-new", Family.IPV4)
    event = seen.events[LEFT]
    old = event.streams[asked]
    made = [
        each._replace(outcome="answered" if pod else "timeout", pod=pod) if since <= each.started < until else each
        for each in old.samples
    ]
    event.streams[asked] = frozen(Stream(old.name, old.spacing, made))
    found = verdicts(seen, of=LEFT)
    assert those({name: each.status for name, each in found.items()}, Status.FAIL) == {
        f"changes.{LEFT}.other-node.tcp-new.ipv4.{claim}" for claim in failing
    }


FIRST = "changes-1"
"""The only endpoint at first, and in the end."""

BUSY = {run_queue("service_change"): f"{OVERLOADED}"}


@pytest.mark.parametrize(
    ("world", "of"),
    [
        (World(lag=33.0, every=40.0), "replaced"),
        (World(lossy=frozenset({"udp-new", "sctp-new"})), "replaced"),
        (World(lossy=frozenset({"udp-new"}), keeps=frozenset({"udp-socket"})), "taken-over"),
        (World(lost_at={"tcp-one-port": 1.5 * EVERY}), "one-source-port"),
    ],
    ids=[
        "followed late",
        "followed with losses",
        "an older flow, and new ones with losses",
        "one request lost",
    ],
)
def test_what_is_only_late_is_undecided_on_an_overloaded_machine(world: World, of: str) -> None:
    seen = world.seen(of)
    usual = {name: each.status for name, each in verdicts(seen, of=of).items()}
    busy = {name: each.status for name, each in verdicts(seen, BUSY, of=of).items()}
    assert those(usual, Status.FAIL) == those(busy, Status.INCONCLUSIVE) - those(usual, Status.INCONCLUSIVE) != set()
    assert not those(busy, Status.FAIL)


@pytest.mark.parametrize(
    ("world", "of"),
    [
        (World(keeps=frozenset({"tcp-new", "tcp-port"})), "replaced"),
        (World(keeps=frozenset({"udp-socket"})), "taken-over"),
        (World(silent=frozenset({"udp-new", "udp-socket"})), "taken-over"),
        (World(forgetful=True), "affinity"),
    ],
    ids=["wrong pods", "an older flow, and new ones are right", "no answer at all", "no affinity"],
)
def test_what_is_wrong_fails_on_an_overloaded_machine_as_well(world: World, of: str) -> None:
    seen = world.seen(of)
    usual = {name: each.status for name, each in verdicts(seen, of=of).items()}
    assert those(usual, Status.FAIL)
    assert {name: each.status for name, each in verdicts(seen, BUSY, of=of).items()} == usual


@pytest.mark.parametrize(
    ("broke", "pod", "served"),
    [
        (2.5, "changes-4", Status.INCONCLUSIVE),
        (None, "changes-4", Status.FAIL),
        (0.01, "changes-4", Status.FAIL),
        (1.5, "changes-4", Status.FAIL),
        (2.5, "agent", Status.FAIL),
    ],
    ids=[
        "while the Service had this pod",
        "not at all",
        "before the first answer",
        "before the Service had this pod",
        "to a pod that it never had",
    ],
)
def test_a_connection_that_broke_may_stay_at_the_pod_that_the_next_one_led_to(
    broke: float | None, pod: str, served: Status
) -> None:
    """Seen with flannel at 48 tasks for each core: three checks said that nodes had not followed."""
    of = "one-source-port"
    seen, asked = World().seen(of), (At.CLUSTER_IP, "tcp-one-port", Family.IPV4)
    event = seen.events[of]
    old = event.streams[asked]
    lost = None if broke is None else next(each.seq for each in old.samples if each.started >= broke * EVERY)
    led = next(each.seq for each in old.samples if each.started >= 2.5 * EVERY)
    made = [each._replace(pod=pod if each.seq > led else FIRST) for each in old.samples]
    if lost is not None:
        made[lost] = made[lost]._replace(pod="", outcome="timeout")
    event.streams[asked] = frozen(Stream(old.name, old.spacing, made))
    found = verdicts(seen, of=of)
    assert found[f"changes.{of}.clusterip.tcp-one-port.ipv4.served"].status is served


def test_what_gets_no_answer_after_a_change_is_not_served() -> None:
    for name in NAMES:
        found = statuses(World(silent=frozenset({name})))
        one_stage = (
            matching("*.one-node-port.*node.udp*", "*.proxy-stopped-deleted.*.served", "*.vip-retyped.*") | LONGER
        )
        one_stage |= matching("*.moved-local.endpoint-node.*.served")
        one_stage |= matching(
            "*.moved-local.endpoint-node.*.served", "*.port-removed.*.udp*", "*.port-changed.clusterip.*"
        )
        one_stage |= matching("*.vip-port-changed.vip.*", "*.freed-vip.*.served")
        wanted = matching(*(f"*.{name}.*.{claim}" for claim in (*POSITIVE, "no-loss")))
        assert those(found, Status.FAIL) - LONGER == wanted - one_stage


def test_requests_without_an_endpoint_are_refused() -> None:
    found = statuses(World(drops=True))
    assert those(found, Status.FAIL) == matching("*.refused") != set()


def refusing(*times: tuple[float, float]) -> set[Status]:
    """The statuses of checks where nodes drop, and refuse only the requests that start and end at these times."""
    seen = World(drops=True).seen("scaled-to-zero")
    for stream in seen.events["scaled-to-zero"].streams.values():
        taken = [Sample(-1, started, ended, "refused") for started, ended in times]
        stream.samples = sorted([*stream.samples, *taken], key=lambda sample: sample.started)
        stream.freeze()
    found = verdicts(seen, of="scaled-to-zero")
    return {each.status for name, each in found.items() if name.endswith(".refused")}


def test_one_refusal_while_a_node_changes_its_rules_is_not_enough() -> None:
    change, end = EVERY, 2 * EVERY
    assert refusing((change + 0.5, change + 0.6)) == {Status.FAIL}, "the rules of before are gone, the new ones to come"
    assert refusing((end - 2.0, end + 0.1)) == {Status.FAIL}, "it met the rules of the next stage"
    assert refusing((change + 0.5, change + 0.6), (end - 2.0, end + 0.1)) == {Status.FAIL}
    assert refusing((end - 9.0, end - 8.9)) == {Status.PASS}, "nodes limit the rate of their errors"
    assert refusing((change + 0.5, change + 0.6), (change + 2.5, change + 2.6)) == {Status.PASS}


def test_every_pod_of_several_is_reached() -> None:
    assert those(statuses(World(most=4, every=40.0)), Status.FAIL) == matching("*.every-pod") != set()


def test_affinity_that_is_ignored_is_seen() -> None:
    assert those(statuses(World(forgetful=True)), Status.FAIL) == matching("*.same-pod") != set()


def test_an_affinity_that_is_not_over_after_its_timeout_is_seen() -> None:
    assert those(statuses(World(never_over=True)), Status.FAIL) == matching("*.another-pod") != set()
    brief = statuses(World(never_over=True, every=3.0))
    assert not those(brief, Status.FAIL) & matching("*.another-pod"), "too few answers to be no chance"


def test_silence_proves_nothing_where_nobody_was_ever_answered() -> None:
    found = statuses(World(never_served=NAMES))
    assert those(found, Status.INCONCLUSIVE) == matching("*.gone", "*.no-loss", "*.another-pod")
    assert those(found, Status.FAIL) == matching(*(f"*.{claim}" for claim in POSITIVE))


def of_event(name: str, world: World) -> dict[str, Status]:
    """The verdicts on one event alone."""
    return {check: verdict.status for check, verdict in verdicts(world.seen(name), of=name).items()}


def test_health_checks_of_a_proxy_that_cannot_write_its_rules_say_so() -> None:
    long = 93.0
    assert set(of_event("proxy-sick", World(every=long)).values()) == {Status.PASS}
    well = of_event("proxy-sick", World(every=long, says="200"))
    assert those(well, Status.FAIL) == matching("changes.proxy-sick.*.ipv4.status") != set()
    always = of_event("proxy-sick", World(every=long, says="503"))
    assert those(always, Status.INCONCLUSIVE) == those(well, Status.FAIL), "that says nothing of the change"
    stale = of_event("proxy-sick", World(every=long, keeps=frozenset({"udp-socket"})))
    assert those(stale, Status.FAIL) == matching("changes.proxy-sick.*.udp-socket.ipv4.*")


def test_what_a_stopped_proxy_cannot_follow_counts_only_from_its_start_on() -> None:
    world = World(keeps=frozenset({"udp-socket"}))
    seen = world.seen("proxy-stopped")
    stages = seen.events["proxy-stopped"].stages
    found = verdicts(seen, of="proxy-stopped")
    bare = found["changes.proxy-stopped.bare-node.udp-socket.ipv4.gone"]
    assert bare.status is Status.FAIL
    assert stages[2].words in bare.reason
    assert stages[1].words in found["changes.proxy-stopped.endpoint-node.udp-socket.ipv4.gone"].reason


def test_a_single_lost_connection_while_a_proxy_is_stopped_is_reported() -> None:
    found = statuses(World(lost_at={"tcp-new": EVERY + 5.0}))
    assert those(found, Status.FAIL) == matching("*.tcp-new.*.no-loss") != set()


def test_where_an_endpoint_without_node_name_is_local_is_written_down_and_never_failed() -> None:
    (check,) = (check for check in ALL if check.id == "changes.endpoint-without-node.endpoint-node.tcp-new.ipv4.gone")
    for world, words in ((World(), "timeout"), (World(keeps=frozenset({"tcp-new"})), "without nodeName: changes-1")):
        said = scenario_of(check).judge(check, world.seen("endpoint-without-node"), Known({}, FEATURES))
        assert said.status is Status.RECORDED
        assert words in said.observed
    lost = of_event("endpoint-without-node", World(silent=frozenset({"tcp-new"})))
    assert those(lost, Status.FAIL) == matching("changes.endpoint-without-node.*.tcp-new.*.served"), "named again"


def test_a_service_without_a_selector_is_followed_by_the_node_names_of_its_endpoints() -> None:
    late = of_event("endpoint-slices", World(keeps=frozenset({"tcp-new"})))
    kept = matching("changes.endpoint-slices.*.tcp-new.*")
    assert those(late, Status.FAIL) == kept
    there = event_of("endpoint-slices").changes

    def shut(stage: int) -> list[At]:
        entries = (At.ENDPOINT_NODE, At.BARE_NODE)
        return [at for at in entries if is_closed(there[stage].closed, at, "tcp", Family.IPV4)]

    assert shut(0) == [At.BARE_NODE]
    assert shut(2) == [At.ENDPOINT_NODE]


def test_the_other_service_must_be_served_by_the_former_endpoint_from_its_own_stage_on() -> None:
    begins = {subject.begins for subject in (check.subject for check in ALL) if subject.at.is_another}
    assert begins == {2}
    stale = of_event("address-reused", World(keeps=frozenset({"udp-socket"})))
    own = matching(*(f"changes.address-reused.{at}.udp-socket.ipv4.*" for at in ("endpoint-node", "clusterip")))
    assert those(stale, Status.FAIL) >= own != set()
    dropped = of_event("address-reused", World(lossy=frozenset({"tcp-port"})))
    there = matching("changes.address-reused.*another-service.tcp-port.ipv4.*")
    assert {name.rpartition(".")[2] for name in there} == {"served"}
    assert those(dropped, Status.FAIL) >= there
    early = of_event("address-reused", World(lost_at={"another-service tcp-new": EVERY + 5.0}))
    assert set(early.values()) == {Status.PASS}, "no stream may expect anything of that Service yet"


def test_a_connection_that_another_pod_with_its_source_port_disturbs_is_reported_at_that_entry() -> None:
    at = "endpoint-node-from-second-pod"
    lost = of_event("one-source-port", World(lost_at={f"{at} tcp-one-port": EVERY + 5.0}))
    assert those(lost, Status.FAIL) == {f"changes.one-source-port.{at}.tcp-one-port.ipv4.no-loss"}
    seen = World().seen("one-source-port")
    stages = seen.events["one-source-port"].stages
    stages[:] = [replace(stages[0], cause=-50.0, accepted=-50.0), *stages[1:]]
    found = verdicts(seen, of="one-source-port")
    late = {each.status for name, each in found.items() if ".tcp-one-port." in name}
    assert late == {Status.PASS}, "its time runs from when it begins, and not from the stage's beginning"
    early = of_event("one-source-port", World(lost_at={f"{at} tcp-one-port": 5.0}))
    assert those(early, Status.FAIL) == those(lost, Status.FAIL), "also before anything changes"
    silent = of_event("one-source-port", World(silent=frozenset({"udp-one-port"})))
    assert those(silent, Status.FAIL) == matching("changes.one-source-port.*.udp-one-port.*.served")


def test_ports_that_stay_taken_after_a_deletion_are_reported_where_the_service_is_not_served() -> None:
    seen = World().seen("finalizer")
    stages = seen.events["finalizer"].stages
    stages[3] = replace(stages[3], refused="provided port is already allocated")
    found = verdicts(seen, of="finalizer")
    served = {name: each for name, each in found.items() if name.endswith(".served")}
    assert {each.status for each in served.values()} == {Status.FAIL}
    words = "though its ports and addresses were free: provided port is already"
    assert all(words in each.reason for each in served.values())


def test_a_source_port_is_free_before_it_is_used_again_and_nobody_waits_as_long_as_a_machine_that_stalls() -> None:
    used = [each for each in STREAMS if each.protocol is Protocol.TCP and each.reuse is Reuse.NEW and each.ports]
    assert used
    assert all(each.ports * each.every * (1 - each.varies) > each.timeout for each in used)
    lasting = [each for each in STREAMS if each.reuse is Reuse.LASTING and not each.count]
    assert lasting
    assert all(each.timeout + each.every < MOST_GAP for each in lasting)


def test_connections_from_a_used_port_that_go_wrong_are_distinguished_from_new_ones() -> None:
    found = statuses(World(keeps=frozenset({"tcp-port"})))
    stays = matching("*.one-source-port.*")  # the pod of before is an endpoint in all stages
    assert those(found, Status.FAIL) == matching("*.tcp-port.*") - stays - matching("*.freed.*.served") != set()
    lost = statuses(World(silent=frozenset({"tcp-port"})))
    assert those(lost, Status.FAIL) == matching("*.tcp-port.*.served")


def test_a_busy_machine_leaves_checks_undecided() -> None:
    found = statuses(World(busy=2.5))
    assert not those(found, Status.FAIL)
    assert those(found, Status.INCONCLUSIVE)


def test_errors_of_our_own_are_not_the_clusters() -> None:
    assert set(statuses(World(errors=5)).values()) == {Status.ERROR}


def test_what_cannot_be_dialled_is_undecided() -> None:
    world = World(obstacles={(At.CLUSTER_IP, Family.IPV4): "the Service has no IPv4 ClusterIP"})
    assert those(statuses(world), Status.INCONCLUSIVE) == matching("*.clusterip.*.ipv4.*")


def test_a_stage_that_was_cut_short_decides_nothing() -> None:
    found = statuses(World(keeps=frozenset({"udp-new"}), every=8.0))
    assert not those(found, Status.FAIL) & matching("*.udp-new.*.gone", "*.udp-new.*.served")


def test_an_event_that_broke_off_or_did_not_happen_is_undecided() -> None:
    seen = World().seen()
    seen.trouble["replaced"] = "the API server refused"
    del seen.events["deleted"]
    del seen.events["taken-over"].stages[1]
    found = {name: verdict.status for name, verdict in verdicts(seen).items()}
    broken = matching("changes.replaced.*", "changes.deleted.*", "changes.taken-over.*")
    assert those(found, Status.INCONCLUSIVE) == broken


@pytest.mark.parametrize(
    ("first", "second", "at", "status"),
    [
        ("answered", "timeout", EXPIRED, Status.PASS),
        ("answered", "refused", EXPIRED, Status.PASS),
        ("answered", "answered", EXPIRED, Status.FAIL),
        ("answered", "error", EXPIRED, Status.ERROR),
        ("answered", "timeout", 20.0, Status.INCONCLUSIVE),
        ("timeout", "timeout", EXPIRED, Status.INCONCLUSIVE),
        ("answered", "", 0.0, Status.INCONCLUSIVE),
    ],
)
def test_a_flow_that_is_forgotten_is_not_answered_any_more(first: str, second: str, at: float, status: Status) -> None:
    world = World(every=60.0)
    seen = world.seen("freed")
    check = next(each for each in ALL if each.id == "changes.freed.bare-node.udp-idle.ipv4.forgotten")
    samples = [
        Sample(seq, when, when + 0.002, outcome, "changes-1" if outcome == "answered" else "")
        for seq, (when, outcome) in enumerate(((1.0, first), (1.0 + at, second)))
        if outcome
    ]
    asked = (check.subject.at, check.subject.stream.name, Family.IPV4)
    seen.events["freed"].streams[asked] = frozen(Stream("udp-idle", EXPIRED, samples))
    assert scenario_of(check).judge(check, seen, Known({}, FEATURES)).status is status


def test_a_busy_machine_leaves_the_second_datagram_undecided() -> None:
    seen = World(every=60.0, busy=40.0).seen("freed")
    check = next(each for each in ALL if each.id == "changes.freed.bare-node.udp-idle.ipv4.forgotten")
    asked = (check.subject.at, check.subject.stream.name, Family.IPV4)
    samples = [Sample(0, 1.0, 1.1, "answered", "changes-1"), Sample(1, 151.0, 152.0, "timeout")]
    seen.events["freed"].streams[asked] = frozen(Stream("udp-idle", EXPIRED, samples))
    assert scenario_of(check).judge(check, seen, Known({}, FEATURES)).status is Status.INCONCLUSIVE


def test_no_pair_of_event_and_stream_is_left_out_in_silence() -> None:
    asked = {(check.subject.event, check.subject.at, check.subject.stream) for check in ALL}
    for event in EVENTS:
        for at in ENTRIES:
            for stream in STREAMS:
                assert ((event, at, stream) in asked) is not bool(why_not(event, at, stream))
    assert {check.subject.claim for check in ALL} == set(Claim)
    compared = [(event, at, COMPARED[stream]) for event, at, stream in asked if stream in COMPARED and not stream.size]
    assert not any(why_not(*each) for each in compared)


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: event.name)
def test_what_an_event_says_of_its_streams_and_entries_shows_in_its_fields(event: Event) -> None:
    reasons = {why_not(event, at, stream) for at in ENTRIES for stream in STREAMS}
    assert {why for _, why in event.unseen} <= reasons
    own = [check for check in ALL if check.subject.event == event]
    assert {check.subject.at for check in own} == {*event.dialled}
    carried = {stream for stream in event.sees if not event.announced or stream.protocol is event.carries}
    assert carried <= {check.subject.stream for check in own}
    assert {*event.stale_in} == {Claim.GONE} or event.stale
    assert not event.stale or any(event.stale in check.differences for check in own)
    assert {*event.recorded} == {check.subject.claim for check in own if check.level is Level.RECORD}


def test_clients_that_pass_a_network_policy_or_are_shut_out_by_one_fail() -> None:
    ours = {"network-policy", "network-policy-vip"}
    checks = [check for check in CHECKS if check.subject.event.name in ours]

    def failed(world: World, features: dict[str, Feature]) -> set[tuple[str, str]]:
        seen, known = world.seen(*ours), Known({}, features)
        found = {check: scenario_of(check).judge(check, seen, known).status for check in checks}
        assert {*found.values()} <= {Status.PASS, Status.FAIL, Status.UNSUPPORTED}
        return {
            (check.subject.stream.name, check.subject.claim.value)
            for check, status in found.items()
            if status is Status.FAIL
        }

    assert failed(World(), FEATURES) == set()
    assert failed(World(keeps=frozenset({"tcp-new"})), FEATURES) == {("tcp-new", "gone")}
    assert failed(World(silent=frozenset({"udp-new"})), FEATURES) == {("udp-new", "served")}
    without = FEATURES | {"network-policies": Feature(False, "a pod still reached another one's own address")}
    assert failed(World(keeps=frozenset({"tcp-new"})), without) == set()
