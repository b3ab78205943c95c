"""Changes: Services and their pods change while clients of every kind send to them."""

from esipp.checks.versions import AFFINITY_TIMEOUT, CLASSES, SCTP, TERMINATING, Need, Rules
from suites.references import KEP_752, KEP_1864, KEP_2086, KEP_3836, KEP_4444, NETWORK_POLICIES, PROXY_HEALTHY

TITLE = "Changes of Services and pods"
ORDER = 55

VERSIONS: Rules = (
    ({"protocol": "SCTP"}, SCTP),
    ({"event": "internal-policy"}, Need("1.22", KEP_2086)),
    *(({"event": event}, Need("1.22", KEP_2086)) for event in ("endpoint-slices", "endpoint-without-node")),
    ({"event": "address-reused"}, Need("1.21", KEP_752)),
    ({"event": "vip-without-node-ports"}, Need("1.22", KEP_1864)),
    *(({"event": event}, Need("1.31", KEP_4444)) for event in ("distribution", "distribution-local")),
    ({"event": "terminating"}, TERMINATING),
    ({"event": "terminating-local"}, TERMINATING),
    *(({"event": event}, AFFINITY_TIMEOUT) for event in ("affinity-outlived", "affinity-held")),
    *(({"event": event}, Need("1.8", NETWORK_POLICIES)) for event in ("network-policy", "network-policy-vip")),
    ({"event": "proxy-sick", "claim": "status"}, Need("1.27", PROXY_HEALTHY)),
    # the first version whose kube-proxy does so by default (KubeProxyDrainingTerminatingNodes)
    ({"event": "unwanted-node", "claim": "status"}, Need("1.30", KEP_3836)),
    # a load balancer class without a controller, or the reference one's
    *(({"event": event}, CLASSES) for event in ("retyped", "retyped-otherwise", "proxy-sick", "balancer-cut-off")),
)
