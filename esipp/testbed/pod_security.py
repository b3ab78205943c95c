"""Whether the cluster lets a namespace of ours have pods on the host network, or as root, as a dry run tells.

Pod Security admission goes by labels of the namespace, which ours has. Clusters that enforce ``restricted`` whatever
they say do so by a policy or a webhook: such a label is refused, or changed on its way.
"""

from esipp.checks.check import Feature
from esipp.cluster.client import NOT_THERE, ApiError, Cluster, UnreachableError
from esipp.cluster.namespaces import owner
from esipp.testbed.manifests import PRIVILEGED, SECURITY_LEVEL, namespace

DECIDES = (400, 403, 422)
"""How admission refuses. Other refusals are of a server that is busy, of a webhook that cannot be reached, of
credentials that are not accepted: what is made later tells, and no check is left out for them."""


def host_network_feature(cluster: Cluster) -> Feature:
    """Whether a namespace of the Pod Security level ``privileged`` is admitted as such.

    Where it is not, what needs it counts as left out: who may deploy what is no matter of the network, and a cluster
    is not conformant for having been asked little.
    """
    manifest = namespace("esipp-dry-run", "dry-run", owner())
    try:
        made = cluster.request("POST", "/api/v1/namespaces", query={"dryRun": "All"}, body=manifest)
    except ApiError as refused:
        not_asked = refused.reason == NOT_THERE or "dry run" in refused.message  # a webhook that knows no dry run
        if not_asked or refused.status not in DECIDES:
            return Feature(True, f"taken for admitted: {refused.message}")
        why = f"a namespace of Pod Security level {PRIVILEGED} was refused (a dry run): {refused.message}"
        return Feature(False, why, ours=True)
    except UnreachableError as silent:
        return Feature(True, f"taken for admitted: {silent}")
    level = (made["metadata"].get("labels") or {}).get(SECURITY_LEVEL, "none")
    if level != PRIVILEGED:
        why = f"the cluster gives a namespace of ours the Pod Security level {level} (a dry run)"
        return Feature(False, why, ours=True)
    return Feature(True, f"a namespace of Pod Security level {PRIVILEGED} was admitted (a dry run)")
