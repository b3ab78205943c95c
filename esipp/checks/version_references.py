"""References for the Kubernetes version that introduced a field or a behaviour."""

from esipp.checks.reference import docs, issue, kep

_KUBERNETES = "kubernetes/kubernetes"
KEP_508 = kep(508, "IPv6 clusters")
KEP_555 = kep(555, "server-side apply", "sig-api-machinery/555-server-side-apply")
KEP_563 = kep(563, "IPv4/IPv6 dual-stack", "sig-network/563-dual-stack")
KEP_580 = kep(580, "pod readiness gates", "sig-network/580-pod-readiness-gates")
KEP_614 = kep(614, "SCTP Services", "sig-network/614-SCTP-support")
KEP_752 = kep(752, "EndpointSlices", "sig-network/0752-endpointslices")
KEP_1669 = kep(1669, "proxy terminating endpoints", "sig-network/1669-proxy-terminating-endpoints")
KEP_1860 = kep(1860, "load balancers' ipMode", "sig-network/1860-kube-proxy-IP-node-binding")
KEP_1959 = kep(1959, "spec.loadBalancerClass of Services", "sig-cloud-provider/1959-service-lb-class-field")
KEP_2086 = kep(2086, "internalTrafficPolicy of Services", "sig-network/2086-service-internal-traffic-policy")
FIELDS_SINCE_1_7 = issue(_KUBERNETES, 41162, "Promotes Source IP preservation for Virtual IPs from Beta to GA")
ANNOTATIONS_REMOVED = issue(_KUBERNETES, 50224, "Remove deprecated ESIPP beta annotations")
HEALTH_DOCUMENT = issue(_KUBERNETES, 44053, "Proxy healthchecks overhaul")
HEALTH_WEIGHT = issue(_KUBERNETES, 118999, "X-Load-Balancing-Endpoint-Weight in health checks")
PROXY_HEALTHY = issue(_KUBERNETES, 111661, "serviceProxyHealthy in health checks")
AFFINITY_CONFIG = issue(_KUBERNETES, 49850, "sessionAffinityConfig")
OWN_TRAFFIC = issue(_KUBERNETES, 77523, "a node's own traffic to a VIP takes the Service's chain")
CARRIED_OVER = issue(_KUBERNETES, 103532, "Service: Fix semantics for Update wrt allocations")
EXTERNAL_IPS_POLICY = issue(_KUBERNETES, 119150, "Allow specifying ExternalTrafficPolicy for Services with ExternalIPs")
TUTORIAL_NODE_PORT = docs(
    "tutorials/services/source-ip/#source-ip-for-services-with-type-nodeport",
    "Using Source IP: Services with Type=NodePort",
)
