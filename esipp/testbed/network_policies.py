"""Network policies of others, which some clusters add to every new namespace or to the whole cluster.

Traffic that they deny would look like a defect of the product. NetworkPolicies are additive, so one that allows all
traffic overrides them. esipp creates it only if there are others, because it might change what the add-on does. It
cannot override policies for the whole cluster (ClusterNetworkPolicy, and those of add-ons). These explain missing
answers only if esipp's pods do not reach each other directly either, without a Service.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from esipp.base.errors import HarnessError
from esipp.base.json import Json
from esipp.base.labels import MANAGED_BY, labels_of
from esipp.checks.check import Feature
from esipp.checks.model import POD_BACKEND, Backends, Client, Entry, EntryKind, Family, Outcome, Path, Protocol, Vantage
from esipp.cluster.client import ApiError, Cluster, UnreachableError
from esipp.judging.observation import Observation

FEATURE = "network-policies"
"""The feature: the network add-on enforces NetworkPolicies."""

FACT = "network-policies.beyond-us"
"""The fact that names policies that may deny traffic and that esipp cannot override; not set if there are none."""

OURS = "esipp-allow-all"
UNKNOWN_THERE = (404, 501)
"""The statuses of a server that does not know such objects."""

OF_THE_API, CILIUM, CALICO = "policy.networking.k8s.io", "cilium.io/v2", "crd.projectcalico.org/v1"
EVERYWHERE: Mapping[str, str] = {
    f"/apis/{OF_THE_API}/v1alpha1/adminnetworkpolicies": "AdminNetworkPolicy",
    f"/apis/{OF_THE_API}/v1alpha1/baselineadminnetworkpolicies": "BaselineAdminNetworkPolicy",
    f"/apis/{OF_THE_API}/v1alpha2/clusternetworkpolicies": "ClusterNetworkPolicy",
    f"/apis/{CILIUM}/ciliumclusterwidenetworkpolicies": "CiliumClusterwideNetworkPolicy",
    f"/apis/{CALICO}/globalnetworkpolicies": "GlobalNetworkPolicy",
}
"""Policies for the whole cluster, by collection."""

IN_NAMESPACE: Mapping[str, str] = {
    f"/apis/{CILIUM}/namespaces/{{}}/ciliumnetworkpolicies": "CiliumNetworkPolicy",
}
"""Policies of add-ons for one namespace, which a NetworkPolicy does not override."""

HINT = (
    "exempt namespaces with the label app.kubernetes.io/managed-by=esipp from it, or let the account create "
    "NetworkPolicies."
)


def collection_of(namespace: str) -> str:
    """The path of a namespace's NetworkPolicies."""
    return f"/apis/networking.k8s.io/v1/namespaces/{namespace}/networkpolicies"


def of_others(cluster: Cluster, namespace: str) -> list[str]:
    """The names of other NetworkPolicies; none if the account may not list them, or the server does not know them."""
    try:
        found = cluster.list(collection_of(namespace))
    except ApiError:
        return []
    label, value = next(iter(MANAGED_BY.items()))
    others = [each["metadata"] for each in found if (each["metadata"].get("labels") or {}).get(label) != value]
    return sorted(str(each["name"]) for each in others)


def unseen(cluster: Cluster, namespace: str) -> str:
    """Why NetworkPolicies cannot be listed; empty if they can, or the server does not know them."""
    try:
        cluster.list(collection_of(namespace))
    except ApiError as refused:
        return "" if refused.status in UNKNOWN_THERE else refused.message
    except UnreachableError as silent:
        return str(silent)
    return ""


def lift(cluster: Cluster, namespace: str, run: str) -> list[str]:
    """Allow all traffic if others put policies into the run's namespace, and return their names.

    Raises:
        HarnessError: there are some, and the API server refuses a NetworkPolicy that allows all traffic.
    """
    names = of_others(cluster, namespace)
    if not names:
        return []
    everything: list[dict[str, Any]] = [{}]
    spec = {"podSelector": {}, "policyTypes": ["Ingress", "Egress"], "ingress": everything, "egress": everything}
    try:
        cluster.create(collection_of(namespace), manifest(OURS, run, spec))
    except ApiError as refused:
        raise HarnessError(
            f"The run's namespace has the NetworkPolicy {', '.join(names)} of someone else, and the API server refused "
            f"one that allows all traffic: {refused.message}.",
            HINT,
        ) from None
    return names


def manifest(name: str, run: str, spec: Json) -> Json:
    """A NetworkPolicy of the run."""
    metadata = {"name": name, "labels": labels_of(run)}
    return {"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": metadata, "spec": spec}


