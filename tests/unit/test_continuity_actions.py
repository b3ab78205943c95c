"""What is done while traffic flows: asked of whom, proven by what, and what follows where it fails. No cluster."""

import time
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from esipp.base.errors import HarnessError
from esipp.base.interrupt import Stop, StoppedError
from esipp.base.waiting import Budget, Reading
from esipp.checks.continuity import NODEPORT, Event, Phase, Way
from esipp.checks.disruption import Disruption, Proof
from esipp.checks.model import Family, TrafficPolicy
from esipp.checks.timing import FIELD_LIMIT
from esipp.cluster.client import ApiError
from esipp.judging.timeline import Sample, Stream
from esipp.judging.topology import parse_address
from esipp.scenarios.continuity import actions as module
from esipp.scenarios.continuity.actions import Acts, Gates, Notes
from esipp.scenarios.continuity.evidence import Places
from esipp.scenarios.continuity.objects import HEALTH, SELECTOR, service_name
from esipp.scenarios.continuity.run import Gathering
from esipp.scenarios.reference_reports import ReferenceReports
from esipp.scenarios.timeouts import Timeouts
from suites.continuity.checks import WAYS
from suites.continuity.events import EVENTS
from tests.unit.continuity_world import CLIENT, FAMILY, PROXY, key

JOINED = "192.0.2.7"
READY = {"conditions": [{"type": "Ready", "status": "True"}]}


def live(name: str, spacing: float, sample: Callable[[int, float], Sample]) -> Stream:
    """A stream up to now and beyond, whatever the time is."""
    now = time.monotonic()
    made = [sample(n, now - 5.0 + n * spacing) for n in range(int(65 / spacing))]
    stream = Stream(name, spacing, made)
    stream.freeze()
    return stream


def answered(source: str = CLIENT, node: str = "a") -> Callable[[int, float], Sample]:
    return lambda n, at: Sample(n, at, at, "answered", f"{node}1", node, source)


def saying(status: str) -> Stream:
    return live("health", 0.1, lambda n, at: Sample(n, at, at, status))


class FakeStreams:
    def __init__(self, status: str = "200") -> None:
        self.streams = {key("nodeport.local"): live("nodeport.local", 0.1, answered())}
        self.health = {FAMILY: {"a": saying(status), "c": saying("200")}}
        self.left: list[str] = []
        self.moved: list[tuple[int, int]] = []
        self.joined: dict[Any, Stream] = {}
        self.joined_health: dict[Any, Stream] = {}
        self.owners: dict[Any, Any] = {}
        self.counts = False
        self.done: list[str] = []

    def send_counted(self, checked: Callable[[], None]) -> None:
        checked()
        self.done.append("counted")

    def silent(self, now: float, marks: object) -> list[str]:
        assert now > 0
        self.done.append("heard")
        return []

    def shared(self, now: float) -> list[str]:
        return []

    def renew(self) -> None:
        self.done.append("renewed")

    def dial_joined(self, addresses: Any) -> None:
        assert addresses == {FAMILY: JOINED}
        self.joined[key("nodeport.cluster")] = live("joined", 0.1, answered("192.0.2.2"))
        self.joined[key("nodeport.local")] = live("joined", 0.1, lambda n, at: Sample(n, at, at + 1, "timeout"))
        self.joined_health[key("nodeport.local")] = saying("503")
        self.done.append("dialled")

    def leave_joined(self) -> None:
        self.done.append("left")

    def redirect_health(self, port: int, new: int) -> None:
        self.moved.append((port, new))

    def latest(self, asked: Any) -> Sample:
        return self.streams[asked].samples[0]

    def unsettled(self, now: float, asked: Any) -> list[str]:
        return self.left


class FakeCluster:
    def __init__(self) -> None:
        self.patched: list[tuple[str, Any]] = []
        self.deleted: list[str] = []
        self.taken: set[int] = set()

    def patch(self, path: str, body: Any, how: str = "") -> Any:
        name, spec = path.rpartition("/")[2], body["spec"]
        if spec.get("healthCheckNodePort") in self.taken:
            raise ApiError(422, "Invalid", "provided port is already allocated", "PATCH")
        self.patched.append((name, spec))
        return {"spec": {"healthCheckNodePort": 31999, **spec}}

    def delete(self, path: str) -> None:
        self.deleted.append(path.rpartition("/")[2])


