"""A load balancer that has to be asked is polled while pods move, and held against the moves."""

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from esipp.base.waiting import Budget, Reading, converge
from esipp.checks.endpoint_change import Kind, What
from esipp.checks.model import Balancer, Family
from esipp.cluster.client import ApiError, UnreachableError
from esipp.judging.health_view import Asked, Member, State, Unavailable, View, Why
from esipp.judging.topology import EXCLUDED
from esipp.ledger.codec import decode, encode
from esipp.loadbalancers.detection import NOTHING_FOUND
from esipp.loadbalancers.views.gcloud import TOOL, GoogleView
from esipp.scenarios.endpoint_change import objects
from esipp.scenarios.endpoint_change.evidence import BalancerEvidence, Change, Moved, Poll, Result
from esipp.scenarios.endpoint_change.reported_state import (
    MOST_SLOWER,
    NOTHING,
    PolledState,
    ReferenceState,
    Reported,
    Standing,
    any_of_cluster,
    polled_state,
    shown,
)
from esipp.scenarios.endpoint_change.run import Gathering, reported_by
from tests.unit.endpoint_change_world import World
from tests.unit.views_world import GCE, KIND, Fake, names, places, recorded, refused

LOCAL, CLUSTER = objects.service_name(Balancer.DEFAULT), objects.cluster_service_name(Balancer.DEFAULT)
SOON = Budget("polls", 30.0, need=1, spacing=0.01)
VIP = "198.51.100.11"


def service(name: str) -> dict[str, Any]:
    return {
        "metadata": {"namespace": "ns", "name": name},
        "spec": {"type": "LoadBalancer", "ports": [{"port": 80, "nodePort": 31080}]},
        "status": {"loadBalancer": {"ingress": [{"ip": VIP}]}},
    }


class Scripted:
    """A view that says one thing after the other, the last one for ever."""

    provider, interval, lag = "made up", 0.01, 0.0

    def __init__(self, *said: set[str] | Unavailable) -> None:
        self.said = list(said)
        self.asked: list[str] = []

    def ask(self, service: Asked) -> View:
        self.asked.append(service.name)
        now = self.said.pop(0) if len(self.said) > 1 else self.said[0]
        if isinstance(now, Unavailable):
            raise now
        at = float(len(self.asked))
        members = tuple(Member(n, n, State.HEALTHY if n in now else State.UNHEALTHY, "word") for n in names(KIND))
        return View(self.provider, "lb", at, at + 0.5, members)


def word(view: Any, of_cluster: str = "", nodes: Any = KIND) -> PolledState:
    return PolledState(view, service, of_cluster, nodes)


def standing(nodes: set[str]) -> dict[Balancer, Standing]:
    return {Balancer.DEFAULT: Standing(frozenset(nodes), frozenset({Family.IPV4}))}


# ---------------------------------------------------------------------------------------------------------- by the tool
def test_each_poll_of_a_clouds_tool_has_its_time_and_its_words(tmp_path: Path) -> None:
    fake = Fake(tmp_path, "gcloud").when("compute forwarding-rules list", recorded("gcloud-rules"))
    answers = (recorded("gcloud-backend-cluster"), recorded("gcloud-backend-local"))
    fake.when("compute backend-services get-health", *answers)
    view = GoogleView(places(GCE), fake.cli(TOOL))
    view.interval = 0.01
    asks = word(view, nodes=GCE)
    with asks.listening():
        turned = converge(
            lambda: Reading(any(len(poll.healthy) == 1 for poll in asks.polls(Balancer.DEFAULT)), ""), SOON
        )
    assert turned.held
    polls = asks.polls(Balancer.DEFAULT)
    assert [len(poll.healthy) for poll in polls[:2]] == [3, 1]
    assert all(poll.asked <= poll.answered for poll in polls)
    assert [poll.asked for poll in polls] == sorted(poll.asked for poll in polls)
    assert polls[1].words["gke-shop-pool-2"] == "UNHEALTHY"
    assert asks.polls(Balancer.ECMP) == []
    asked = len(fake.asked)
    assert asks._thread is not None
    assert not asks._thread.is_alive()
    assert len(fake.asked) == asked


