"""Checks of admission: what the cluster admits in esipp's namespace, by dry runs and by what other namespaces have."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from esipp.app.doctor.model import DoctorCheck, ok, warn
from esipp.app.plan.plan import Made
from esipp.base.json import Json
from esipp.checks.check import Feature
from esipp.cluster.client import NOT_THERE, ApiError, Cluster
from esipp.cluster.namespaces import of_runs
from esipp.testbed.manifests import agent_pod
from esipp.testbed.refusals import ASSUMED, EACH

DRY, POD = "dry-run", "esipp-dry-run"
SYSTEM = ("kube-", "openshift-", "gke-", "gmp-")
"""Prefixes of system namespaces. Objects in them say nothing about new namespaces."""

OF_LEVEL = "PodSecurity"
"""The admission plug-in's name in its refusals. It goes by the namespace's labels, and esipp's namespace sets them."""

HINT_RIGHTS = "the account needs the verb 'list' for it, which docs/rbac.yaml omits; ask the cluster's administrator."
HINT_POLICY = "exempt namespaces with the label app.kubernetes.io/managed-by=esipp, or see docs/rights.md."
HINT_RETRY = "check the health of the API server."
FOUND_OUT_LATER = "a run shows it when it creates them."


def of_namespace(hosted: Feature) -> DoctorCheck:
    """Whether esipp's namespace admits pods on the host network (``host_network_feature``)."""
    if not hosted.present:
        return warn(
            "namespace", hosted.why, "without agents on the host network few checks can run: see docs/rights.md, "
            + "or relax the policy that refuses them.",
        )  # fmt: skip
    if hosted.why.startswith(ASSUMED):
        return warn("namespace", hosted.why, "a run shows whether it is when it creates its namespace.")
    return ok("namespace", hosted.why)


def of_pod(cluster: Cluster, node: str, image: str) -> DoctorCheck:
    """Whether esipp's most privileged pod is admitted unchanged: a dry run in the namespace ``default``."""
    name = "pods"
    manifest = agent_pod(POD, DRY, node, image, raw=True)
    try:
        made = cluster.request("POST", "/api/v1/namespaces/default/pods", query={"dryRun": "All"}, body=manifest)
    except ApiError as refused:
        if OF_LEVEL in refused.message:
            return ok(
                name, "the Pod Security level of namespace default refuses the pod; esipp's namespace sets its own"
            )
        if refused.reason == NOT_THERE or "dry run" in refused.message:
            return warn(name, f"cannot try it: {refused.message}", FOUND_OUT_LATER)
        said = f"namespace default refuses esipp's most privileged pod (dry run): {refused.message}"
        return warn(name, said, HINT_POLICY)
    spec = made.get("spec") or {}
    sent = {each["name"] for each in manifest["spec"]["containers"]}
    added = [each["name"] for part in ("initContainers", "containers") for each in spec.get(part) or ()]
    added = [each for each in added if each not in sent]
    if added:
        return warn(
            name, f"something injects containers into pods of namespace default: {', '.join(added)}",
            "a sidecar may answer in place of our pods: try --namespace-labels istio-injection=disabled or similar.",
        )  # fmt: skip
    return ok(name, "the cluster admits esipp's most privileged pod unchanged (dry run in namespace default)")


def of_service(cluster: Cluster) -> DoctorCheck:
    """Whether a Service of type LoadBalancer is admitted: a dry run in the namespace ``default``."""
    name = "services"
    spec = {"type": "LoadBalancer", "externalTrafficPolicy": "Local", "ports": [{"port": 80}]}
    body = {"apiVersion": "v1", "kind": "Service", "metadata": {"generateName": f"{POD}-"}, "spec": spec}
    try:
        cluster.request("POST", "/api/v1/namespaces/default/services", query={"dryRun": "All"}, body=body)
    except ApiError as refused:
        if refused.reason == NOT_THERE or "dry run" in refused.message:
            return warn(name, f"cannot try it: {refused.message}", FOUND_OUT_LATER)
        said = f"namespace default refuses a load balancer with policy Local (dry run): {refused.message}"
        return warn(name, said, "add what a policy requires with --annotation and --label, or raise the quota.")
    return ok(name, "the cluster admits a load balancer with policy Local (dry run in namespace default)")


# ------------------------------------------------------------------------------------------- what every namespace has
def users_namespaces(cluster: Cluster) -> set[str]:
    """The namespaces that belong neither to the system nor to a run."""
    ours = {item["metadata"]["name"] for item in of_runs(cluster)}
    names = {item["metadata"]["name"] for item in cluster.list("/api/v1/namespaces")}
    return {name for name in names - ours if not name.startswith(SYSTEM)}


