"""Policies that restrict a run: reported as such, never as a failure of the product; nothing is left behind."""

import contextlib
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from esipp.base.json import Json
from esipp.checks.check import HOST_NETWORK
from esipp.cluster.client import ApiError, Cluster
from tests.hostile.running import Place
from tests.hostile.tried import Tried

pytestmark = pytest.mark.timeout(2400)

ADMISSION = "/apis/admissionregistration.k8s.io/v1"
OURS = {"matchLabels": {"app.kubernetes.io/managed-by": "esipp"}}
NAME = "esipp-hostile.example.com"
EXCEEDED = "exceeded quota"
"""The API server's own words."""


@contextmanager
def made(cluster: Cluster, *objects: tuple[str, Json]) -> Iterator[None]:
    """Objects that exist during the body, each with its collection."""
    try:
        for collection, manifest in objects:
            cluster.create(collection, manifest)
        yield
    finally:
        for collection, manifest in reversed(objects):
            cluster.delete(f"{collection}/{manifest['metadata']['name']}")


@contextmanager
def in_new_namespaces(cluster: Cluster, collection: str, manifest: Json) -> Iterator[None]:
    """An object that a controller adds to each of the suite's namespaces at once."""
    over = threading.Event()

    def put() -> None:
        for kind, item in cluster.watch(
            "/api/v1/namespaces", budget=600, labelSelector="app.kubernetes.io/managed-by=esipp"
        ):
            if over.is_set():
                return
            if kind == "ADDED":
                with contextlib.suppress(ApiError):  # it is there, or the namespace is on its way out
                    cluster.create(collection.format(namespace=item["metadata"]["name"]), manifest)

    thread = threading.Thread(target=put, daemon=True)  # the watch ends with the next namespace that comes or goes
    thread.start()
    try:
        yield
    finally:
        over.set()


def webhook(**how: Any) -> tuple[str, Json]:
    """A webhook for the suite's pods, without a server."""
    return f"{ADMISSION}/validatingwebhookconfigurations", {
        "metadata": {"name": NAME},
        "webhooks": [{
            "name": f"pods.{NAME}", "sideEffects": "None", "admissionReviewVersions": ["v1"], "timeoutSeconds": 2,
            "clientConfig": {"service": {"name": "nobody", "namespace": "default", "path": "/"}},
            "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}],
            "namespaceSelector": OURS, **how,
        }],
    }  # fmt: skip


def policy(resource: str, expression: str, message: str, *, selector: Json | None = None) -> list[tuple[str, Json]]:
    """An admission policy for what is created, and its binding."""
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": [resource]}
    match = {"resourceRules": [rule], **({"namespaceSelector": selector} if selector else {})}
    return [
        (f"{ADMISSION}/validatingadmissionpolicies", {
            "metadata": {"name": NAME},
            "spec": {"matchConstraints": match, "validations": [{"expression": expression, "message": message}]},
        }),
        (f"{ADMISSION}/validatingadmissionpolicybindings", {
            "metadata": {"name": NAME}, "spec": {"policyName": NAME, "validationActions": ["Deny"]},
        }),
    ]  # fmt: skip


def test_webhook_is_broken(place: Place, cluster: Cluster, tried: Tried) -> None:
    with made(cluster, webhook(failurePolicy="Fail")):
        ended = place.start().end()
    tried.keep(
        ended, what="an admission webhook for pods does not answer", how="one whose Service is not there",
        left=place.left(ended),
    )  # fmt: skip
    assert (ended.code, ended.product_is_blamed, place.left(ended)) == (3, [], [])
    kind, name = "webhook", f"pods.{NAME}"
    assert f"the admission {kind} {name} refuses our objects or is broken" in ended.message


def test_policy_rejects_our_pods(place: Place, cluster: Cluster, tried: Tried) -> None:
    message = "no pods today"
    with made(cluster, *policy("pods", "false", message, selector=OURS)):
        ended = place.start().end()
    tried.keep(
        ended, what="an admission policy rejects our pods", how="a ValidatingAdmissionPolicy", left=place.left(ended)
    )
    assert (ended.code, ended.product_is_blamed, place.left(ended)) == (3, [], [])
    assert message in ended.message
    kind = "policy"
    assert f"the admission {kind} {NAME} refuses our objects or is broken" in ended.message


def test_quota(place: Place, cluster: Cluster, tried: Tried) -> None:
    quota = {"metadata": {"name": "few"}, "spec": {"hard": {"pods": "2", "services": "1"}}}
    with in_new_namespaces(cluster, "/api/v1/namespaces/{namespace}/resourcequotas", quota):
        ended = place.start().end()
    tried.keep(
        ended, what="a ResourceQuota in our namespace is too small", how="put into it as soon as it was there",
        left=place.left(ended),
    )  # fmt: skip
    assert (ended.code, ended.product_is_blamed, place.left(ended)) == (3, [], [])
    assert EXCEEDED in ended.message


def test_limit_range(place: Place, cluster: Cluster, tried: Tried) -> None:
    limits = {"metadata": {"name": "small"}, "spec": {"limits": [{"type": "Container", "max": {"memory": "64Mi"}}]}}
    with in_new_namespaces(cluster, "/api/v1/namespaces/{namespace}/limitranges", limits):
        ended = place.start().end()
    tried.keep(
        ended, what="a LimitRange in our namespace is too small", how="put into it as soon as it was there",
        left=place.left(ended),
    )  # fmt: skip
    assert (ended.code, ended.product_is_blamed, place.left(ended)) == (3, [], [])
    assert "a LimitRange" in ended.message


def test_network_policy_denies_by_default(place: Place, cluster: Cluster, tried: Tried) -> None:
    deny = {"metadata": {"name": "deny"}, "spec": {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}}
    path = "/apis/networking.k8s.io/v1/namespaces/{namespace}/networkpolicies"
    with in_new_namespaces(cluster, path, deny):
        ended = place.start().end()
    tried.keep(
        ended, what="a NetworkPolicy in our namespace denies everything", how="put into it as soon as it was there",
        left=place.left(ended), then="the run says so, and adds one of its own that allows everything",
    )  # fmt: skip
    assert (ended.product_is_blamed, place.left(ended)) == ([], [])
    assert "NetworkPolicy" in ended.text


def test_pod_security_is_restricted(place: Place, cluster: Cluster, tried: Tried) -> None:
    level = "object.metadata.labels[?'pod-security.kubernetes.io/enforce'].orValue('') != 'privileged'"
    message = "no privileged namespaces"
    with made(cluster, *policy("namespaces", level, message, selector=OURS)):
        ended = place.start().end()
    tried.keep(
        ended, what="Pod Security: no namespace may be privileged", how="a ValidatingAdmissionPolicy for namespaces",
        left=place.left(ended),
        then="what needs no pod on the host network is asked, in a namespace of the level `restricted`; all else is "
        "`unsupported`: needs host-network, with the words of the refusal",
    )  # fmt: skip
    assert (ended.code, place.left(ended)) == (0, [])
    assert set(ended.statuses.values()) == {"pass", "unsupported"}
    unsupported = [ended.reasons[check] for check, status in ended.statuses.items() if status == "unsupported"]
    assert all(why.startswith(f"needs {HOST_NETWORK}: ") and message in why for why in unsupported)
