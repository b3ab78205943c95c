"""Controllers and admission policies that act on the Services of a running run."""

import contextlib
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http import HTTPStatus
from threading import Event

from esipp.base.json import Json
from esipp.base.labels import MANAGED_BY, UNSERVED_CLASS
from esipp.base.waiting import Budget, Reading, converge
from esipp.cluster.client import ApiError, UnreachableError
from tests.broken.nodes import OURS, Nodes, Placed
from tests.broken.policy_changes import in_background

Act = Callable[[str, Json], bool]
"""An action on a Service, given its path and current object; returns whether it changed anything."""

LOOK = 0.1
TAKES = Budget("an admission policy taking effect", 60.0, need=3, spacing=0.2)
GROUP = "/apis/admissionregistration.k8s.io/v1"
ADDRESSES = "/apis/networking.k8s.io/v1/ipaddresses"
"""What the API server allocates ClusterIPs with, since Kubernetes 1.33."""

KEEPS = f"{OURS}/keeps"
"""A finalizer."""


@contextmanager
def controller(nodes: Nodes, act: Act) -> Iterator[Placed]:
    """Poll each Service of the test's own run from its creation on, and act on it."""
    placed = Placed()

    def work(ended: Event) -> None:
        while not ended.wait(LOOK):
            with contextlib.suppress(ApiError, UnreachableError):  # the namespace comes and goes
                for namespace in nodes.own_namespaces():
                    services = f"/api/v1/namespaces/{namespace}/services"
                    for item in nodes.cluster.list(services):
                        with contextlib.suppress(ApiError):  # gone meanwhile
                            if act(f"{services}/{item['metadata']['name']}", item):
                                placed.at = placed.at or time.time()

    with in_background(work):
        yield placed


@contextmanager
def losing(nodes: Nodes, name: str, fields: tuple[str, ...], only_if: str) -> Iterator[Placed]:
    """Admission removes fields of Services' specs at every update, in the namespaces of runs.

    Args:
        nodes: the nodes of the cluster.
        name: the name of the policy.
        fields: the fields of ``spec``.
        only_if: a condition in CEL, about ``object`` and ``oldObject``.
    """
    name = f"{OURS}-{name}"
    policies, bindings = f"{GROUP}/mutatingadmissionpolicies", f"{GROUP}/mutatingadmissionpolicybindings"
    has = {
        field: f'has(object.spec.{field}) ? [JSONPatch{{op: "remove", path: "/spec/{field}"}}] : []' for field in fields
    }
    removed = " + ".join(f"({each})" for each in has.values())
    rules = [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["UPDATE"], "resources": ["services"]}]
    policy = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingAdmissionPolicy",
        "metadata": {"name": name},
        "spec": {
            "matchConstraints": {"resourceRules": rules},
            "matchConditions": [{"name": "only-if", "expression": only_if}],
            "failurePolicy": "Fail",
            "reinvocationPolicy": "Never",
            "mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": removed}}],
        },
    }
    where = {"namespaceSelector": {"matchLabels": MANAGED_BY}}
    binding = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingAdmissionPolicyBinding",
        "metadata": {"name": name},
        "spec": {"policyName": name, "matchResources": where},
    }
    try:
        nodes.cluster.create(policies, policy)
        nodes.cluster.create(bindings, binding)
        _wait_until_it_acts(nodes, name, fields)
        yield Placed(time.time())
    finally:
        nodes.cluster.delete(f"{bindings}/{name}")
        nodes.cluster.delete(f"{policies}/{name}")


@contextmanager
def keeping_addresses(nodes: Nodes, service: str) -> Iterator[Placed]:
    """The ClusterIPs of a Service of the test's own run stay allocated after its deletion: a finalizer holds them."""
    placed = Placed()

    def work(ended: Event) -> None:
        while not ended.wait(LOOK):
            with contextlib.suppress(ApiError, UnreachableError):
                own = nodes.own_namespaces()
                for each in nodes.cluster.list(ADDRESSES):
                    of = each["spec"]["parentRef"]
                    ours = of["name"] == service and of["namespace"] in own
                    if ours and not each["metadata"].get("finalizers"):
                        _hold(nodes, each["metadata"]["name"], [KEEPS])
                        placed.at = placed.at or time.time()

    try:
        with in_background(work):
            yield placed
    finally:
        _let_go(nodes)


def _hold(nodes: Nodes, address: str, finalizers: list[str]) -> None:
    nodes.cluster.patch(f"{ADDRESSES}/{address}", {"metadata": {"finalizers": finalizers}}, "merge-patch")


def _let_go(nodes: Nodes) -> None:
    for each in _listed(nodes, ADDRESSES):
        if KEEPS in (each["metadata"].get("finalizers") or ()):
            _hold(nodes, each["metadata"]["name"], [])


def heal(nodes: Nodes) -> None:
    """Delete the policies of a killed session and their test namespace, and let go of addresses."""
    of_policies = (f"{GROUP}/mutatingadmissionpolicybindings", f"{GROUP}/mutatingadmissionpolicies")
    for kind in (*of_policies, "/api/v1/namespaces"):
        for name in (each["metadata"]["name"] for each in _listed(nodes, kind)):
            if name.startswith(f"{OURS}-"):
                nodes.cluster.delete(f"{kind}/{name}")
    _let_go(nodes)


def _listed(nodes: Nodes, kind: str) -> list[Json]:
    """The objects of a kind; none if the API server is too old to have the kind."""
    try:
        return nodes.cluster.list(kind)
    except ApiError as missing:
        if missing.status == HTTPStatus.NOT_FOUND:
            return []
        raise


def _wait_until_it_acts(nodes: Nodes, name: str, fields: tuple[str, ...]) -> None:
    """Wait until a Service in a namespace like a run's loses these fields."""
    metadata: Json = {"name": name, "labels": dict(MANAGED_BY)}
    spec = {
        "type": "LoadBalancer",
        "externalTrafficPolicy": "Local",
        "loadBalancerClass": UNSERVED_CLASS,
        "sessionAffinity": "ClientIP",
        "ports": [{"port": 80}],
    }
    services = f"/api/v1/namespaces/{name}/services"
    kept = {field: spec[field] for field in fields if field in spec}
    nodes.cluster.create("/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
    try:

        def look() -> Reading:
            made = nodes.cluster.create(
                services, {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": spec}
            )
            edit = {"metadata": {"annotations": {"esipp.dev/edited": "yes"}}}
            edited = nodes.cluster.patch(f"{services}/{name}", edit, "merge-patch")["spec"]
            nodes.cluster.delete(f"{services}/{name}")
            lost = all(edited.get(field) != value for field, value in kept.items())
            return Reading(lost and made["spec"]["type"] == spec["type"], str(edited))

        waited = converge(look, TAKES)
        assert waited.held, waited
    finally:
        nodes.cluster.delete(f"/api/v1/namespaces/{name}")
