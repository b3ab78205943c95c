"""NetworkPolicies that others put into our namespace are lifted, or reported; nothing is done where there are none."""

import sys
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from esipp.base.errors import HarnessError
from esipp.base.labels import labels_of
from esipp.checks.model import Family, Outcome, Protocol
from esipp.cluster.client import ApiError, Cluster, UnreachableError
from esipp.judging.observation import Observation
from esipp.testbed.network_policies import OURS, beyond_us, check, denied, direct, feature, lift, unseen
from tests.unit.world import by_id


class Api:
    """A namespace with these policies; it may refuse ours, or that we look."""

    def __init__(self, *names: str, refuses: bool = False, hides: bool = False) -> None:
        self.found: list[dict[str, Any]] = [{"metadata": {"name": name}} for name in names]
        self.refuses, self.hides = refuses, hides

    def list(self, collection: str) -> list[dict[str, Any]]:
        assert collection == "/apis/networking.k8s.io/v1/namespaces/esipp-x/networkpolicies"
        if self.hides:
            raise ApiError(403, "Forbidden", "no", "GET")
        return self.found

    def create(self, collection: str, manifest: dict[str, Any]) -> None:
        if self.refuses:
            raise ApiError(403, "Forbidden", "no", "POST")
        self.found.append(manifest)


def lifted(api: Api) -> list[str]:
    return lift(cast(Cluster, api), "esipp-x", "x")


@pytest.mark.parametrize("api", [Api(), Api("deny", hides=True)])
def test_where_none_is_seen_nothing_is_made(api: Api) -> None:
    before = list(api.found)
    assert lifted(api) == []
    assert api.found == before
    check(cast(Cluster, api), "esipp-x", lifted=False)


@pytest.mark.parametrize("may", [True, False])
def test_whether_policies_have_an_effect_can_be_observed_only_with_the_right_to_create_them(may: bool) -> None:
    asked: list[tuple[str, str, str]] = []

    def answer(verb: str, resource: str, *, group: str) -> bool:
        asked.append((verb, resource, group))
        return may

    found = feature(cast(Cluster, SimpleNamespace(may=answer)))
    assert asked == [("create", "networkpolicies", "networking.k8s.io")]
    assert (found.present, found.ours) == (may, not may)
    assert may or found.why == "the account may not create networkpolicies"


def test_they_are_lifted_by_one_that_allows_everything() -> None:
    api = Api("deny", "audit")
    assert lifted(api) == ["audit", "deny"]
    ours = api.found[-1]
    assert (ours["metadata"]["name"], ours["metadata"]["labels"]) == (OURS, labels_of("x"))
    assert ours["spec"] == {
        "podSelector": {},
        "policyTypes": ["Ingress", "Egress"],
        "ingress": [{}],
        "egress": [{}],
    }
    api.found.append({"metadata": {"name": "one-more"}})
    check(cast(Cluster, api), "esipp-x", lifted=True)


def test_where_ours_is_refused_that_is_reported() -> None:
    with pytest.raises(HarnessError, match="has the NetworkPolicy deny of someone else"):
        lifted(Api("deny", refuses=True))


def test_one_that_came_while_we_looked_is_reported() -> None:
    with pytest.raises(HarnessError, match="added the NetworkPolicy late"):
        check(cast(Cluster, Api("late")), "esipp-x", lifted=False)


@pytest.mark.parametrize(
    ("trouble", "why"),
    [
        (None, ""),
        (ApiError(404, "NotFound", "no such resource", "GET"), ""),
        (ApiError(501, "", "Kubernetes 1.2 knows none", "GET"), ""),
        (ApiError(403, "Forbidden", "may not list", "GET"), "may not list"),
        (UnreachableError("away"), "away"),
    ],
)
def test_that_they_cannot_be_seen_is_reported(trouble: Exception | None, why: str) -> None:
    class Mute(Api):
        def list(self, collection: str) -> list[dict[str, Any]]:
            if trouble:
                raise trouble
            return []

    assert unseen(cast(Cluster, Mute()), "esipp-x") == why


# ------------------------------------------------------------------------------------------ those that cannot be lifted
ANP = "/apis/policy.networking.k8s.io/v1alpha1/adminnetworkpolicies"
CILIUM = "/apis/cilium.io/v2/ciliumclusterwidenetworkpolicies"


class Shows:
    """An API server with these objects; it knows no other kinds."""

    def __init__(self, **objects: list[dict[str, Any]]) -> None:
        self.objects = {ANP: objects.get("anp"), CILIUM: objects.get("cilium")}

    def list(self, collection: str) -> list[dict[str, Any]]:
        found = self.objects.get(collection)
        if found is None:
            raise ApiError(404, "NotFound", "no such resource", "GET")
        return found


