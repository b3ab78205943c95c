"""References of checks and known differences, each defined once."""

from esipp.checks.reference import *
from esipp.checks.reference import GITHUB, KUBERNETES_DOCS, Reference, docs, issue, kep

_KUBERNETES, _CILIUM = "kubernetes/kubernetes", "cilium/cilium"
_KUBERNETES_SOURCE = f"{GITHUB}/{_KUBERNETES}/blob/v1.36.3"
_CILIUM_SOURCE = f"{GITHUB}/{_CILIUM}/blob/v1.18.6"
_CILIUM_WITHOUT_KUBE_PROXY = "https://docs.cilium.io/en/stable/network/kubernetes/kubeproxy-free/"


# ------------------------------------------------------------------------------------------------ the design proposal
def _design(part: str, title: str) -> Reference:
    """Return a part of the original design proposal for source IP preservation, from the archive of proposals."""
    page = "design-proposals-archive/blob/main/network/external-lb-source-ip-preservation.md"
    return Reference(f"Design proposal, source IP preservation: {title}", f"{GITHUB}/kubernetes/{page}{part}")


DESIGN_BLACKHOLE = _design(
    "#external-traffic-blackholed-on-nodes-with-no-local-endpoints",
    "external traffic blackholed on nodes with no local endpoints",
)
DESIGN_BOUND = _design("?plain=1#L128-L131", "worst-case window, (N+1) x health check period")
DESIGN_BALANCE = _design("#traffic-balancing-changes", "traffic balancing changes, equal at the node level")
DESIGN_CHECK_PATH = _design(
    "#gce-expected-packet-destination-ip-healthcheck-path", "health checks to the node's address or to the VIP"
)
DESIGN_SOURCE_IP = _design("?plain=1#L194-L198", "testing 1.1, source IP preservation")
DESIGN_HEALTH = _design("?plain=1#L200-L203", "testing 1.2, health check responses")
DESIGN_TIMES = _design("?plain=1#L203-L204", "testing 1.2, load balancer response times")
DESIGN_INTEROP = _design("?plain=1#L206-L209", "testing 2, inter-operability")
DESIGN_BACKWARD = _design("?plain=1#L211-L214", "testing 3, backward compatibility")

