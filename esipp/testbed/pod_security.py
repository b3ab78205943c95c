"""Detection of the Pod Security level: whether the run's namespace may have host-network or root pods, by a dry run.

Pod Security admission uses labels of the namespace, which esipp sets. Clusters that always enforce ``restricted`` use a
policy or a webhook, which refuses or changes such a label.
"""

from esipp.checks.check import Feature
from esipp.cluster.client import NOT_THERE, ApiError, Cluster, UnreachableError
from esipp.cluster.namespaces import owner
from esipp.testbed.manifests import PRIVILEGED, SECURITY_LEVEL, namespace

ASSUMED = "assumed to be admitted"
"""Begins the reason of a feature that no dry run could decide."""

DECIDES = (400, 403, 422)
"""The statuses of admission's refusals. Others come from a busy server, an unreachable webhook or invalid credentials.
For these no check is left out; set-up shows whether the problem remains."""


def host_network_feature(cluster: Cluster) -> Feature:
    """Whether the cluster admits a namespace with the Pod Security level ``privileged``.

    If it does not, checks that need it count as left out: admission is not a property of the network, and a cluster
    must not become conformant because few checks ran.
    """
    manifest = namespace("esipp-dry-run", "dry-run", owner())
    try:
        made = cluster.request("POST", "/api/v1/namespaces", query={"dryRun": "All"}, body=manifest)
    except ApiError as refused:
        no_dry_run = refused.reason == NOT_THERE or "dry run" in refused.message  # a webhook without dry runs
        if no_dry_run or refused.status not in DECIDES:
            return Feature(True, f"{ASSUMED}: {refused.message}")
        why = f"the cluster refuses a namespace with Pod Security level {PRIVILEGED} (dry run): {refused.message}"
        return Feature(False, why, ours=True)
    except UnreachableError as silent:
        return Feature(True, f"{ASSUMED}: {silent}")
    level = (made["metadata"].get("labels") or {}).get(SECURITY_LEVEL, "none")
    if level != PRIVILEGED:
        why = f"the cluster changes the Pod Security level of esipp's namespace to {level} (dry run)"
        return Feature(False, why, ours=True)
    return Feature(True, f"the cluster admits a namespace with Pod Security level {PRIVILEGED} (dry run)")