def named(name: str, *actions: str) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {"ingress": [{"action": action} for action in actions]}}


@pytest.mark.parametrize(
    ("shown", "names"),
    [
        ({}, []),
        ({"anp": [named("a", "Allow", "Pass")]}, []),
        ({"anp": [named("a", "Allow", "Deny"), named("b", "Allow")]}, ["AdminNetworkPolicy a"]),
        ({"cilium": [named("c")]}, ["CiliumClusterwideNetworkPolicy c"]),
    ],
)
def test_policies_that_may_deny_are_named(shown: dict[str, Any], names: list[str]) -> None:
    assert beyond_us(cast(Cluster, Shows(**shown)), "esipp-x") == names


POLICY = ["AdminNetworkPolicy deny"]
DIRECT = by_id("pod-ip.tcp.ipv4.pod-on-other-node-to-pod-ip").subject.path
ALSO_DIRECT = by_id("pod-ip.tcp.ipv4.pod-on-endpoint-node-to-pod-ip").subject.path
OTHER_FAMILY = by_id("pod-ip.tcp.ipv6.pod-on-other-node-to-pod-ip").subject.path
CLUSTER_IP = by_id("clusterip.tcp.ipv4.pod-on-other-node-to-clusterip").subject.path
NODE_PORT = by_id("nodeport.cluster.tcp.ipv4.outside-1-to-endpoint-node").subject.path
HOST_NETWORK = by_id("clusterip.host-network.tcp.ipv4.pod-on-other-node-to-clusterip").subject.path
PATHS = (DIRECT, ALSO_DIRECT, OTHER_FAMILY, CLUSTER_IP, NODE_PORT, HOST_NETWORK)


def world(outcome: Outcome, **other: Outcome) -> dict[str, list[Observation]]:
    """All paths with one outcome, but those that are given another."""
    result = {name: getattr(sys.modules[__name__], name) for name in other}
    how = dict.fromkeys(PATHS, outcome) | {result[name]: each for name, each in other.items()}
    return {path.key: [Observation(path.key, number, how[path]) for number in range(3)] for path in PATHS}


def explained(seen: dict[str, list[Observation]], policies: list[str] = POLICY) -> set[str]:
    return set(denied(PATHS, seen, policies))


def test_where_our_pods_do_not_reach_each_other_directly_policies_explain_the_silence() -> None:
    found = denied(PATHS, world(Outcome.TIMEOUT), POLICY)
    assert set(found) == {each.key for each in PATHS} - {HOST_NETWORK.key}
    assert "AdminNetworkPolicy deny" in found[NODE_PORT.key]
    assert "pod-ip.tcp.ipv4.pod-on-" in found[NODE_PORT.key]


def test_without_a_policy_nothing_is_explained() -> None:
    assert explained(world(Outcome.TIMEOUT), []) == set()


def test_where_the_direct_path_answers_nothing_is_explained() -> None:
    seen = world(Outcome.TIMEOUT, DIRECT=Outcome.ANSWERED, ALSO_DIRECT=Outcome.ANSWERED)
    assert explained(seen) == {OTHER_FAMILY.key}


def test_the_same_client_is_asked_first_and_one_direct_answer_is_enough_for_all_others() -> None:
    seen = world(Outcome.TIMEOUT, ALSO_DIRECT=Outcome.ANSWERED)
    assert explained(seen) == {DIRECT.key, CLUSTER_IP.key, OTHER_FAMILY.key}
    assert NODE_PORT.key not in explained(seen)


def test_another_kind_of_silence_is_not_explained() -> None:
    assert CLUSTER_IP.key not in explained(world(Outcome.TIMEOUT, CLUSTER_IP=Outcome.REFUSED))
    assert CLUSTER_IP.key not in explained(world(Outcome.TIMEOUT, CLUSTER_IP=Outcome.ANSWERED))


def test_a_connection_that_was_taken_and_stayed_silent_is_no_silence() -> None:
    seen = world(Outcome.TIMEOUT)
    seen[CLUSTER_IP.key] = [replace(each, connected=1.0) for each in seen[CLUSTER_IP.key]]
    assert CLUSTER_IP.key not in explained(seen)


def test_direct_paths_are_those_of_pods_that_are_not_the_backend() -> None:
    clients = {path.client for path in PATHS} | {by_id("clusterip.tcp.ipv4.backend-to-clusterip").subject.path.client}
    assert set(direct(clients, [Family.IPV4], [Protocol.TCP])) == {DIRECT, ALSO_DIRECT}