# ------------------------------------------------------------------------------------------------------ documentation
NETWORK_MODEL = docs("concepts/services-networking/#the-kubernetes-network-model", "the Kubernetes network model")
TUTORIAL = docs("tutorials/services/source-ip/", "Using Source IP")
TUTORIAL_CLUSTER_IP = docs(
    "tutorials/services/source-ip/#source-ip-for-services-with-type-clusterip",
    "Using Source IP: Services with Type=ClusterIP",
)
DUAL_STACK = docs(
    "concepts/services-networking/dual-stack/#switching-services-between-single-stack-and-dual-stack",
    "IPv4/IPv6 dual-stack: switching Services",
)
TUTORIAL_LB = docs(
    "tutorials/services/source-ip/#source-ip-for-services-with-type-loadbalancer",
    "Using Source IP: Services with Type=LoadBalancer",
)
TUTORIAL_PROXY = docs(
    "tutorials/services/source-ip/#cross-platform-support", "Using Source IP: cross-platform support, proxies"
)
CONNTRACK_SYSCTL = Reference(
    "Linux kernel, Netfilter Conntrack Sysfs variables", "https://docs.kernel.org/networking/nf_conntrack-sysctl.html"
)
CLOUD_CONTROLLERS = docs("concepts/architecture/cloud-controller/#service-controller", "Cloud Controller Manager")
PROGRAMMING_LATENCY = Reference(
    "Kubernetes scalability SLIs: network programming latency",
    f"{GITHUB}/kubernetes/community/blob/main/sig-scalability/slos/network_programming_latency.md",
)
API_FINALIZERS = docs("concepts/overview/working-with-objects/finalizers/", "Finalizers")
NETWORK_POLICIES = docs(
    "concepts/services-networking/network-policies/#behavior-of-to-and-from-selectors",
    "Network Policies: ipBlock, and addresses that are rewritten on the way",
)
NODES_PAGE = docs("concepts/architecture/nodes/", "Nodes")
NODE_ADDRESSES = docs("reference/node/node-status/#addresses", "Node Status: addresses")
DNS = docs("concepts/services-networking/dns-pod-service/", "DNS for Services and Pods")
SYNC_PERIOD = docs(
    "reference/networking/virtual-ips/#optimizing-iptables-mode-performance",
    "Virtual IPs and Service Proxies: minSyncPeriod",
)
HA_TOPOLOGY = docs("setup/production-environment/tools/kubeadm/ha-topology/", "Options for Highly Available Topology")
CILIUM_UPGRADE = Reference(
    "Cilium: upgrade guide, version specific notes",
    "https://docs.cilium.io/en/v1.19/operations/upgrade/#version-specific-notes",
)
VERSION_SKEW = Reference(
    "Kubernetes version skew policy: kube-proxy", "https://kubernetes.io/releases/version-skew-policy/#kube-proxy"
)
VIRTUAL_IPS = docs(
    "reference/networking/virtual-ips/#proxy-modes",
    "Virtual IPs and Service Proxies: proxy modes",
)
OWN_SLICES = docs("concepts/services-networking/service/#services-without-selectors", "Services without selectors")
SERVER_SIDE_APPLY = docs("reference/using-api/server-side-apply/", "Server-Side Apply")
KUBECTL_APPLY = docs(
    "tasks/manage-kubernetes-objects/declarative-config/#how-apply-calculates-differences-and-merges-changes",
    "Declarative Management: how apply calculates differences",
)
EXCLUDE_LABEL = docs(
    "reference/labels-annotations-taints/#node-kubernetes-io-exclude-from-external-load-balancers",
    "label node.kubernetes.io/exclude-from-external-load-balancers",
)
NODEPORT_ADDRESSES = docs(
    "reference/command-line-tools-reference/kube-proxy/#:~:text=nodeport%2Daddresses",
    "kube-proxy --nodeport-addresses",
)
LOCALHOST_NODE_PORTS = docs(
    "reference/command-line-tools-reference/kube-proxy/#:~:text=iptables%2Dlocalhost%2Dnodeports",
    "kube-proxy --iptables-localhost-nodeports",
)
CLUSTER_CIDR = docs(
    "reference/command-line-tools-reference/kube-proxy/#:~:text=cluster%2Dcidr", "kube-proxy --cluster-cidr"
)
PROXY_HEALTH_PORT = docs(
    "reference/command-line-tools-reference/kube-proxy/#:~:text=healthz%2Dbind%2Daddress",
    "kube-proxy --healthz-bind-address",
)
DUAL_STACK_NODES = docs(
    "concepts/services-networking/dual-stack/#prerequisites", "IPv4/IPv6 dual-stack: prerequisites of nodes"
)
MASQUERADE_AGENT = docs("tasks/administer-cluster/ip-masq-agent/", "IP Masquerade Agent")
RETRANSMISSION = Reference(
    "RFC 6298, 2.1: TCP waits one second before it sends its first packet again",
    "https://www.rfc-editor.org/rfc/rfc6298#section-2",
)
DNS_SPECIFICATION = Reference(
    "Kubernetes DNS-Based Service Discovery", f"{GITHUB}/kubernetes/dns/blob/master/docs/specification.md"
)
UPDATES = Reference(
    "Kubernetes API conventions: concurrency control and consistency",
    f"{GITHUB}/kubernetes/community/blob/master/contributors/devel/sig-architecture/api-conventions.md"
    "#concurrency-control-and-consistency",
)