def test_a_login_that_is_missing_is_reported_once_and_nobody_is_asked_again(tmp_path: Path) -> None:
    fake = Fake(tmp_path, "gcloud").when(
        "compute", refused("ERROR: You do not currently have an active account selected.")
    )
    asks = word(GoogleView(places(GCE), fake.cli(TOOL)), nodes=GCE)
    with asks.listening():
        assert converge(lambda: Reading(bool(asks.absent), ""), SOON).held
        asks._thread.join(30)
    asks.look(standing({GCE[0].name}))
    assert len(fake.asked) == 1
    assert asks.views(Balancer.DEFAULT) == {}
    (line,) = asks.lines({})
    assert "(gce) is not available" in line
    assert "hint: gcloud auth login" in line


# ------------------------------------------------------------------------------------------------------------- troubles
def test_what_is_too_much_is_asked_less_often_up_to_a_bound_and_then_as_before() -> None:
    busy = Unavailable(Why.THROTTLED, "Too much.")
    asks = word(Scripted(*[busy] * 5, {"worker"}))
    for slower in (2.0, 4.0, MOST_SLOWER, MOST_SLOWER, MOST_SLOWER):
        assert asks.poll(LOCAL) is None
        assert asks._slower == slower
    assert asks.poll(LOCAL) is not None
    assert asks._slower == 1.0
    assert [poll.trouble for poll in asks.polls(Balancer.DEFAULT)] == ["Too much."] * 5 + [""]
    assert asks.absent == ""


@pytest.mark.parametrize(
    "broken", [ApiError(403, "Forbidden", "no", "GET x"), UnreachableError("away"), OSError("cut")]
)
def test_an_api_server_that_does_not_tell_the_service_is_no_failure(broken: Exception) -> None:
    def refuse(_name: str) -> Any:
        raise broken

    asks = PolledState(Scripted({"worker"}), refuse)
    assert asks.poll(LOCAL) is None
    assert "could not be read" in asks.polls(Balancer.DEFAULT)[0].trouble


# ------------------------------------------------------------------------------------------------------ after the moves
def test_the_view_after_the_moves_is_asked_for_until_it_is_right() -> None:
    view = Scripted(*[{"worker", "worker2"}] * 2, {"worker2"}, {"worker"}, {"worker"}, {"worker", "worker2", "worker3"})
    view.lag = 30.0
    asks = word(view, CLUSTER, [*KIND, replace(KIND[0], name="out", marks=frozenset({EXCLUDED}))])
    asks.poll(LOCAL)
    asks.look(standing({"worker"}))
    views = asks.views(Balancer.DEFAULT)
    assert views[What.VIEW_LOCAL].healthy == views[What.VIEW_LOCAL].should == {"worker"}
    assert views[What.VIEW_CLUSTER].healthy == views[What.VIEW_CLUSTER].should == {"worker", "worker2", "worker3"}
    assert view.asked == [f"ns/{LOCAL}"] * 4 + [f"ns/{CLUSTER}"] * 2
    assert asks.views(Balancer.ECMP) == {}
    assert asks.lines({Balancer.DEFAULT: World(Balancer.DEFAULT).result()})[-2:] == [
        "  after the endpoint changes, Cluster: 3 of 3 (100 %) of the nodes healthy, as expected",
        "  after the endpoint changes, Local: 1 of 3 (33 %) of the nodes healthy, as expected",
    ]