class FakeDisruptor:
    def __init__(self, refuses: bool = False) -> None:
        self.asked: list[tuple[Disruption, str, str, bool]] = []
        self.refuses, self.done = refuses, False

    def perform(
        self,
        what: Disruption,
        node: str,
        meanwhile: Callable[[], None],
        *,
        selector: str,
        not_ready: bool,
        before_joining: Callable[[str, Any], object],
    ) -> Proof:
        self.asked.append((what, node, selector, not_ready))
        if self.refuses:
            raise HarnessError("The node is cordoned already.")
        if what is Disruption.NODE_JOINED:
            node = "joined"
            before_joining(node, {FAMILY: JOINED})
        meanwhile()
        self.done = True
        return Proof(what, node, "seen with our own eyes", 1.0, 2.0, 3.0, 4.0)


def pods(**nodes: str) -> Any:
    items = {name: {"metadata": {"name": name}, "status": READY} for name in nodes}
    return SimpleNamespace(pods=items, nodes=dict(nodes), marks={}, check=lambda: None)


def event(phase: Phase) -> Event:
    """The event of this name, which does not last."""
    return replace(next(each for each in EVENTS if each.phase is phase), lasts=0.0)


SHORT = Budget("anything", 0.2, need=1, spacing=0.05)
QUICK = Timeouts(ways_settled=SHORT, pods_ready=SHORT, health_follows=SHORT, evicted=SHORT, sources_stable=SHORT)


def made(
    traffic: FakeStreams | None = None,
    watching: Any = None,
    disruptor: FakeDisruptor | None = None,
    timeouts: Timeouts = QUICK,
) -> Acts:
    services = {service_name(way): {"spec": {"healthCheckNodePort": 30000 + n}} for n, way in enumerate(WAYS)}
    testbed = SimpleNamespace(cluster=FakeCluster(), namespace="ns", services=services)
    return Acts(
        testbed, SimpleNamespace(trouble=""), traffic or FakeStreams(), watching or pods(a1="a", c1="c"),
        Places("a", "c", "b"), list(WAYS), 0.1, 0.3, frozenset({parse_address(CLIENT)}),
        frozenset({parse_address(PROXY)}), Stop(), disruptor, timeouts,
    )  # fmt: skip


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CALM", 0.2)
    monkeypatch.setattr(module, "PROMPT", 0.0)


@pytest.mark.parametrize(
    "phase",
    [
        *(Phase.CORDON, Phase.EXCLUDE, Phase.KUBE_PROXY, Phase.SPEAKER, Phase.API_SERVER),
        *(Phase.PROXY_MODE, Phase.PROXY_UPGRADED, Phase.NETWORK_AGENT_UPGRADED, Phase.API_SERVERS_IN_TURN),
    ],
)
def test_a_disruption_is_the_disruptors_and_its_proof_is_reported(phase: Phase) -> None:
    disruptor, notes = FakeDisruptor(), Notes()
    made(disruptor=disruptor).perform(event(phase), notes)
    replaced = (Phase.PROXY_MODE, Phase.PROXY_UPGRADED, Phase.NETWORK_AGENT_UPGRADED)
    everywhere = phase in (Phase.API_SERVER, Phase.API_SERVERS_IN_TURN, *replaced)
    assert disruptor.asked == [(event(phase).disruption, "" if everywhere else "a", "", False)]
    assert (notes.happened, notes.ended, notes.words) == (2.0, 4.0, "seen with our own eyes")
    assert len(notes.causes) == 3, "its beginning, its effect, its undoing"


