"""NetworkPolicies that others put into our namespace: some clusters deny all traffic by default in every new one.

What they forbid would look like the product's silence. NetworkPolicies only ever add up, so one of ours that allows
everything lifts them; it is made only where there are any, as it might change what the add-on does. Policies for the
whole cluster (ClusterNetworkPolicy, and those of add-ons) cannot be lifted so.
"""

from typing import Any

from esipp.cluster import ApiError, Cluster, UnreachableError
from esipp.errors import HarnessError
from esipp.labels import MANAGED_BY, labels_of

OURS = "esipp-allow-all"
UNKNOWN_THERE = (404, 501)
"""How a server refuses that does not know such objects."""

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