def test_a_view_that_stays_wrong_is_given_as_it_is() -> None:
    asks = word(Scripted({"worker", "worker2"}))
    asks.look(standing({"worker"}))
    view = asks.views(Balancer.DEFAULT)[What.VIEW_LOCAL]
    assert (view.healthy, view.should) == ({"worker", "worker2"}, {"worker"})
    line = asks.lines({Balancer.DEFAULT: World(Balancer.DEFAULT).result()})[-1]
    assert line.endswith("Local: 2 of 3 (67 %) of the nodes healthy, expected 1 of 3 (33 %)")
    assert What.VIEW_CLUSTER not in asks.views(Balancer.DEFAULT)


def test_nothing_is_asked_where_the_moves_did_not_end_well() -> None:
    view = Scripted({"worker"})
    word(view).look({})
    assert view.asked == []


# ------------------------------------------------------------------------------------------------------------ the moves
def poll(at: float, *healthy: str, trouble: str = "") -> Poll:
    states = {node: State.HEALTHY if node in healthy else State.UNHEALTHY for node in "ab"}
    return Poll(at, at + 1.0, LOCAL, {} if trouble else states, trouble=trouble)


def change(number: int, up: bool, node: str, cause: float) -> Change:
    return Change(number, Kind.OPENED if up else Kind.CLOSED, up, node, f"{node}1", cause)


def test_a_change_is_shown_between_the_last_poll_without_it_and_the_first_with_it() -> None:
    changes = [change(0, True, "b", 10.0), change(1, False, "a", 30.0)]
    polls = [poll(0, "a"), poll(12, "a"), poll(22, "a", "b"), poll(32, trouble="no"), poll(42, "b")]
    up, down = shown(polls, changes, {0: 30.0, 1: 60.0})
    assert (up.change.number, up.after, up.by) == (0, 2.0, 13.0)
    assert (down.change.number, down.after, down.by) == (1, 0.0, 13.0)


@pytest.mark.parametrize(
    "polls",
    [
        [poll(12, "a", "b")],  # nobody knows what was before
        [poll(0, "a", "b"), poll(12, "a", "b")],  # it was so before
        [poll(0, "a"), poll(12, "a")],  # never
        [poll(0, "a"), poll(8, "a", "b")],  # asked before it was made
        [poll(0, "a"), poll(25, "a", "b")],  # the node's next move has been made
    ],
)
def test_what_does_not_show_a_change_is_none(polls: list[Poll]) -> None:
    changes = [change(0, True, "b", 8.5), change(1, False, "b", 20.0)]
    assert [each.change.number for each in shown(polls, changes, {0: 20.0, 1: 40.0})] == []


def test_the_summary_tells_how_many_changes_were_shown() -> None:
    result = World(Balancer.DEFAULT).result()
    first = result.changes[0]
    asks = word(Scripted({"worker"}))
    before = {"a": State.HEALTHY, "b": State.UNHEALTHY}
    for at, states in ((first.cause - 3, before), (first.cause + 2, before | {"b": State.HEALTHY})):
        asks._take(Poll(at, at + 1, LOCAL, states))
    asks._take(Poll(first.cause + 4, first.cause + 5, LOCAL, trouble="Too much."))
    said = asks.lines({Balancer.DEFAULT: result})
    assert "polled 3 times" in said[0]
    assert "1 of them without an answer" in said[0]
    assert said[1] == f"  polls showed 1 of {len(result.changes)} endpoint changes, each within 3 s"
    assert asks.lines({}) == []


# ------------------------------------------------------------------------------------------------------- what is kept
def kept(of: Reported) -> Moved:
    nothing: Any = None
    gathering = Gathering(nothing, nothing, "image", [Balancer.DEFAULT], 1, 7, False, of)
    gathering.results[Balancer.DEFAULT] = Result(Balancer.DEFAULT, BalancerEvidence({}, {}, {}))
    return decode(json.loads(json.dumps(encode(gathering.evidence))), Moved)