def by_default(items: Iterable[Json], spaces: set[str]) -> dict[str, list[Json]]:
    """Objects, by name, that exist in all of at least two namespaces: most likely a new namespace gets them too."""
    found: dict[str, dict[str, Json]] = defaultdict(dict)
    for item in items:
        about = item["metadata"]
        if about.get("namespace") in spaces:
            found[about["name"]][about["namespace"]] = item
    whole = {name: there for name, there in sorted(found.items()) if len(spaces) > 1 and there.keys() == spaces}
    return {name: list(there.values()) for name, there in whole.items()}


def _number(quantity: Any) -> float | None:
    """A count in a quota (``5``, ``5k``); None if it is not a count."""
    text = str(quantity)
    factor = 1000 if text.endswith("k") else 1
    return float(text.removesuffix("k")) * factor if text.removesuffix("k").isdigit() else None


def demand(made: Made) -> Mapping[str, int]:
    """What a quota counts of a run, by resource (Kubernetes documentation, "Resource Quotas").

    Temporary objects count like all others. Health check node ports do not count as node ports.
    """
    balancers = made.balancers + made.reference + made.unserved
    services = balancers + made.services + made.passing
    return {
        "services.loadbalancers": balancers + made.passing_unserved, "services": services, "count/services": services,
        "services.nodeports": made.node_ports + made.passing_ports, "pods": made.pods, "count/pods": made.pods,
    }  # fmt: skip


def permanent(made: Made) -> Made:
    """The same without temporary objects."""
    return replace(made, passing=0, passing_unserved=0, passing_ports=0)


def too_little(hard: Mapping[str, Any], made: Made) -> list[str]:
    """The limits of a quota that a run exceeds or cannot satisfy."""
    wanted, lasting = demand(made), demand(permanent(made))
    found = []
    for name, limit in sorted(hard.items()):
        most = _number(limit)
        if name in wanted and most is not None and wanted[name] > most:
            more = wanted[name] - lasting[name]
            found.append(f"{name} {limit}, needs {wanted[name]}" + (f", {more} of them temporary" if more else ""))
    return found + (["limits.cpu, which our pods do not set"] if "limits.cpu" in hard else [])


def of_quota(cluster: Cluster, made: Made | None) -> DoctorCheck:
    """ResourceQuotas that new namespaces seem to get, and whether a run stays within them."""
    name, spaces = "quota", users_namespaces(cluster)
    found = by_default(cluster.list("/api/v1/resourcequotas"), spaces)
    if not found:
        return ok(name, f"no ResourceQuota exists in every namespace ({len(spaces)} looked at)")
    limits = [(items[0].get("spec") or {}).get("hard") or {} for items in found.values()]
    short = [each for hard in limits for each in too_little(hard, made)] if made else []
    names = ", ".join(found)
    if short and made:
        said = f"every namespace has the ResourceQuota {names}, which is too small for a run: {'; '.join(short)}"
        if any(too_little(hard, permanent(made)) for hard in limits):
            fewer = "run fewer checks, or use --without load-balancer"
            if any("loadbalancers" in each for each in short):
                fewer = "run in batches (--parallel-load-balancers N), or use --without load-balancer"
            return warn(name, said, f"exempt namespaces named esipp-*, {fewer}.")
        return warn(
            name, said, "exempt namespaces named esipp-*; otherwise only the checks interop.many.… are inconclusive."
        )
    return ok(name, f"every namespace has the ResourceQuota {names}; a run stays within its object counts")


def of_limits(cluster: Cluster) -> DoctorCheck:
    """LimitRanges that new namespaces seem to get."""
    found = by_default(cluster.list("/api/v1/limitranges"), users_namespaces(cluster))
    if not found:
        return ok("limits", "no LimitRange exists in every namespace")
    said = f"every namespace has the LimitRange {', '.join(found)}"
    return warn("limits", said, f"check that it allows our pods, which request {EACH}.")


def of_policies(cluster: Cluster) -> DoctorCheck:
    """NetworkPolicies that new namespaces seem to get; a run adds one that allows all traffic."""
    items: Sequence[Json] = cluster.list("/apis/networking.k8s.io/v1/networkpolicies")
    found = by_default(items, users_namespaces(cluster))
    if not found:
        return ok("network policies", "no NetworkPolicy exists in every namespace")
    said = f"every namespace has the NetworkPolicy {', '.join(found)}"
    may = cluster.may("create", "networkpolicies", group="networking.k8s.io")
    if may:
        return ok("network policies", f"{said}; a run adds one that allows all traffic in its own namespace")
    return warn("network policies", f"{said}, and the account may not create one that allows all traffic", HINT_POLICY)