# ------------------------------------------------------------------------------------------------------ API reference
def _api(field: str, shown: str, part: str = "ServiceSpec") -> Reference:
    """Return a Service field in the API reference, with a link to the field's text on the page."""
    page = f"{KUBERNETES_DOCS}/reference/kubernetes-api/service-resources/service-v1/#{part}"
    text = shown.replace(" ", "%20").replace("[", "%5B").replace("]", "%5D").replace("(", "%28").replace(")", "%29")
    return Reference(f"API reference, Service {field}", f"{page}:~:text={text}")


API_ETP = _api("spec.externalTrafficPolicy", "externalTrafficPolicy (string)")
API_ITP = _api("spec.internalTrafficPolicy", "internalTrafficPolicy (string)")
API_HEALTH_PORT = _api("spec.healthCheckNodePort", "healthCheckNodePort (int32)")
API_TYPE = _api("spec.type", "type (string)")
API_PORTS = _api("spec.ports", "ports ([]ServicePort)")
API_NODE_PORT = _api("spec.ports.nodePort", "ports.nodePort (int32)")
API_TARGET_PORT = _api("spec.ports.targetPort", "ports.targetPort (IntOrString)")
API_HEADLESS = _api("spec.clusterIP: None", "clusterIP (string)")
API_FAMILIES = _api("spec.ipFamilies", "ipFamilies ([]string)")
API_SELECTOR = _api("spec.selector", "selector (map[string]string)")
API_NOT_READY = _api("spec.publishNotReadyAddresses", "publishNotReadyAddresses (boolean)")
API_RANGES = _api("spec.loadBalancerSourceRanges", "loadBalancerSourceRanges ([]string)")
API_AFFINITY = _api("spec.sessionAffinity", "sessionAffinity (string)")
API_AFFINITY_TIMEOUT = _api(
    "spec.sessionAffinityConfig.clientIP", "sessionAffinityConfig.clientIP.timeoutSeconds (int32)"
)
API_EXTERNAL_IPS = _api("spec.externalIPs", "externalIPs ([]string)")
API_EXTERNAL_NAME = _api("spec.externalName", "externalName (string)")
API_CLASS = _api("spec.loadBalancerClass", "loadBalancerClass (string)")
API_ALLOCATE = _api("spec.allocateLoadBalancerNodePorts", "allocateLoadBalancerNodePorts (boolean)")
API_DISTRIBUTION = _api("spec.trafficDistribution", "trafficDistribution (string)")
API_STATUS = _api("status.loadBalancer", "loadBalancer (LoadBalancerStatus)", "ServiceStatus")
API_IP_MODE = _api("status.loadBalancer.ingress.ipMode", "loadBalancer.ingress.ipMode (string)", "ServiceStatus")

API_SLICE_NODE = Reference(
    "API reference, EndpointSlice endpoints.nodeName",
    f"{KUBERNETES_DOCS}/reference/kubernetes-api/service-resources/endpoint-slice-v1/#:~:text=endpoints.nodeName",
)
API_NODE_ADDRESSES = Reference(
    "API reference, Node status.addresses",
    f"{KUBERNETES_DOCS}/reference/kubernetes-api/cluster-resources/node-v1/#:~:text=addresses%20can%20change",
)

# ------------------------------------------------------------------------------------------------------- enhancements
KEP_1864 = kep(1864, "optional node ports for load balancers", "sig-network/1864-disable-lb-node-ports")
KEP_3458 = kep(
    3458,
    "remove transient node predicates from the service controller",
    "sig-network/3458-remove-transient-node-predicates-from-service-controller",
)
KEP_3866 = kep(3866, "an nftables-based kube-proxy backend", "sig-network/3866-nftables-proxy")
KEP_5707 = kep(5707, "deprecate Service spec.externalIPs", "sig-network/5707-deprecate-service-externalips")


# ----------------------------------------------------------------------------------------- Kubernetes: source, issues
def _source(path: str, title: str) -> Reference:
    return Reference(title, f"{_KUBERNETES_SOURCE}/{path}")