@pytest.mark.parametrize(
    ("phase", "node", "cut"),
    [
        (Phase.IDLE_KUBELET, "b", ""),
        (Phase.IDLE_EXCLUDE, "b", ""),
        (Phase.CUT_OFF, "a", "a"),
        (Phase.IDLE_LEFT, "b", "b"),
        (Phase.CONNTRACK_FULL, "b", ""),
        (Phase.CONNTRACK_DELETED, "a", ""),
    ],
)
def test_what_happens_to_a_node_happens_to_the_one_with_the_role(phase: Phase, node: str, cut: str) -> None:
    disruptor, notes = FakeDisruptor(), Notes()
    made(disruptor=disruptor).perform(event(phase), notes)
    not_ready = phase is Phase.IDLE_KUBELET
    assert disruptor.asked == [(event(phase).disruption, node, "", not_ready)]
    assert notes.cut == cut


def test_a_node_that_joined_is_taken_from_the_cluster_once_load_balancers_use_it() -> None:
    traffic, disruptor, notes = FakeStreams(), FakeDisruptor(), Notes()
    traffic.streams[key("reference-ecmp.cluster")] = live("ecmp", 0.1, answered())
    acts = made(traffic, disruptor=disruptor, timeouts=replace(QUICK, joined_serves=SHORT))
    cluster: Any = acts.testbed.cluster
    used = list[bool]()

    def steered() -> dict[Any, tuple[str, ...]]:
        joined = not cluster.deleted and len(used) > 1
        used.append(joined)
        return {key("reference-ecmp.cluster"): ("a", "joined") if joined else ("a",)}

    acts.steered = steered
    acts.perform(event(Phase.JOINED), notes)
    assert disruptor.asked == [(Disruption.NODE_JOINED, "", "", False)]
    assert traffic.done == ["dialled", "left"]
    assert used == [False, False, True, False], "it is waited for on both sides"
    assert (cluster.deleted, notes.cut) == (["joined"], "joined")
    assert acts.joined == {"joined": frozenset({parse_address(JOINED)})}
    assert len(notes.causes) == 4, "its beginning, its effect, its deletion, its end"


def test_a_node_that_joined_and_does_not_serve_is_left_after_its_time() -> None:
    traffic = FakeStreams()
    acts = made(traffic, disruptor=FakeDisruptor(), timeouts=replace(QUICK, joined_serves=SHORT))
    acts.steered = lambda: {key("reference-ecmp.cluster"): ("a",)}
    traffic.streams[key("reference-ecmp.cluster")] = live("ecmp", 0.1, answered())

    def dial(addresses: Any) -> None:
        traffic.joined[key("nodeport.cluster")] = live("joined", 0.1, lambda n, at: Sample(n, at, at, "refused"))

    traffic.dial_joined = dial
    began = time.monotonic()
    acts.perform(event(Phase.JOINED), Notes())
    assert time.monotonic() - began >= 2 * 0.15 + 2 * (0.1 + 0.15), "its time to serve, and that to be used"
    cluster: Any = acts.testbed.cluster
    assert (cluster.deleted, traffic.done) == (["joined"], ["left"])


@pytest.mark.parametrize("phase", [Phase.NETWORK_AGENT, Phase.SPEAKER_MOVES])
def test_a_pod_moves_while_an_agent_restarts(phase: Phase) -> None:
    watching, disruptor, notes = pods(a1="a", c1="c"), FakeDisruptor(), Notes()
    acts = made(watching=watching, disruptor=disruptor)
    cluster: Any = acts.testbed.cluster
    with pytest.raises(HarnessError, match="a1 still exists"):
        acts.perform(event(phase), notes)
    assert cluster.deleted == ["a1"]
    assert disruptor.asked == [(event(phase).disruption, "a", "", False)]


def test_a_node_that_refuses_does_so_for_as_long_as_a_balancer_needs_to_leave_it() -> None:
    began = time.monotonic()
    made(disruptor=FakeDisruptor()).perform(event(Phase.CONNTRACK_FULL), Notes())
    assert time.monotonic() - began >= 0.3 + 0.1 + 0.2


