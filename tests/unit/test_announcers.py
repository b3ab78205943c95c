"""Which node announces a Service, by Leases, and what that excuses."""

from typing import Any, cast

import pytest

from esipp.base.json import Json
from esipp.checks.check import Status
from esipp.checks.expiry import binds
from esipp.checks.ingress import WITH_ENDPOINT, WITHOUT_ENDPOINT
from esipp.checks.model import AddressClass
from esipp.cluster.client import ApiError, Cluster
from esipp.loadbalancers.announcers import announcer_facts
from esipp.loadbalancers.profiles.loading import named
from tests.unit.world import by_id, show, verdict

NAMESPACE = "esipp-1"
LOCAL, CLUSTER = "loadbalancer-local", "loadbalancer-cluster"
SERVICES = {
    LOCAL: {"spec": {"externalTrafficPolicy": "Local"}},
    CLUSTER: {"spec": {"externalTrafficPolicy": "Cluster"}},
}
FACT = f"load-balancer.announcer.{LOCAL}"


def lease(service: str, node: str) -> Json:
    name = f"cilium-l2announce-{NAMESPACE}-{service}"
    return {"metadata": {"name": name}, "spec": {"holderIdentity": node} if node else {}}


def endpoints(service: str, *nodes: str, ready: bool = True) -> Json:
    each = [{"nodeName": node, "conditions": {"ready": ready}} for node in nodes]
    return {"metadata": {"labels": {"kubernetes.io/service-name": service}}, "endpoints": each}


class Api:
    """A cluster with these Leases and EndpointSlices; None: they may not be listed."""

    def __init__(self, leases: list[Json] | None, slices: list[Json]) -> None:
        self.leases, self.slices = leases, slices

    def list(self, path: str) -> list[Json]:
        if path.endswith("/leases"):
            if self.leases is None:
                raise ApiError(403, "Forbidden", "no", path)
            return self.leases
        assert f"/namespaces/{NAMESPACE}/" in path
        return self.slices


def facts(leases: list[Json] | None, *slices: Json, profile: str = "cilium-l2") -> dict[str, Any]:
    return announcer_facts(cast(Cluster, Api(leases, list(slices))), [named(profile)], NAMESPACE, SERVICES)


def test_a_node_that_holds_the_lease_has_an_endpoint_or_not() -> None:
    slices = (endpoints(LOCAL, "worker"), endpoints(LOCAL, "worker2", ready=False), endpoints(CLUSTER, "worker3"))
    found = facts([lease(LOCAL, "worker"), lease(CLUSTER, "worker2")], *slices)
    assert {name: each.value for name, each in found.items()} == {FACT: WITH_ENDPOINT}, "of Local Services alone"
    elsewhere = facts([lease(LOCAL, "worker2")], *slices)[FACT]
    assert elsewhere.value == WITHOUT_ENDPOINT, "one that is not ready is none"
    assert elsewhere.decided == (
        f"worker2 holds Lease kube-system/cilium-l2announce-{NAMESPACE}-{LOCAL}; its ready endpoints are on worker"
    )
    assert facts([lease(LOCAL, "worker")])[FACT].decided.endswith("its ready endpoints are on no node")


@pytest.mark.parametrize(
    ("leases", "profile"),
    [
        (None, "cilium-l2"),  # the account may not list them
        ([], "cilium-l2"),
        ([lease(LOCAL, "")], "cilium-l2"),  # released
        ([lease(f"{LOCAL}-2", "worker")], "cilium-l2"),  # of another Service
        ([lease(LOCAL, "worker")], "metallb-l2"),
    ],
)
def test_nothing_is_said_without_a_lease(leases: list[Json] | None, profile: str) -> None:
    assert facts(leases, endpoints(LOCAL, "worker"), profile=profile) == {}


L2 = {"service-proxy": "cilium", "cilium.version": "1.18.6", "load-balancer.profile": "cilium-l2"}
SILENT, OTHER = AddressClass.DROPPED, AddressClass.OTHER


def test_a_local_vip_at_a_node_without_an_endpoint_is_known_of_cilium_before_1_20_2() -> None:
    check = by_id("loadbalancer.local.tcp.ipv4.outside-1-to-vip")
    at = f"load-balancer.announcer.{check.subject.own_service}"
    silent = show(check.subject.path, SILENT)
    assert verdict(check, silent, facts=L2 | {at: WITHOUT_ENDPOINT}).status is Status.KNOWN
    assert verdict(check, silent, facts=L2 | {at: WITH_ENDPOINT}).status is Status.FAIL
    assert verdict(check, silent, facts=L2).status is Status.FAIL, "nobody knows which node it is"
    assert verdict(check, show(check.subject.path, OTHER), facts=L2 | {at: WITHOUT_ENDPOINT}).status is Status.FAIL
    newer = L2 | {at: WITHOUT_ENDPOINT, "cilium.version": "1.20.2"}
    assert verdict(check, silent, facts=newer).status is Status.FAIL
    metallb = L2 | {at: WITHOUT_ENDPOINT, "load-balancer.profile": "metallb-l2"}
    assert verdict(check, silent, facts=metallb).status is Status.FAIL


def test_a_run_in_which_each_announcing_node_has_an_endpoint_is_no_proof_that_it_is_mended() -> None:
    check = by_id("loadbalancer.local.tcp.ipv4.outside-1-to-vip")
    (claim,) = (each for each in check.differences if ("load-balancer.profile", "cilium-l2") in each.when)
    assert not binds(claim)
