"""Checks of what the cluster lets into a namespace of ours: by dry runs, and by what every other namespace has."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from esipp.app.doctor.model import DoctorCheck, ok, warn
from esipp.app.plan.plan import Made
from esipp.checks.check import Feature
from esipp.cluster.client import NOT_THERE, ApiError, Cluster
from esipp.cluster.namespaces import of_runs
from esipp.testbed.manifests import agent_pod
from esipp.testbed.refusals import EACH

Json = dict[str, Any]

DRY, POD = "dry-run", "esipp-dry-run"
SYSTEM = ("kube-", "openshift-", "gke-", "gmp-")
"""How namespaces begin that are no user's: what they have, ours need not get."""

OF_LEVEL = "PodSecurity"
"""Names the admission plug-in in its refusals: it goes by labels of the namespace, and ours has its own."""

HINT_RIGHTS = "the account needs 'list' for it, which docs/rbac.yaml leaves out; ask whoever runs the cluster."
HINT_POLICY = "exempt namespaces with the label app.kubernetes.io/managed-by=esipp, or see docs/rights.md."


def of_namespace(hosted: Feature) -> DoctorCheck:
    """Whether ours may have pods on the host network (``host_network_feature``)."""
    if not hosted.present:
        return warn(
            "namespace", hosted.why, "without agents on the host network few checks are left: docs/rights.md, "
            + "or take what is refused off the policy.",
        )  # fmt: skip
    if hosted.why.startswith("taken for"):
        return warn("namespace", hosted.why, "whether it is, a run finds out when it makes its namespace.")
    return ok("namespace", hosted.why)


def of_pod(cluster: Cluster, node: str, image: str) -> DoctorCheck:
    """Whether our most privileged pod is admitted, and as it was sent: a dry run in the namespace ``default``."""
    name = "pods"
    manifest = agent_pod(POD, DRY, node, image, raw=True)
    try:
        made = cluster.request("POST", "/api/v1/namespaces/default/pods", query={"dryRun": "All"}, body=manifest)
    except ApiError as refused:
        if OF_LEVEL in refused.message:
            return ok(name, "the namespace default has a Pod Security level that refuses ours; our own has another")
        if refused.reason == NOT_THERE or "dry run" in refused.message:
            return warn(name, f"cannot be tried: {refused.message}", "a run finds out when it makes them.")
        return warn(name, f"our most privileged pod is refused in default (a dry run): {refused.message}", HINT_POLICY)
    spec = made.get("spec") or {}
    sent = {each["name"] for each in manifest["spec"]["containers"]}
    added = [each["name"] for part in ("initContainers", "containers") for each in spec.get(part) or ()]
    added = [each for each in added if each not in sent]
    if added:
        return warn(
            name, f"something puts containers into pods of default: {', '.join(added)}",
            "a sidecar answers in our pods' place: --namespace-labels istio-injection=disabled, or the like.",
        )  # fmt: skip
    return ok(name, "our most privileged pod is admitted as it is (a dry run in default)")


def of_service(cluster: Cluster) -> DoctorCheck:
    """Whether a Service of type LoadBalancer is admitted: a dry run in the namespace ``default``."""
    name = "services"
    spec = {"type": "LoadBalancer", "externalTrafficPolicy": "Local", "ports": [{"port": 80}]}
    body = {"apiVersion": "v1", "kind": "Service", "metadata": {"generateName": f"{POD}-"}, "spec": spec}
    try:
        cluster.request("POST", "/api/v1/namespaces/default/services", query={"dryRun": "All"}, body=body)
    except ApiError as refused:
        if refused.reason == NOT_THERE or "dry run" in refused.message:
            return warn(name, f"cannot be tried: {refused.message}", "a run finds out when it makes them.")
        said = f"a load balancer with policy Local is refused in default (a dry run): {refused.message}"
        return warn(name, said, "--annotation and --label add what a policy wants; a quota must be larger.")
    return ok(name, "a load balancer with policy Local is admitted (a dry run in default)")


# ------------------------------------------------------------------------------------------- what every namespace has
def users_namespaces(cluster: Cluster) -> set[str]:
    """The namespaces that are no system's and no run's."""
    ours = {item["metadata"]["name"] for item in of_runs(cluster)}
    names = {item["metadata"]["name"] for item in cluster.list("/api/v1/namespaces")}
    return {name for name in names - ours if not name.startswith(SYSTEM)}