def test_another_mode_has_shown_its_effect_when_all_ways_answer_or_have_had_their_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looked = list[bool]()
    for left, least in ((["nodeport.local"], 0.15 + 0.2), ([], 0.2)):
        traffic = FakeStreams()
        monkeypatch.setattr(traffic, "unsettled", lambda now, asked, left=left: looked.append(True) or left)
        began = time.monotonic()
        timeouts = replace(QUICK, change_shown=SHORT)
        made(traffic, disruptor=FakeDisruptor(), timeouts=timeouts).perform(event(Phase.PROXY_MODE), Notes())
        assert least <= time.monotonic() - began < least + 2.0
    assert looked


@pytest.mark.parametrize(
    "phase", [Phase.KUBE_PROXY, Phase.PROXY_MODE, Phase.PROXY_UPGRADED, Phase.NETWORK_AGENT_UPGRADED]
)
def test_how_long_a_health_check_was_away_with_its_agent_is_reported(phase: Phase) -> None:
    traffic, now = FakeStreams(), time.monotonic()
    away = [Sample(n, now + n * 0.01, now + n * 0.01, "refused" if 3 <= n < 8 else "200") for n in range(10)]
    traffic.health[FAMILY]["a"] = Stream("health", 0.01, away)
    traffic.health[FAMILY]["a"].freeze()
    notes = Notes()
    acts = made(traffic, disruptor=FakeDisruptor(), timeouts=replace(QUICK, change_shown=SHORT))
    acts.perform(replace(event(phase), lasts=0.2), notes)
    assert notes.words == "seen with our own eyes; health check of a over IPv4: not 200 for 0.0 s (refused)"


def test_the_longest_time_without_a_200_is_from_the_first_other_answer_to_the_end_of_the_last() -> None:
    said = ["200", "503", "refused", "200", "refused", "timeout", "timeout", "200"]
    samples = [Sample(n, float(n), n + 0.5, outcome) for n, outcome in enumerate(said)]
    assert module._longest_not_200(samples) == (2.5, {"503", "refused", "timeout"})
    assert module._longest_not_200(samples[:1]) == (0.0, set())


def test_only_pods_of_the_deployment_are_evicted_and_all_of_them_must_go() -> None:
    disruptor = FakeDisruptor()
    made(watching=pods(c1="c"), disruptor=disruptor).perform(event(Phase.DRAIN), Notes())
    assert disruptor.asked == [(Disruption.DRAIN, "a", SELECTOR, False)]
    with pytest.raises(HarnessError, match="remaining: a1"):
        made(disruptor=FakeDisruptor()).perform(event(Phase.DRAIN), Notes())


def test_a_stopped_kubelet_has_shown_its_effect_when_the_health_check_says_503() -> None:
    disruptor = FakeDisruptor()
    made(FakeStreams("503"), disruptor=disruptor).perform(event(Phase.KUBELET), Notes())
    assert disruptor.asked == [(Disruption.KUBELET, "a", "", True)]
    with pytest.raises(HarnessError, match="a IPv4: 200"):
        made(FakeStreams("200"), disruptor=FakeDisruptor()).perform(event(Phase.KUBELET), Notes())


def test_the_speaker_that_counts_is_the_one_that_announces() -> None:
    traffic, disruptor = FakeStreams(), FakeDisruptor()
    traffic.streams[key("default.local")] = live("default.local", 0.1, answered(node="c"))
    made(traffic, disruptor=disruptor).perform(event(Phase.SPEAKER), Notes())
    assert disruptor.asked[0][1] == "c"


