"""What the API server refuses during set-up: hints for refusals, and the Pod Security level, found by a dry run.

Pod Security admission uses labels of the namespace, which esipp sets. Clusters that always enforce ``restricted`` use a
policy or a webhook, which refuses or changes such a label.
"""

import re

from esipp.checks.check import Feature
from esipp.checks.interoperability import MANY_SERVICES
from esipp.cluster.client import NOT_THERE, ApiError, Cluster, UnreachableError
from esipp.cluster.namespaces import owner
from esipp.testbed.manifests import CPU, MEMORY, MOST_MEMORY, PRIVILEGED, SECURITY_LEVEL, TIMED_CPU, namespace

PODS, SERVICES, BALANCERS = 120, 220, 130
"""More objects than a run of all checks has, for a quota; ``BALANCERS`` of the Services have type LoadBalancer."""

EACH = (
    f"{CPU} of CPU ({TIMED_CPU} for timed answers) and {MEMORY} of memory each, with a limit of {MOST_MEMORY} of "
    "memory and none of CPU"
)
ASKS_FOR = (
    f"up to {PODS} pods ({EACH}) and {SERVICES} Services, {BALANCERS} of them of type LoadBalancer, "
    f"and temporarily {MANY_SERVICES} more; 'esipp doctor' shows what fewer checks need"
)
STOPPED = "esipp stopped the run and removed its objects."
WEBHOOK = re.compile(r'webhook "([^"]+)"')
POLICY = re.compile(r"ValidatingAdmissionPolicy '([^']+)'")
ACCOUNT = re.compile(r"User .* cannot \w+ resource")


def hint_for(refused: ApiError) -> str:
    """The hint for a refusal."""
    text = refused.message
    if refused.status == 401:
        return "the API server no longer accepts the credentials (expired or revoked token); log in again."
    if "range is full" in text or "allocate a nodeport" in text.lower():
        return "no nodePort is free: delete unused NodePort Services, or widen --service-node-port-range."
    if "quota" in text.lower():
        return f"a ResourceQuota of the run's namespace is too small; it must allow {ASKS_FOR}."
    if "usage per" in text or "limit to request ratio" in text:
        return f"a LimitRange of the run's namespace is too strict; our pods request {EACH}."
    if "PodSecurity" in text:
        return "Pod Security admission ignores the label of the run's namespace; --without host-network needs less."
    for kind, found in (("webhook", WEBHOOK.search(text)), ("policy", POLICY.search(text))):
        if found:
            return (
                f"the admission {kind} {found[1]} refuses our objects or is broken; it must admit everything in "
                "namespaces with the label app.kubernetes.io/managed-by=esipp."
            )
    if ACCOUNT.search(text):
        return "the account needs the rights that 'esipp run' checks before it starts."
    if "is being terminated" in text:
        return "someone deleted the run's namespace during the run; run again."
    return STOPPED


def concerns_one_object(refused: ApiError) -> bool:
    """Whether a refusal concerns only one object: quota, admission, an invalid value.

    Credentials, rights and a terminating namespace concern all objects.
    """
    text = refused.message
    if refused.status == 401 or ACCOUNT.search(text) or "is being terminated" in text:
        return False
    allocating = "range is full" in text or "allocate" in text.lower()
    return refused.status in (400, 403, 409, 422) or bool(WEBHOOK.search(text)) or allocating


def hint_of_one(refused: ApiError) -> str:
    """The hint for the refusal of a single Service, as an appendix; empty if there is none."""
    if "quota" in refused.message.lower():
        return "; raise the quota, or use fewer load balancers at the same time (--parallel-load-balancers)"
    said = hint_for(refused)
    return "" if said == STOPPED else f"; {said.rstrip('.')}"


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