PROXIER = _source("pkg/proxy/iptables/proxier.go", "kube-proxy: pkg/proxy/iptables/proxier.go, external chains")
IPVS_PROXIER = _source("pkg/proxy/ipvs/proxier.go", "kube-proxy: pkg/proxy/ipvs/proxier.go, internal traffic policy")
LOCAL_DETECTOR = _source("pkg/proxy/util/localdetector.go", "kube-proxy: pkg/proxy/util/localdetector.go")
SERVICE_HEALTH = _source(
    "pkg/proxy/healthcheck/service_health.go", "kube-proxy: pkg/proxy/healthcheck/service_health.go"
)
HEALTHY_AT_START = _source(
    "pkg/proxy/healthcheck/proxy_health.go",
    'kube-proxy: pkg/proxy/healthcheck/proxy_health.go, Health: "the proxier is healthy while it\'s starting up"',
)
HEALTH_BEFORE_SYNC = Reference(
    "kubernetes/kubernetes#83263: what kube-proxy's health check says before the first rules are written",
    f"{GITHUB}/kubernetes/kubernetes/issues/83263",
)
MODE_CLEANUP = _source(
    "cmd/kube-proxy/app/server_linux.go", "kube-proxy: cmd/kube-proxy/app/server_linux.go, platformCleanup"
)
CONNTRACK = _source("pkg/proxy/conntrack/cleanup.go", "kube-proxy: pkg/proxy/conntrack/cleanup.go, UDP only")
FILTER_BEFORE_NAT = _source(
    "pkg/proxy/iptables/proxier.go#L1379-L1387",
    "kube-proxy: pkg/proxy/iptables/proxier.go, syncProxyRules: *filter, then *nat",
)
CLEANED_WITH_ENDPOINTS = _source(
    "pkg/proxy/endpointschangetracker.go", "kube-proxy: pkg/proxy/endpointschangetracker.go, ConntrackCleanupRequired"
)
VALIDATION = _source(
    "pkg/apis/core/validation/validation.go", "API server: pkg/apis/core/validation/validation.go, Services"
)
REGISTRY = _source(
    "pkg/registry/core/service/strategy.go", "API server: pkg/registry/core/service/strategy.go, fields of a type"
)
ALLOCATION = _source(
    "pkg/registry/core/service/storage/alloc.go",
    "API server: pkg/registry/core/service/storage/alloc.go, allocation of ports",
)
RANGES_ANNOTATION = _source(
    "staging/src/k8s.io/api/core/v1/annotation_key_constants.go",
    "API: annotation service.beta.kubernetes.io/load-balancer-source-ranges",
)
CLOUD_PROVIDER = _source(
    "staging/src/k8s.io/cloud-provider/cloud.go", "k8s.io/cloud-provider: EnsureLoadBalancerDeleted"
)
E2E_LOAD_BALANCERS = _source(
    "test/e2e/network/loadbalancer.go", "Kubernetes e2e, LoadBalancers: changes of the policy, rolling updates"
)
LOCAL_ENDPOINTS = _source(
    "pkg/proxy/endpointslicecache.go", "kube-proxy: an endpoint is local if its nodeName is that of the node"
)
E2E_RESTARTS = _source(
    "test/e2e/network/service.go", "Kubernetes e2e, Services: work after restarting kube-proxy and the API server"
)
E2E_REJECTED = _source(
    "test/e2e/network/service.go#:~:text=rejected%20when%20no%20endpoints",
    "Kubernetes e2e, Services: be rejected when no endpoints exist",
)
E2E_CONNTRACK = _source(
    "test/e2e/network/conntrack.go", "Kubernetes e2e, Conntrack: preserve UDP traffic when server pods cycle"
)
E2E_LAG = _source(
    "test/e2e/framework/service/const.go", "Kubernetes e2e, Services: KubeProxyLagTimeout, KubeProxyEndpointLagTimeout"
)
KUBEADM_LABELS = _source(
    "cmd/kubeadm/app/phases/markcontrolplane/markcontrolplane.go",
    "kubeadm: labels of control plane nodes, exclude-from-external-load-balancers among them",
)
UDP_FLOWS_LOST = issue(_KUBERNETES, 122740, "UDP connections of Services are not preserved after restarting kube-proxy")
SCTP_KEPT = issue(
    _KUBERNETES, 106651, "After pod restart sctp traffic does not reach other pod behind Loadbalancer service"
)
SCTP_UNREADY = issue(
    _KUBERNETES, 101968, "kube-proxy failed to clear conntrack for SCTP for the pod which is removed from service"
)
SCTP_TIMEOUTS = Reference(
    'Linux: net/netfilter/nf_conntrack_proto_sctp.c, "don\'t renew timeout on init retransmit"',
    f"{GITHUB}/torvalds/linux/blob/v6.12/net/netfilter/nf_conntrack_proto_sctp.c",
)
SCTP_NOT_FLUSHED = issue(
    _KUBERNETES, 70020, "Conntrack entities for SCTP are not flushed for deleted Service endpoints"
)
HAIRPIN_NATED = issue(_KUBERNETES, 98069, "hairpin traffic under Local is source-NATed")
POD_AT_BARE_NODE = issue(
    _KUBERNETES, 74383, "externalTrafficPolicy: Local doesn't work well with nodeport for internal traffic"
)
IPVS_SHORT_CIRCUIT = issue(_KUBERNETES, 93456, "IPVS mode, in-cluster traffic to a load balancer's IP under Local")
NFTABLES_SHORT_CIRCUIT = issue(_KUBERNETES, 131765, "nftables mode blackholes pods' traffic to VIPs under Local")
NFTABLES_FIX = issue(_KUBERNETES, 132456, "nftables short-circuit local traffic to external addresses")
NFTABLES_FIX_1_33 = issue(_KUBERNETES, 133969, "Automated cherry pick of #132456, for 1.33")
LEFT_AFTER_RETYPING = issue(_KUBERNETES, 78954, "Service Load balancer may not be cleaned up on type change")
SHARED_HEALTH_PORT = issue(_KUBERNETES, 114702, "dual-stack local traffic policy service health checks")
SHARED_HEALTH_PORT_FIX = issue(_KUBERNETES, 137370, "fix health check binding failure in case of dual-stack")
PROXY_UNDER_LOCAL = issue(_KUBERNETES, 123714, "Local with ipMode Proxy has no defined semantics")
STALE_WITHOUT_ENDPOINTS = issue(
    _KUBERNETES, 139628, "stale UDP conntrack entries are never cleaned up when a service scales down to zero endpoints"
)
STALE_AFTER_RESTART = issue(_KUBERNETES, 125467, "Conntrack tables having stale entries for UDP connection")
STALE_AFTER_FAILURE = issue(_KUBERNETES, 112604, "kube-proxy loses track of some changes if iptables-restore fails")
HEALTH_SERVERS_LEAK = issue(
    "projectcalico/calico",
    8112,
    "HealtCheck NodePort servers leak when kube-proxy gets restarted due to host IP update",
)
HEALTH_PORT_LEAKED = issue(_KUBERNETES, 49999, "Allocate healthcheck nodeport the same way as common nodeports")
PORT_NOT_RELEASED = issue(_KUBERNETES, 120536, "service nodeport cannot be released promptly.")
MARTIAN_UNDER_LOCAL = issue(
    _KUBERNETES,
    57922,
    "kube-proxy NodePort access via localhost, with externalTrafficPolicy=Local => martian source",
)
NODES_NOT_ANNOUNCED = issue("k3s-io/k3s", 11077, "ExternalTrafficPolicy: local not working well")
ANSWERS_INTERCEPTED = issue(
    _CILIUM,
    44348,
    "eBPF LB service lookup intercepts conntrack reply traffic, causing source port rewriting on UDP",
)
STALE_TARGET_PORT = issue(
    _KUBERNETES, 130542, "Conntrack reconciler now considers service's target port during cleanup of stale flow entries"
)
STALE_OF_DELETED = issue(_KUBERNETES, 141371, "clean stale conntrack for deleted UDP services")
OLD_FORMS = (FIELDS_SINCE_1_7, ANNOTATIONS_REMOVED)
"""The changes that replaced and removed the annotations."""

