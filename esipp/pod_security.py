"""Whether the cluster lets a namespace of ours have pods on the host network, or as root, as a dry run tells.

Pod Security admission goes by labels of the namespace, which ours has. Clusters that enforce ``restricted`` whatever
they say do so by a policy or a webhook: such a label is refused, or changed on its way.
"""

from esipp import manifests
from esipp.cluster import NOT_THERE, ApiError, Cluster, UnreachableError
from esipp.errors import PreflightError
from esipp.namespaces import owner
from esipp.rows import Feature

LEVEL = "pod-security.kubernetes.io/enforce"
WANTED = "privileged"


def privileged_feature(cluster: Cluster) -> Feature:
    """Whether a namespace of the Pod Security level ``privileged`` is admitted as such."""
    manifest = manifests.namespace("esipp-dry-run", "dry-run", owner())
    try:
        made = cluster.request("POST", "/api/v1/namespaces", query={"dryRun": "All"}, body=manifest)
    except ApiError as refused:
        if refused.reason == NOT_THERE or "dry run" in refused.message:  # a webhook that knows no dry run
            return Feature(True, f"taken for admitted: {refused.message}")
        return Feature(False, f"a namespace of Pod Security level {WANTED} was refused (a dry run): {refused.message}")
    except UnreachableError as silent:
        return Feature(True, f"taken for admitted: {silent}")
    level = (made["metadata"].get("labels") or {}).get(LEVEL, "none")
    if level != WANTED:
        return Feature(False, f"the cluster gives a namespace of ours the Pod Security level {level} (a dry run)")
    return Feature(True, f"a namespace of Pod Security level {WANTED} was admitted (a dry run)")


def check_privileged(cluster: Cluster) -> None:
    """Make sure that our agents can be had.

    Raises:
        PreflightError: the cluster admits no such namespace.
    """
    found = privileged_feature(cluster)
    if not found.present:
        raise PreflightError(
            f"Our agents stand on the host network, which this cluster does not admit: {found.why.rstrip('.')}.",
            "exempt namespaces with the label app.kubernetes.io/managed-by=esipp from the policy that does so.",
        )
