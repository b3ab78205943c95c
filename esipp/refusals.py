"""What to do about a refusal of the API server while we make something: whose it is, and who can lift it."""

import re

from esipp.cluster import ApiError

ASKS_FOR = "about twenty small pods (10m of CPU, 32Mi, at most 256Mi) and sixty services"
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
        return f"a LimitRange of our own namespace stands in the way; we ask for {ASKS_FOR}."
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
    return "the run was stopped, and what it had made is removed."