def feature(cluster: Cluster) -> Feature:
    """Whether esipp may create NetworkPolicies; whether they have an effect shows once its pods run."""
    may = cluster.may("create", "networkpolicies", group="networking.k8s.io")
    why = "one of esipp's own shows whether it has an effect" if may else "the account may not create networkpolicies"
    return Feature(may, why, ours=not may)


def check(cluster: Cluster, namespace: str, lifted: bool) -> None:
    """Check that no policy was added during the window, if there is none that overrides it.

    Raises:
        HarnessError: a policy was added.
    """
    names = [] if lifted else of_others(cluster, namespace)
    if names:
        raise HarnessError(
            f"Someone added the NetworkPolicy {', '.join(names)} to the run's namespace meanwhile: esipp cannot judge "
            "the window.",
            HINT,
        )


# ------------------------------------------------------------------------------------------ those that cannot be lifted
def beyond_us(cluster: Cluster, namespace: str = "") -> list[str]:
    """The policies that may deny traffic and that esipp cannot override, such as ``AdminNetworkPolicy deny-all``.

    Args:
        cluster: the cluster; kinds that it does not know, or that the account may not list, are skipped.
        namespace: namespace of the run, once it exists.
    """
    collections = dict(EVERYWHERE)
    if namespace:
        collections |= {path.format(namespace): kind for path, kind in IN_NAMESPACE.items()}
    found = []
    for collection, kind in collections.items():
        try:
            items = cluster.list(collection)
        except (ApiError, UnreachableError):
            continue
        found += [f"{kind} {each['metadata']['name']}" for each in items if _may_deny(collection, each)]
    return sorted(found)


def _may_deny(collection: str, item: Mapping[str, Any]) -> bool:
    """Whether a policy may deny traffic: API policies by a rule, add-on policies by not allowing it."""
    if OF_THE_API not in collection:
        return True
    spec = item.get("spec") or {}
    return any(rule.get("action") == "Deny" for way in ("ingress", "egress") for rule in spec.get(way) or ())


def direct(clients: Iterable[Client], families: Iterable[Family], protocols: Iterable[Protocol]) -> list[Path]:
    """The paths from esipp's pods to the backend pod's own address, without a Service."""
    pods = sorted({client for client in clients if client.vantage is Vantage.POD and client.name != POD_BACKEND})
    protocols = list(protocols)
    return [Path(client, Entry(EntryKind.POD_IP), protocol, family)
            for client in pods for family in families for protocol in protocols]  # fmt: skip


def _is_direct(path: Path) -> bool:
    own = path.client.name == POD_BACKEND
    return path.entry.kind is EntryKind.POD_IP and path.client.vantage is Vantage.POD and not own


def _is_to_pods(path: Path) -> bool:
    """Whether a path leads to a pod on the pod network; such policies do not apply to the host network."""
    if path.service is None:
        return path.entry.kind is EntryKind.POD_IP
    return path.service.backends is not Backends.HOST_NETWORK


def denied(
    paths: Iterable[Path], observations: Mapping[str, Sequence[Observation]], policies: Sequence[str]
) -> dict[str, str]:
    """The paths whose missing answers policies may explain, by key, with the reason.

    The direct paths of the same protocol and family must fail in the same way: those of the same client if it has one,
    otherwise all of them. If one of them answers, policies explain nothing.

    Args:
        paths: the dialled paths, including the direct ones.
        seen: their observations, by key.
        policies: the policies that cannot be overridden.
    """
    if not policies:
        return {}
    paths = list(paths)
    controls = [path for path in paths if _is_direct(path) and observations.get(path.key)]
    found = {}
    for path in paths:
        alike = [each for each in controls if (each.protocol, each.family) == (path.protocol, path.family)]
        alike = [each for each in alike if each.client == path.client] or alike
        ways = _silence(path, observations)
        if alike and ways and _is_to_pods(path) and all(_silence(each, observations) >= ways for each in alike):
            found[path.key] = (
                f"our pods do not reach each other over {path.protocol} and {path.family} without a Service either "
                f"({alike[0].key}: {', '.join(sorted(_silence(alike[0], observations)))}), and the cluster has "
                f"{', '.join(policies)}: {HINT}"
            )
    return found


def _silence(path: Path, observations: Mapping[str, Sequence[Observation]]) -> set[str]:
    """The failed outcomes of a path; empty if anything answered or accepted a connection, or nothing was observed."""
    made = observations.get(path.key, ())
    quiet = {Outcome.TIMEOUT, Outcome.REFUSED, Outcome.UNREACHABLE}
    if any(each.outcome not in quiet or each.connected is not None for each in made):
        return set()
    return {each.outcome.value for each in made}
