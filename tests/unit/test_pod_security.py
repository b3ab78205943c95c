"""What a dry run of our namespace tells of Pod Security."""

from typing import Any, cast

import pytest

from esipp.checks.catalog import all_checks
from esipp.checks.check import HOST_NETWORK, Feature, is_about, missing_features, say_missing
from esipp.checks.model import AddressClass, Backends, EntryKind, Vantage
from esipp.checks.path import OnPath
from esipp.cluster.client import NOT_THERE, ApiError, Cluster, UnreachableError
from esipp.testbed.manifests import SECURITY_LEVEL
from esipp.testbed.refusals import host_network_feature


class Api:
    """An API server that gives a new namespace this level, or fails."""

    def __init__(self, answer: str | Exception | None) -> None:
        self.answer = answer

    def request(self, method: str, path: str, *, query: dict[str, str], body: dict[str, Any]) -> dict[str, Any]:
        assert (method, path, query) == ("POST", "/api/v1/namespaces", {"dryRun": "All"})
        assert body["metadata"]["labels"][SECURITY_LEVEL] == "privileged"
        if isinstance(self.answer, Exception):
            raise self.answer
        return {"metadata": {"labels": {SECURITY_LEVEL: self.answer} if self.answer else {}}}


RESTRICTED = "the cluster changes the Pod Security level of esipp's namespace to restricted (dry run)"


def found(answer: str | Exception | None) -> Feature:
    return host_network_feature(cast(Cluster, Api(answer)))


def refused(message: str, reason: str = "Forbidden", status: int = 403) -> ApiError:
    return ApiError(status, reason, message, "POST /api/v1/namespaces")


@pytest.mark.parametrize(
    "answer",
    [
        "privileged",
        refused("Kubernetes 1.9 knows no dry run", NOT_THERE),
        refused('admission webhook "x" does not support dry run', "BadRequest"),
        UnreachableError("away"),
        *(refused("not now", "", status) for status in (401, 409, 429, 500, 503, 504)),
    ],
)
def test_where_nothing_speaks_against_it_it_is_there(answer: str | Exception) -> None:
    assert found(answer).present


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        ("restricted", RESTRICTED),
        (None, "the cluster changes the Pod Security level of esipp's namespace to none (dry run)"),
        (
            refused("no such label"),
            "the cluster refuses a namespace with Pod Security level privileged (dry run): no such label",
        ),
    ],
)
def test_what_the_cluster_does_instead_is_said(answer: str | Exception | None, why: str) -> None:
    feature = found(answer)
    assert not feature.present
    assert feature.why == why
    assert feature.ours, "the network does not lack it: the run is partial"


# ----------------------------------------------------------------------------------------------- what is asked then
RESTRICTED_CLUSTER = {HOST_NETWORK: Feature(False, "not admitted")}


def test_what_needs_no_agent_is_asked_still() -> None:
    left = [check for check in all_checks() if HOST_NETWORK not in missing_features(check, RESTRICTED_CLUSTER)]
    ids = {check.id for check in left}
    assert {
        "clusterip.tcp.ipv4.pod-on-other-node-to-clusterip",
        "nodeport.local.tcp.ipv4.pod-on-other-node-to-other-node",
        "pod-ip.udp.ipv6.pod-on-endpoint-node-to-pod-ip",
        "api.policy.clusterip.local",
    } <= ids
    for check in left:
        for path in check.subject.paths:
            assert path.client.vantage is Vantage.POD, f"{check.id}: clients outside rest on the agents' listeners"
            assert path.entry.kind not in (EntryKind.NODE_LISTENER, EntryKind.SECOND_ADDRESS), check.id
            assert path.service is None or path.service.backends is not Backends.HOST_NETWORK, check.id
        if is_about(check, OnPath):
            assert not check.subject.accept & {AddressClass.NODE, AddressClass.HAIRPIN}, (
                f"{check.id}: only agents know all of them"
            )


@pytest.mark.parametrize(
    "identity",
    [
        "nodeport.local.tcp.ipv4.outside-1-to-endpoint-node",
        "clusterip.tcp.ipv4.host-on-other-node-to-clusterip",
        "clusterip.tcp.ipv4.backend-to-clusterip",
    ],
)
def test_what_needs_one_is_unsupported_with_that_reason(identity: str) -> None:
    (check,) = [each for each in all_checks() if each.id == identity]
    missing = {HOST_NETWORK: RESTRICTED_CLUSTER[HOST_NETWORK]}
    assert missing_features(check, RESTRICTED_CLUSTER)[HOST_NETWORK] == missing[HOST_NETWORK]
    assert say_missing(check, missing) == "needs host-network: not admitted"


def test_a_ledger_of_before_knows_nothing_of_it() -> None:
    assert all(HOST_NETWORK not in missing_features(check, {}) for check in all_checks())
