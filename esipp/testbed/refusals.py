"""What to do about a refusal of the API server while we make something: whose it is, and who can lift it."""

import re

from esipp.checks.interoperability import MANY_SERVICES
from esipp.cluster.client import ApiError
from esipp.testbed.manifests import CPU, MEMORY, MOST_MEMORY, TIMED_CPU

PODS, SERVICES, BALANCERS = 50, 110, 70
"""What a run of all checks makes at once, at most: of the Services so many have the type LoadBalancer."""

EACH = f"{CPU} of CPU ({TIMED_CPU} where answers are timed) and {MEMORY} each, {MOST_MEMORY} at most, no limit of CPU"
ASKS_FOR = (
    f"up to {PODS} pods ({EACH}) and {SERVICES} Services, {BALANCERS} of them of type LoadBalancer, "
    f"and {MANY_SERVICES} more for a while; 'esipp doctor' counts what fewer checks need"
)
STOPPED = "the run was stopped, and what it had made is removed."
WEBHOOK = re.compile(r'webhook "([^"]+)"')
POLICY = re.compile(r"ValidatingAdmissionPolicy '([^']+)'")
ACCOUNT = re.compile(r"User .* cannot \w+ resource")


def hint_for(refused: ApiError) -> str:
    """What to do, in a sentence."""
    text = refused.message
    if refused.status == 401:
        return "the credentials are not accepted any more: has a token expired, or was it taken back? Log in again."
    if "range is full" in text or "allocate a nodeport" in text.lower():
        return "no nodePort is free: delete NodePort services that are not needed, or widen --service-node-port-range."
    if "quota" in text.lower():
        return f"a ResourceQuota of our own namespace stands in the way; it must allow {ASKS_FOR}."
    if "usage per" in text or "limit to request ratio" in text:
        return f"a LimitRange of our own namespace stands in the way; pods of ours ask for {EACH}."
    if "PodSecurity" in text:
        return "Pod Security admission overrules the label of our own namespace; --without host-network does with less."
    for kind, found in (("webhook", WEBHOOK.search(text)), ("policy", POLICY.search(text))):
        if found:
            return (
                f"the admission {kind} {found[1]} stands in the way, or is broken; it must let through what is in "
                "namespaces with the label app.kubernetes.io/managed-by=esipp."
            )
    if ACCOUNT.search(text):
        return "the account needs the rights that 'esipp run' checks before it starts."
    if "is being terminated" in text:
        return "somebody removes our namespace while we work in it; run again."
    return STOPPED


def concerns_one_object(refused: ApiError) -> bool:
    """Whether a refusal of an object says nothing about others: quota, admission, a value that is not allowed.

    Credentials, rights and a namespace that is being removed concern everything.
    """
    text = refused.message
    if refused.status == 401 or ACCOUNT.search(text) or "is being terminated" in text:
        return False
    allocating = "range is full" in text or "allocate" in text.lower()
    return refused.status in (400, 403, 409, 422) or bool(WEBHOOK.search(text)) or allocating


def hint_of_one(refused: ApiError) -> str:
    """What to do where only one Service was refused, to be put behind the refusal; empty where there is nothing."""
    if "quota" in refused.message.lower():
        return "; a larger quota is needed, or fewer load balancers at the same time (--parallel-load-balancers)"
    said = hint_for(refused)
    return "" if said == STOPPED else f"; {said.rstrip('.')}"