ONLY_BALANCED_ANNOUNCED = issue(_KUBERNETES, 119789, "only load balancers have an ingress in their status")

# ------------------------------------------------------------------------------------------------------------- Cilium
CILIUM_DSR = Reference(
    "Cilium documentation, Kubernetes without kube-proxy: Direct Server Return (DSR)",
    f"{_CILIUM_WITHOUT_KUBE_PROXY}#direct-server-return-dsr",
)
CILIUM_SOCKETS = Reference(
    "Cilium documentation, Kubernetes without kube-proxy: socket load balancing",
    f"{_CILIUM_WITHOUT_KUBE_PROXY}#:~:text=Socket%20LoadBalancer",
)
CILIUM_UDP_SLOT = Reference(
    "Cilium: bpf/bpf_sock.c, sock_select_slot",
    "https://github.com/cilium/cilium/blob/v1.18.6/bpf/bpf_sock.c#:~:text=sock_select_slot",
)
CILIUM_NODEPORT_ADDRESSES = Reference(
    "Cilium documentation, Kubernetes without kube-proxy: addresses of nodePorts",
    f"{_CILIUM_WITHOUT_KUBE_PROXY}#nodeport-devices-port-and-bind-settings",
)
CILIUM_HEALTH_SERVER = Reference(
    "Cilium: pkg/loadbalancer/healthserver/healthserver.go, getLocalEndpointCount",
    f"{_CILIUM_SOURCE}/pkg/loadbalancer/healthserver/healthserver.go",
)
CILIUM_HEALTHZ = Reference(
    "Cilium: daemon/healthz/kube_proxy_healthz.go, the agent's own health",
    f"{_CILIUM_SOURCE}/daemon/healthz/kube_proxy_healthz.go",
)
CILIUM_SCOPES = Reference(
    "Cilium: pkg/loadbalancer/reflectors, twoScopes",
    f"{GITHUB}/{_CILIUM}/tree/v1.18.6/pkg/loadbalancer/reflectors",
)