@pytest.mark.parametrize(("later", "looks"), [("aac", 3), ("c", 1)])
def test_it_goes_on_when_the_speaker_has_taken_its_vips_back(
    later: str, looks: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    timeouts = replace(QUICK, vips_back=Budget("back", 5.0, need=1, spacing=0.01))
    traffic, disruptor, looked = FakeStreams(), FakeDisruptor(), list[str]()
    traffic.streams = {key("default.local"): live("default.local", 0.1, answered())}

    def latest(_: Any) -> Sample:
        if not disruptor.done:
            return answered(node="c")(0, 0.0)
        looked.append(later[len(looked)])
        return answered(node=looked[-1])(0, 0.0)

    monkeypatch.setattr(traffic, "latest", latest)
    made(traffic, disruptor=disruptor, timeouts=timeouts).perform(event(Phase.SPEAKER), Notes())
    assert len(looked) == looks


@pytest.mark.parametrize(("later", "looks"), [("ccb", 3), ("?b", 2), ("b", 1)])
def test_it_waits_for_the_vips_of_cluster_services_too_which_are_known_by_the_source(
    later: str, looks: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """MetalLB gave one back a second after that of the Local Service, and broke what was open in the quiet phase."""
    own = {node: f"192.0.2.{number}" for number, node in enumerate("bc?", 1)}
    timeouts = replace(QUICK, vips_back=Budget("back", 5.0, need=1, spacing=0.01))
    traffic, disruptor, looked = FakeStreams(), FakeDisruptor(), list[str]()
    traffic.streams = {key("default.cluster"): live("default.cluster", 0.1, answered())}

    def latest(_: Any) -> Sample:
        looked.extend(later[len(looked)] if disruptor.done else "")
        return answered(node="a")(0, 0.0)._replace(source=own[looked[-1] if looked else "b"])

    monkeypatch.setattr(traffic, "latest", latest)
    acts = made(traffic, disruptor=disruptor, timeouts=timeouts)
    acts.addresses = {node: frozenset({parse_address(own[node])}) for node in "bc"}
    acts.perform(event(Phase.SPEAKER), Notes())
    assert len(looked) == looks


def test_nothing_is_disturbed_without_leave() -> None:
    with pytest.raises(HarnessError, match="is not allowed"):
        made().perform(event(Phase.CORDON), Notes())


def test_all_local_services_change_their_policy_and_get_their_health_check_ports_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    said = iter(["gone", "200 again"])
    acts, notes = made(), Notes()
    monkeypatch.setattr(Acts, "_health", lambda self, right, wanted, only="": Reading(wanted == next(said), ""))
    acts.perform(event(Phase.POLICY_CHANGES), notes)
    patched = acts.testbed.cluster.patched  # type: ignore[attr-defined]  # a fake has it
    local = [service_name(way) for way in WAYS if way.local]
    assert [name for name, _ in patched] == local * 2
    assert {spec["externalTrafficPolicy"] for _, spec in patched[: len(local)]} == {"Cluster"}
    ports = {name: service["spec"]["healthCheckNodePort"] for name, service in acts.testbed.services.items()}
    back = [(name, {"externalTrafficPolicy": "Local", "healthCheckNodePort": ports[name]}) for name in local]
    assert patched[len(local) :] == back
    ((since, until),) = notes.either
    assert since < until <= time.monotonic(), "over as soon as sources were stable"


def test_the_policy_of_the_health_checks_service_changes_with_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its health checks show that nodes have followed."""
    acts = made()
    acts.testbed.services[HEALTH] = {"spec": {"healthCheckNodePort": 30999}}
    monkeypatch.setattr(Acts, "_health", lambda self, right, wanted, only="": Reading(True, ""))
    acts.perform(event(Phase.POLICY_CHANGES), Notes())
    patched = [spec for name, spec in acts.testbed.cluster.patched if name == HEALTH]  # type: ignore[attr-defined]  # a fake has it
    assert patched == [
        {"externalTrafficPolicy": "Cluster"},
        {"externalTrafficPolicy": "Local", "healthCheckNodePort": 30999},
    ]


def test_health_checks_are_those_of_a_way_or_else_of_a_service_of_their_own() -> None:
    acts = made()
    acts.testbed.services[HEALTH] = {"spec": {"healthCheckNodePort": 30999}}
    acts.testbed.nodes = {name: SimpleNamespace(internal={FAMILY: name}) for name in "abc"}
    acts.testbed.listeners = {}
    session = gathering(acts)
    for ways, port in ((WAYS, 30001), ([Way(NODEPORT, TrafficPolicy.LOCAL)], 30999)):
        session.ways = ways
        for each in acts.testbed.services.values():
            each["spec"]["ports"] = [{"nodePort": 31000}]
        targets = session._targets([(Way(NODEPORT, TrafficPolicy.LOCAL), FAMILY)], acts.places)
        assert {node: each.port for node, each in targets.health[FAMILY].items()} == dict.fromkeys("ac", port)


def test_a_port_that_another_service_took_meanwhile_is_given_up_for_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Acts, "_health", lambda self, right, wanted, only="": Reading(True, ""))
    acts, notes = made(), Notes()
    first = service_name(next(way for way in WAYS if way.local))
    lost = acts.testbed.services[first]["spec"]["healthCheckNodePort"]
    acts.testbed.cluster.taken = {lost}  # type: ignore[attr-defined]  # a fake has it
    acts.perform(event(Phase.POLICY_CHANGES), notes)
    assert acts.streams.moved == [(lost, 31999)]  # type: ignore[attr-defined]  # a fake has it
    patched = dict(acts.testbed.cluster.patched)  # type: ignore[attr-defined]  # a fake has it
    assert patched[first] == {"externalTrafficPolicy": "Local"}
    assert notes.returned is not None


def test_either_source_is_right_until_the_policy_is_local_again_however_soon_sources_are_stable(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "CALM", 60.0)
    monkeypatch.setattr(Acts, "hold", lambda self, seconds: None)
    monkeypatch.setattr(Acts, "_health", lambda self, right, wanted, only="": Reading(True, ""))
    acts, notes = made(), Notes()
    acts.perform(event(Phase.POLICY_CHANGES), notes)
    assert notes.either[-1][1] == notes.causes[-1]


@pytest.mark.parametrize(
    ("slug", "source", "node", "stable"),
    [
        ("nodeport.local", CLIENT, "a", True),
        ("nodeport.local", CLIENT, "b", False),
        ("nodeport.local", "192.0.2.1", "a", False),
        ("reference-proxy.local", PROXY, "b", True),
        ("reference-proxy.local", "192.0.2.1", "a", False),
        ("nodeport.cluster", "192.0.2.1", "b", True),
    ],
)
def test_sources_that_do_not_become_stable_get_the_fields_limit_and_no_more(
    slug: str, source: str, node: str, stable: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    traffic = FakeStreams()
    traffic.streams[key(slug)] = live(slug, 0.1, answered(source, node))
    acts, notes = made(traffic), Notes()
    monkeypatch.setattr(Acts, "_health", lambda self, right, wanted, only="": Reading(True, ""))
    acts.perform(event(Phase.POLICY_CHANGES), notes)
    ((_, until),) = notes.either
    assert (until == pytest.approx(notes.causes[-1] + FIELD_LIMIT)) is not stable
    assert ("not within 30 s" in notes.words) is not stable


def test_services_are_local_again_whatever_broke_the_policy_change_off(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else all that is done next would be about services of another policy, and blamed on the product."""
    acts, notes = made(), Notes()
    monkeypatch.setattr(Acts, "_health", lambda self, right, wanted, only="": Reading(False, "still there"))
    with pytest.raises(HarnessError, match="still there"):
        acts.perform(event(Phase.POLICY_CHANGES), notes)
    local = {service_name(way) for way in WAYS if way.local}
    patched = acts.testbed.cluster.patched  # type: ignore[attr-defined]  # a fake has it
    last = dict(patched)
    assert {name for name, spec in last.items() if spec["externalTrafficPolicy"] == "Local"} == local
    assert notes.either, "until then either source is right"


def test_a_pod_is_made_ready_again_whatever_broke_its_flaps_off(monkeypatch: pytest.MonkeyPatch) -> None:
    acts = made()
    acts.gates = Gates(None, "ns", None)
    monkeypatch.setattr(Gates, "set", lambda self, pod, is_open: None)
    with pytest.raises(HarnessError, match="a1 is not unready yet"):
        acts.perform(event(Phase.FLAPS), Notes())
    assert acts.gates.closed == set()


def test_why_a_gate_stays_shut_is_reported() -> None:
    acts = made(watching=pods(a1="a"))
    acts.watching.pods["c1"] = {"metadata": {"name": "c1"}, "status": {}}
    acts.gates.trouble = "403 Forbidden"
    assert acts.whole().state == "1 of 2 pods are ready; a gate could not be opened: 403 Forbidden"


def test_a_pod_that_is_deleted_must_be_replaced() -> None:
    acts = made()
    with pytest.raises(HarnessError, match="a1 still exists"):
        acts.perform(event(Phase.DELETED), Notes())
    assert acts.testbed.cluster.deleted == ["a1"]  # type: ignore[attr-defined]  # a fake has it


def test_an_interrupt_ends_every_wait() -> None:
    acts = made()
    acts.stop.set()
    for wait in (lambda: acts.hold(60.0), lambda: acts.perform(event(Phase.DELETED), Notes())):
        with pytest.raises(StoppedError):
            wait()


# ------------------------------------------------------------------------------------------------- one after the other
def gathering(acts: Acts, *phases: Phase, timeouts: Timeouts = QUICK) -> Gathering:
    clients = SimpleNamespace(renew=lambda: acts.streams.done.append("probers renewed"))  # type: ignore[attr-defined]  # a fake has it
    return Gathering(
        acts.testbed, clients, None, "image", list(WAYS), [Family.IPV4],
        [event(each) for each in phases], ReferenceReports(None, "ns"), acts.stop,
        lambda: pytest.fail("there is one"), lambda _: None, timeouts=timeouts,
    )  # fmt: skip


@pytest.fixture
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("QUIET", 0.0), ("FIRST_QUIET", 0.0)):
        monkeypatch.setattr(f"esipp.scenarios.continuity.run.{name}", value)


@pytest.mark.usefixtures("_quick")
def test_what_could_not_be_done_is_reported_and_the_next_is_done_all_the_same() -> None:
    acts = made(disruptor=FakeDisruptor(refuses=True))
    session = gathering(acts, Phase.CORDON, Phase.EXCLUDE)
    session._go_through(acts, None)
    assert [window.phase for window in session._windows] == [Phase.CORDON, Phase.EXCLUDE]
    assert {window.trouble for window in session._windows} == {"The node is cordoned already."}


@pytest.mark.usefixtures("_quick")
def test_where_pods_do_not_come_back_nothing_more_is_done() -> None:
    acts = made(watching=pods(c1="c"), disruptor=FakeDisruptor())
    session = gathering(acts, Phase.CORDON, Phase.EXCLUDE)
    session._go_through(acts, None)
    first, second = session._windows
    assert (first.trouble, first.unsettled) == ("", "1 of 1 pods are ready")
    assert second.trouble
    assert second.began - first.until < 0.2, "what flows over half of the pods is not what flows while nothing is done"
    assert len(acts.disruptor.asked) == 1


@pytest.mark.usefixtures("_quick")
def test_ways_that_do_not_answer_again_are_reported() -> None:
    traffic = FakeStreams()
    traffic.left = ["nodeport.local IPv4"]
    acts = made(traffic, disruptor=FakeDisruptor())
    session = gathering(acts, Phase.CORDON)
    session._go_through(acts, None)
    assert session._windows[0].unsettled == "nodeport.local IPv4"
    done = ["renewed", "counted", "probers renewed", "heard", "renewed"]
    assert traffic.done == done, "a port from before the rules says nothing"


@pytest.mark.usefixtures("_quick")
def test_what_pods_counted_of_a_port_is_read_last_before_the_next_port(monkeypatch: pytest.MonkeyPatch) -> None:
    traffic = FakeStreams()
    traffic.owners = {key("default.local"): []}
    monkeypatch.setattr("esipp.scenarios.continuity.run.STEADY", 0.01)
    session = gathering(made(traffic, disruptor=FakeDisruptor()), Phase.CORDON)
    monkeypatch.setattr(session, "_count", lambda acts: acts.streams.done.append("read"))
    monkeypatch.setattr(traffic, "shared", lambda _: traffic.done.append("asked who has it") or [])
    session._go_through(made(traffic, disruptor=FakeDisruptor()), None)
    last = max(at for at, each in enumerate(traffic.done) if each == "renewed")
    assert traffic.done[last - 1] == "read", "the wait for one node with each VIP may take a minute"
    assert "asked who has it" in traffic.done[:last]


@pytest.mark.usefixtures("_quick")
def test_a_way_that_never_answers_is_waited_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("esipp.scenarios.continuity.run.LEAST", 0.1)
    traffic = FakeStreams()
    traffic.left = ["nodeport.local IPv4"]
    acts = made(traffic, disruptor=FakeDisruptor())
    timeouts = replace(QUICK, ways_settled=Budget("ways", 1.0, need=1, spacing=0.05))
    session = gathering(acts, Phase.CORDON, Phase.EXCLUDE, Phase.SPEAKER, timeouts=timeouts)
    session._go_through(acts, None)
    assert [window.unsettled for window in session._windows] == ["nodeport.local IPv4"] * 3
    first, *others = (window.until - window.began for window in session._windows)
    assert first > 0.9
    assert all(took < 0.5 for took in others)


@pytest.mark.usefixtures("_quick")
def test_another_way_has_its_whole_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("esipp.scenarios.continuity.run.LEAST", 0.05)
    traffic = FakeStreams()
    acts = made(traffic, disruptor=FakeDisruptor())
    session = gathering(acts)

    def settle(*left: str) -> float:
        traffic.left, began = list(left), time.monotonic()
        assert session._settle(acts, list(traffic.streams)) == traffic.left
        return time.monotonic() - began

    assert settle("nodeport.local IPv4") > 0.1
    assert settle("nodeport.local IPv4") < 0.1
    assert settle("nodeport.local IPv4", "nodeport.cluster IPv4") > 0.1
    assert settle() < 0.1
    assert settle("nodeport.local IPv4") > 0.1, "one that has settled since has its whole time again"


def test_pods_that_cannot_be_asked_leave_open_what_they_counted_since_the_last_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An agent whose prober ended gets another one, and what its pods counted meanwhile is known after all."""
    monkeypatch.setattr("esipp.scenarios.continuity.run.ASKED_AGAIN", 0.0)
    status = READY | {"podIP": "10.0.0.1"}
    items = {name: {"metadata": {"name": name}, "status": status} for name in ("a1", "c1")}
    acts = made(FakeStreams(), SimpleNamespace(pods=items, nodes={"a1": "a", "c1": "c"}, marks={}, check=lambda: None))
    asked, gone = list[str](), set[str]()

    def ask_arrived(prober: object, _: object, node: str) -> None:
        asked.append(f"{prober} of {node}")
        if node in gone:
            raise HarnessError(f"The prober of the agent on {node} is gone.")

    acts.streams.counts = True
    acts.streams.ask_arrived = ask_arrived
    session = gathering(acts)
    session.clients = SimpleNamespace(agents={"a": 1, "c": 1}, agent=lambda node: f"the prober on {node}")
    session._count(acts)
    assert (sorted(session._counted), session._uncounted) == (["a", "c"], {})
    before = session._counted["c"]
    gone.add("c")
    session._count(acts)
    assert session._uncounted == {"c": (before, "The prober of the agent on c is gone.")}
    gone.clear()
    session._count(acts)
    assert session._uncounted == {}
    assert session._counted["c"] > before
    assert asked == ["the prober on a of a", "the prober on c of c"] * 3


def test_pods_that_could_not_be_asked_are_not_asked_again_at_once() -> None:
    status = READY | {"podIP": "10.0.0.1"}
    items = {"a1": {"metadata": {"name": "a1"}, "status": status}}
    acts = made(FakeStreams(), SimpleNamespace(pods=items, nodes={"a1": "a"}, marks={}, check=lambda: None))
    asked: list[str] = []

    def ask_arrived(*_: object) -> None:
        asked.append("asked")
        raise HarnessError("It is gone.")

    acts.streams.counts = True
    acts.streams.ask_arrived = ask_arrived
    session = gathering(acts)
    session.clients = SimpleNamespace(agents={"a": 1}, agent=lambda _: None)
    for _ in range(3):
        session._count(acts)
    assert asked == ["asked"]


def test_every_event_of_the_suite_is_done_here() -> None:
    undone = {each.phase for each in EVENTS if each.disruption is None} - set(made()._steps)
    assert undone == {Phase.QUIET}