def test_polls_are_kept_with_their_times_and_nothing_is_where_nobody_is_asked() -> None:
    asks = word(Scripted({"worker"}))
    asks.poll(LOCAL)
    states = {"worker": State.HEALTHY, "worker2": State.UNHEALTHY, "worker3": State.UNHEALTHY}
    poll = Poll(1.0, 1.5, LOCAL, states, dict.fromkeys(names(KIND), "word"))
    assert kept(asks).polls == {Balancer.DEFAULT: [poll]}
    assert kept(NOTHING).polls == {}
    assert NOTHING.lines({}) == []


# -------------------------------------------------------------------------------------------------------- who is asked
def test_a_node_that_is_two_targets_is_kept_with_the_worse_ones_word_and_time() -> None:
    said = ((State.UNHEALTHY, "OutOfService", 12.5), (State.HEALTHY, "InService", 99.0))
    members = tuple(Member("i", "worker", state, reported, at=at) for state, reported, at in said)
    view: Any = SimpleNamespace(ask=lambda _service: View("made up", "lb", 1.0, 2.0, members))
    asks = word(view)
    asks.poll(LOCAL)
    reported = asks.polls(Balancer.DEFAULT)[0]
    assert reported.words == {"worker": "OutOfService"}
    assert reported.times == {"worker": 12.5}


def test_on_kind_nobody_is_asked_and_the_references_word_comes_first() -> None:
    testbed: Any = SimpleNamespace(nodes={each.name: each for each in KIND}, cluster=None, namespace="ns", services={})
    on_kind = [replace(each, provider_id=f"kind://docker/kind/{each.name}") for each in KIND]
    findings: Any = SimpleNamespace(reference=None, balancer=NOTHING_FOUND)
    assert reported_by(findings, testbed) is NOTHING
    testbed.nodes = {each.name: each for each in on_kind}
    assert reported_by(findings, testbed) is NOTHING
    testbed.nodes = {each.name: each for each in GCE}
    assert isinstance(reported_by(findings, testbed), PolledState)
    findings.reference = object()
    assert isinstance(reported_by(findings, testbed), ReferenceState)


def test_a_service_under_cluster_is_any_that_stands_there_anyway() -> None:
    def made(**spec: Any) -> dict[str, Any]:
        return {"spec": {"type": "LoadBalancer", "ports": [{"port": 80, "protocol": "TCP"}], **spec}}

    others = {
        "a": made(type="NodePort"),
        "b": made(externalTrafficPolicy="Local"),
        "c": made(loadBalancerClass="esipp.dev/reference-ecmp"),
        "d": made(ports=[{"port": 53, "protocol": "UDP"}]),
    }
    assert any_of_cluster(others) == ""
    assert any_of_cluster(others | {"e": made(externalTrafficPolicy="Cluster"), "f": made()}) == "e"
    assert any_of_cluster(others | {"e": made(), CLUSTER: made()}) == CLUSTER


def test_services_and_pods_are_read_in_our_namespace() -> None:
    read: list[str] = []

    def request(method: str, path: str) -> Any:
        read.append(f"{method} {path}")
        return service(LOCAL)

    def pods(path: str) -> Any:
        read.append(f"LIST {path}")
        status = {"podIPs": [{"ip": "10.8.0.6"}]}
        return [
            {"spec": {"nodeName": "gke-shop-pool-2"}, "status": status},
            {"spec": {}, "status": {}},
        ]

    cluster: Any = SimpleNamespace(request=request, list=pods)
    made = polled_state("gce", cluster, "ns", {CLUSTER: service(CLUSTER)}, GCE)
    assert isinstance(made, PolledState)
    assert made.of_cluster == CLUSTER
    assert made.services(LOCAL)["metadata"]["name"] == LOCAL
    assert isinstance(made.view, GoogleView)
    assert made.view.places.find("10.8.0.6") == "gke-shop-pool-2"
    assert read == [f"GET /api/v1/namespaces/ns/services/{LOCAL}", "LIST /api/v1/namespaces/ns/pods"]
    assert polled_state("", cluster, "ns", {}, KIND) is NOTHING