def _newest_cilium(path: str, what: str) -> Reference:
    """Return a part of the source of the newest version of Cilium that lanes have."""
    return Reference(f"Cilium 1.20.2: {path}, {what}", f"{GITHUB}/{_CILIUM}/blob/v1.20.2/{path}")


CILIUM_COUNTS_STILL = _newest_cilium("pkg/loadbalancer/healthserver/healthserver.go", "getLocalEndpointCount")
CILIUM_SCOPES_STILL = _newest_cilium("pkg/loadbalancer/reflectors/conversions.go", "twoScopes")
CILIUM_EXTERNAL_IPS_STILL = _newest_cilium("pkg/loadbalancer/reflectors/conversions.go", "externalIPs in one scope")
CILIUM_FLOWS_STILL = _newest_cilium("bpf/lib/lb.h", "lb4_local")
CILIUM_SNAT_STILL = _newest_cilium("bpf/lib/nat.h", "__snat_try_keep_port")
CILIUM_COLLISIONS_STILL = Reference(
    "Cilium 1.20 documentation: known issues of kube-proxy's replacement, connection collisions",
    "https://docs.cilium.io/en/v1.20/network/kubernetes/kubeproxy-free/#known-issues",
)
CILIUM_DSR_SIZE_STILL = issue(_CILIUM, 48784, "docs: add MTU and PMTU guidance for DSR dispatch modes")
CILIUM_STALE_BACKEND = issue(_CILIUM, 27726, "N/S loadbalancing: Connect to stale backend in long lived TCP connection")
CILIUM_NAMESAKES = issue(
    _CILIUM,
    43619,
    "BUG: Removing endpoint from Service A cause requests to Service B fail if the name of Service A is the prefix of "
    "Service B",
)
CILIUM_NAMESAKES_FIX = issue(
    _CILIUM,
    43620,
    "loadbalancer: Fix GetInstancesOfService to avoid removing endpoint from Service A cause requests to Service B "
    "fail if the name of Service A is the prefix of Service B",
)
CILIUM_SMALL_MTU = issue(_CILIUM, 34380, "Communication from world with lower MTU is failing to LoadBalancer services")
CILIUM_SMALL_MTU_FIX = issue(_CILIUM, 46993, 'Handle "fragmentation needed" / "packet too big" for Layer 4 Services')
CILIUM_NODE_CLEANUP = issue(_CILIUM, 7628, "node/store: delete ipcache entries for node events")
CILIUM_VIPS_BESIDE = issue(
    _CILIUM,
    45252,
    "[v1.19] LoadBalancer-Services with externalTrafficPolicy=Local are failing when internal workloads access the "
    "external LoadBalancer address",
)
CILIUM_L2_LOCAL = issue(_CILIUM, 27800, "L2Announcement with externalTrafficPolicy: Local")
CILIUM_L2_LOCAL_FIX = _newest_cilium("pkg/l2announcer/l2announcer.go", "hasLocalBackends")
CILIUM_NO_REWRITE = issue(_CILIUM, 33574, "Cilium does not SNAT external source IP for pods on same node")
CILIUM_ONE_PORT_OF_TWO_PODS = issue(
    _CILIUM, 36403, "the SNAT/DNAT problem with injecting into another TCP session using BGP Anycast"
)
CILIUM_SEVERAL_VIPS = issue(_CILIUM, 11810, "backend selected by multiple externalIPs / LoadBalancer VIPs problem")
CILIUM_COLLISIONS = issue(
    _CILIUM, 18632, "In the DSR mode TCP reply may be sent from wrong IP when EP is reachable through multiple LB IPs"
)
CILIUM_KNOWN_COLLISIONS = issue(_CILIUM, 42632, "docs: Add limitation about LB to same backend via multiple VIPs")
CILIUM_DSR_MTU = issue(_CILIUM, 32601, "MTU issue for large UDP packets with native routing and DSR")
CILIUM_DSR_FRAGMENTS = issue(_CILIUM, 11180, "Support fragment tracking for BPF DSR / SNAT with kube-proxy replacement")
CILIUM_DSR_REMOTE = issue(_CILIUM, 41962, "DSR and nodePorts of other nodes")
CILIUM_DSR_REMOTE_FIX = issue(_CILIUM, 41963, "Fix DSR support for remote NodePort services")
CILIUM_AT_THE_CLIENT = issue(_CILIUM, 11746, "load balancing on the client's own node")
CILIUM_EXTERNAL_IPS = issue(_CILIUM, 12220, "externalIPs of other nodes are left to these, against CVE-2020-8554")
CILIUM_LOOPBACK_IPV6 = issue(_CILIUM, 26733, "pod can't access itself via service (IPv6 loopback)")
CILIUM_LOOPBACK_IPV6_FIX = issue(_CILIUM, 39594, "service loopback for ipv6")
CILIUM_LOOPBACK = issue(_CILIUM, 26100, "pods can't see their own IP when hairpinning through a Service")
CILIUM_POLICIES_DIFFER = issue(
    _CILIUM,
    42245,
    "Nodes and Pods can't connect to assigned ExternalIP when internal- and externalTrafficPolicy differ",
)