def by_default(items: Iterable[Json], spaces: set[str]) -> dict[str, list[Json]]:
    """Objects, by name, that stand in all of at least two namespaces: then a new one gets them, most likely."""
    found: dict[str, dict[str, Json]] = defaultdict(dict)
    for item in items:
        about = item["metadata"]
        if about.get("namespace") in spaces:
            found[about["name"]][about["namespace"]] = item
    whole = {name: there for name, there in sorted(found.items()) if len(spaces) > 1 and there.keys() == spaces}
    return {name: list(there.values()) for name, there in whole.items()}


def _number(quantity: Any) -> float | None:
    """A count of a quota: ``5``, ``5k``; None where it is none."""
    text = str(quantity)
    factor = 1000 if text.endswith("k") else 1
    return float(text.removesuffix("k")) * factor if text.removesuffix("k").isdigit() else None


def demand(made: Made) -> Mapping[str, int]:
    """What a quota would count of a run, by resource (Kubernetes documentation, "Resource Quotas").

    What is there for a while counts like all else. Ports of health checks do not count as node ports.
    """
    balancers = made.balancers + made.reference + made.unserved
    services = balancers + made.services + made.passing
    return {
        "services.loadbalancers": balancers + made.passing_unserved, "services": services, "count/services": services,
        "services.nodeports": made.node_ports + made.passing_ports, "pods": made.pods, "count/pods": made.pods,
    }  # fmt: skip


def standing(made: Made) -> Made:
    """The same without what is there for a while only."""
    return replace(made, passing=0, passing_unserved=0, passing_ports=0)


def too_little(hard: Mapping[str, Any], made: Made) -> list[str]:
    """What of a quota's limits a run goes beyond, or cannot keep."""
    wanted, lasting = demand(made), demand(standing(made))
    found = []
    for name, limit in sorted(hard.items()):
        most = _number(limit)
        if name in wanted and most is not None and wanted[name] > most:
            more = wanted[name] - lasting[name]
            found.append(f"{name} {limit}, and {wanted[name]} are needed" + (f", {more} for a while" if more else ""))
    return found + (["limits.cpu, which pods of ours have not"] if "limits.cpu" in hard else [])


def of_quota(cluster: Cluster, made: Made | None) -> DoctorCheck:
    """ResourceQuotas that new namespaces seem to get, and whether a run fits into them."""
    name, spaces = "quota", users_namespaces(cluster)
    found = by_default(cluster.list("/api/v1/resourcequotas"), spaces)
    if not found:
        return ok(name, f"no ResourceQuota stands in every namespace (seen: {len(spaces)})")
    limits = [(items[0].get("spec") or {}).get("hard") or {} for items in found.values()]
    short = [each for hard in limits for each in too_little(hard, made)] if made else []
    names = ", ".join(found)
    if short and made:
        said = f"every namespace has the ResourceQuota {names}, too small for a run: {'; '.join(short)}"
        if any(too_little(hard, standing(made)) for hard in limits):
            fewer = "ask for fewer checks, or --without load-balancer"
            if any("loadbalancers" in each for each in short):
                fewer = "ask in batches (--parallel-load-balancers N), or --without load-balancer"
            return warn(name, said, f"exempt namespaces named esipp-*, {fewer}.")
        return warn(
            name, said, "exempt namespaces named esipp-*; else only the checks interop.many.… are inconclusive."
        )
    return ok(name, f"every namespace has the ResourceQuota {names}, into which a run fits as far as it counts objects")


def of_limits(cluster: Cluster) -> DoctorCheck:
    """LimitRanges that new namespaces seem to get."""
    found = by_default(cluster.list("/api/v1/limitranges"), users_namespaces(cluster))
    if not found:
        return ok("limits", "no LimitRange stands in every namespace")
    said = f"every namespace has the LimitRange {', '.join(found)}"
    return warn("limits", said, f"pods of ours ask for {EACH}: does it let them?")


def of_policies(cluster: Cluster) -> DoctorCheck:
    """NetworkPolicies that new namespaces seem to get; a run lifts them by one of its own."""
    items: Sequence[Json] = cluster.list("/apis/networking.k8s.io/v1/networkpolicies")
    found = by_default(items, users_namespaces(cluster))
    if not found:
        return ok("network policies", "no NetworkPolicy stands in every namespace")
    said = f"every namespace has the NetworkPolicy {', '.join(found)}"
    may = cluster.may("create", "networkpolicies", group="networking.k8s.io")
    if may:
        return ok("network policies", f"{said}; a run allows everything in its own namespace by one more")
    return warn("network policies", f"{said}, and the account may not create one that allows all", HINT_POLICY)
