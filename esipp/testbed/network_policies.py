"""Network policies that others made: some clusters deny all traffic by default in every new namespace, or everywhere.

What they forbid would look like the product's silence. NetworkPolicies only ever add up, so one of ours that allows
everything lifts them; it is made only where there are any, as it might change what the add-on does. Policies for the
whole cluster (ClusterNetworkPolicy, and those of add-ons) cannot be lifted so. They explain silence only where our
pods do not reach each other directly either, with no Service in the way.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from esipp.base.errors import HarnessError
from esipp.base.labels import MANAGED_BY, labels_of
from esipp.checks.model import POD_BACKEND, Backends, Client, Entry, EntryKind, Family, Path, Protocol, Vantage
from esipp.checks.observation import Observation, Outcome
from esipp.cluster.client import ApiError, Cluster, UnreachableError

FACT = "network-policies.beyond-us"
"""The fact that names policies which may deny something and which we cannot lift; there is none where there are none.
"""

OURS = "esipp-allow-all"
UNKNOWN_THERE = (404, 501)
"""How a server refuses that does not know such objects."""

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
"""Those of add-ons for one namespace, which a NetworkPolicy of ours does not lift."""

HINT = "exempt namespaces with the label app.kubernetes.io/managed-by=esipp from it, or let the account create one."


def _collection(namespace: str) -> str:
    return f"/apis/networking.k8s.io/v1/namespaces/{namespace}/networkpolicies"


def of_others(cluster: Cluster, namespace: str) -> list[str]:
    """The names of those that are not ours; none where we may not look, or the server knows none."""
    try:
        found = cluster.list(_collection(namespace))
    except ApiError:
        return []
    label, value = next(iter(MANAGED_BY.items()))
    others = [each["metadata"] for each in found if (each["metadata"].get("labels") or {}).get(label) != value]
    return sorted(str(each["name"]) for each in others)


def unseen(cluster: Cluster, namespace: str) -> str:
    """Why nobody can tell whether there are any; nothing where it can be told, or the server knows none."""
    try:
        cluster.list(_collection(namespace))
    except ApiError as refused:
        return "" if refused.status in UNKNOWN_THERE else refused.message
    except UnreachableError as silent:
        return str(silent)
    return ""


def lift(cluster: Cluster, namespace: str, run: str) -> list[str]:
    """Allow everything where somebody put policies into our namespace; their names.

    Raises:
        HarnessError: there are some, and we may not make ours.
    """
    names = of_others(cluster, namespace)
    if not names:
        return []
    everything: list[dict[str, Any]] = [{}]
    manifest = {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {"name": OURS, "labels": labels_of(run)},
        "spec": {
            "podSelector": {},
            "policyTypes": ["Ingress", "Egress"],
            "ingress": everything,
            "egress": everything,
        },
    }
    try:
        cluster.create(_collection(namespace), manifest)
    except ApiError as refused:
        raise HarnessError(
            f"The NetworkPolicy {', '.join(names)} was put into our namespace, and ours that allows everything was "
            f"refused: {refused.message}.",
            HINT,
        ) from None
    return names


def check(cluster: Cluster, namespace: str, lifted: bool) -> None:
    """Make sure that no policy came while we looked, where ours is not there to lift it.

    Raises:
        HarnessError: one did.
    """
    names = [] if lifted else of_others(cluster, namespace)
    if names:
        raise HarnessError(
            f"The NetworkPolicy {', '.join(names)} was put into our namespace meanwhile: the window cannot be judged.",
            HINT,
        )


# ------------------------------------------------------------------------------------------ those that cannot be lifted
def beyond_us(cluster: Cluster, namespace: str = "") -> list[str]:
    """The policies that may deny something and that we cannot lift, as ``AdminNetworkPolicy deny-all``.

    Args:
        cluster: a kind that it does not know, or that the account may not list, has none.
        namespace: ours, as soon as it is there.
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
    """Whether a policy may: those of the API say so in a rule, those of add-ons deny whatever they do not allow."""
    if OF_THE_API not in collection:
        return True
    spec = item.get("spec") or {}
    return any(rule.get("action") == "Deny" for way in ("ingress", "egress") for rule in spec.get(way) or ())


def direct(clients: Iterable[Client], families: Iterable[Family], protocols: Iterable[Protocol]) -> list[Path]:
    """The paths from our pods to the backend's own address, with no Service in the way."""
    pods = sorted({client for client in clients if client.vantage is Vantage.POD and client.name != POD_BACKEND})
    protocols = list(protocols)
    return [Path(client, Entry(EntryKind.POD_IP), protocol, family)
            for client in pods for family in families for protocol in protocols]  # fmt: skip


def _is_direct(path: Path) -> bool:
    own = path.client.name == POD_BACKEND
    return path.entry.kind is EntryKind.POD_IP and path.client.vantage is Vantage.POD and not own


def _is_to_pods(path: Path) -> bool:
    """Whether it leads to a pod on the pod network: the host network is not what such policies are about."""
    if path.service is None:
        return path.entry.kind is EntryKind.POD_IP
    return path.service.backends is not Backends.HOST_NETWORK


def denied(paths: Iterable[Path], seen: Mapping[str, Sequence[Observation]], policies: Sequence[str]) -> dict[str, str]:
    """The paths whose silence policies may explain, by key, with the reason.

    The direct paths of the same protocol and family have to be silent in the same way: those of the same client where
    it is a pod that has one, else all of them. Where one of them answers, nothing is explained.

    Args:
        paths: those that were dialled, the direct ones among them.
        seen: their observations, by key.
        policies: those that cannot be lifted.
    """
    if not policies:
        return {}
    paths = list(paths)
    controls = [path for path in paths if _is_direct(path) and seen.get(path.key)]
    found = {}
    for path in paths:
        alike = [each for each in controls if (each.protocol, each.family) == (path.protocol, path.family)]
        alike = [each for each in alike if each.client == path.client] or alike
        ways = _silence(path, seen)
        if alike and ways and _is_to_pods(path) and all(_silence(each, seen) >= ways for each in alike):
            found[path.key] = (
                f"our pods do not reach each other directly over {path.protocol} and {path.family} either, with no "
                f"Service in the way ({alike[0].key}: {', '.join(sorted(_silence(alike[0], seen)))}), and there is "
                f"{', '.join(policies)}: {HINT}"
            )
    return found


def _silence(path: Path, seen: Mapping[str, Sequence[Observation]]) -> set[str]:
    """In which ways a path was silent; none if anything answered or took the connection, or nothing was observed."""
    made = seen.get(path.key, ())
    quiet = {Outcome.TIMEOUT, Outcome.REFUSED, Outcome.UNREACHABLE}
    if any(each.outcome not in quiet or each.connected is not None for each in made):
        return set()
    return {each.outcome.value for each in made}