# ------------------------------------------------------------------------------------------------------------- others
PROXY_PROTOCOL = Reference(
    "The PROXY protocol, versions 1 and 2", "https://www.haproxy.org/download/3.0/doc/proxy-protocol.txt"
)
RFC_1191 = Reference("RFC 1191, Path MTU discovery", "https://www.rfc-editor.org/rfc/rfc1191")
RFC_4787 = Reference(
    "RFC 4787, NAT Behavioral Requirements for Unicast UDP: REQ-13 and REQ-14, fragments",
    "https://www.rfc-editor.org/rfc/rfc4787",
)
RFC_8201 = Reference("RFC 8201, Path MTU Discovery for IP version 6", "https://www.rfc-editor.org/rfc/rfc8201")
RFC_9293 = Reference("RFC 9293, Transmission Control Protocol (TCP)", "https://www.rfc-editor.org/rfc/rfc9293")
FORWARDED_FOR = Reference(
    "MDN, X-Forwarded-For header", "https://developer.mozilla.org/en-US/docs/Web/HTTP/Reference/Headers/X-Forwarded-For"
)
HAIRPIN_AT_BALANCER = issue(
    "kubernetes/cloud-provider-aws", 1160, "Hairpin connection failed on Service type-LoadBalancer NLB"
)
NLB_LOOPBACK = Reference(
    "AWS documentation, Troubleshoot your Network Load Balancer: connections time out for requests from a target to "
    "its load balancer",
    "https://docs.aws.amazon.com/elasticloadbalancing/latest/network/load-balancer-troubleshooting.html",
)
RFC_2992 = Reference(
    "RFC 2992, Analysis of an Equal-Cost Multi-Path Algorithm", "https://www.rfc-editor.org/rfc/rfc2992"
)
METALLB_LAYER_2 = Reference(
    "MetalLB documentation, layer 2 mode: limitations", "https://metallb.io/concepts/layer2/#limitations"
)
METALLB_BGP = Reference("MetalLB documentation, BGP mode: limitations", "https://metallb.io/concepts/bgp/#limitations")
METALLB_JOINS = Reference(
    "MetalLB: internal/speakerlist/speakerlist.go, joinMembers",
    "https://github.com/metallb/metallb/blob/v0.16.1/internal/speakerlist/speakerlist.go",
)
MEMBERLIST_DEAD = Reference(
    "hashicorp/memberlist: state.go, deadNode: a node that is said to be dead denies it once it hears of it",
    f"{GITHUB}/hashicorp/memberlist/blob/master/state.go",
)
KUBE_VIP_TWICE = Reference(
    "kube-vip/kube-vip#996: a node keeps the VIP after its network was away", f"{GITHUB}/kube-vip/kube-vip/issues/996"
)
AZURE_PROBES = Reference(
    "Azure Load Balancer: health probes",
    "https://learn.microsoft.com/azure/load-balancer/load-balancer-custom-probe-overview",
)
LINK_LOCAL_PROBES = Reference(
    "cilium/cilium#25242: Azure's health probes come from fe80::1234:5678:9abc",
    f"{GITHUB}/cilium/cilium/issues/25242",
)
AZURE = Reference(
    "Nills Franssens, Maintaining client IP on a Service in the Azure Kubernetes Service",
    "https://blog.nillsf.com/index.php/2020/07/13/maintaining-client-ip-on-a-service-in-the-azure-kubernetes-service/",
)
FLANNEL_MASQUERADING = Reference(
    "flannel: pkg/trafficmngr/iptables/iptables.go, masqRules: what pods send to other addresses gets that of their "
    "node",
    f"{GITHUB}/flannel-io/flannel/blob/v0.28.10/pkg/trafficmngr/iptables/iptables.go",
)
KINDNET = Reference(
    "kindnetd: images/kindnetd/cmd/kindnetd/masq.go",
    f"{GITHUB}/kubernetes-sigs/kind/blob/main/images/kindnetd/cmd/kindnetd/masq.go",
)
