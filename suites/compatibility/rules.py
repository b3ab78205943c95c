"""Checks of the API rules for fields that direct external traffic: accepted, defaulted, refused. Data only."""

from collections.abc import Iterator

from suites.compatibility.requirements import *

Checks = Iterator[Check]

IPS = {"type": "ClusterIP", "externalIPs": ["192.0.2.70"]}
EXTERNAL = frozenset({"external-ips"})
NAME = {"type": "ExternalName", "externalName": "esipp.example"}
ANY_TYPE = {"clusterip": INNER, "nodeport": NODE_PORTS, "loadbalancer": LB}
KINDS = {"clusterip": "a ClusterIP", "nodeport": "a NodePort", "loadbalancer": "a LoadBalancer"}


def chain(name: str, *steps: Step) -> Chain:
    """Return a chain of requests; its name begins with this module's prefix."""
    return Chain(f"rule-{name}", steps)


def where_a_policy_belongs() -> Checks:
    """Yield checks of which Services may have an externalTrafficPolicy: those that accept external traffic."""
    takes = "the API server accepts the field where it has no meaning"
    for value, spec in (("local", LOCAL), ("cluster", CLUSTER)):
        made = chain(f"clusterip-{value}", create(**INNER, **spec))
        said = f"The API server refuses externalTrafficPolicy {spec['externalTrafficPolicy']} on a ClusterIP Service"
        yield from refusal(
            f"policy.clusterip.{value}", said, made, "created", POLICY, ONLY_EXTERNAL, takes, API_ETP, VALIDATION
        )
    made = chain("headless", create(**INNER, clusterIP="None", **LOCAL))
    said = "The API server refuses externalTrafficPolicy on a headless Service"
    yield check("policy.headless", CORE, said, made, invalid("created", POLICY), takes, API_ETP, VALIDATION)
    made = chain("external-ips-local", create(**IPS, **LOCAL))
    said = "A ClusterIP Service with externalIPs keeps externalTrafficPolicy Local and gets no health-check node port"
    wants = taken("created", policy="Local", health_port=ABSENT)
    drops = "the API server drops or refuses the policy of a Service with externalIPs"
    yield check("policy.external-ips.local", CORE, said, made, wants, drops, API_ETP, VALIDATION, features=EXTERNAL)
    made = chain("nodeport-local", create(**NODE_PORTS, **LOCAL))
    said = "A NodePort Service keeps externalTrafficPolicy Local"
    yield check(
        "policy.nodeport.local",
        CORE,
        said,
        made,
        taken("created", policy="Local"),
        "the API server loses the policy",
        API_ETP,
    )
    defaults = "Services without a policy get another default"
    for name, spec in ANY_TYPE.items():
        made = chain(f"{name}-default", create(**spec))
        policy: object = ABSENT if name == "clusterip" else "Cluster"
        result = "stays unset" if policy is ABSENT else "defaults to Cluster"
        said = f"externalTrafficPolicy of {KINDS[name]} Service {result}"
        yield check(f"policy.{name}.default", CORE, said, made, taken("created", policy=policy), defaults, API_ETP)
        said = f"internalTrafficPolicy of {KINDS[name]} Service defaults to Cluster"
        wants = taken("created", internal="Cluster")
        yield check(f"internal-policy.{name}.default", CORE, said, made, wants, defaults, API_ITP, KEP_2086)
    made = chain("external-ips-default", create(**IPS))
    said = "externalTrafficPolicy of a ClusterIP Service with externalIPs defaults to Cluster"
    wants = taken("created", policy="Cluster")
    yield check("policy.external-ips.default", CORE, said, made, wants, defaults, API_ETP, features=EXTERNAL)
    made = chain("nodeport-empty", create(**NODE_PORTS, externalTrafficPolicy=""))
    said = "An empty externalTrafficPolicy counts as unset and defaults to Cluster"
    yield check("policy.nodeport.empty", EXTENDED, said, made, taken("created", policy="Cluster"), defaults, VALIDATION)


def which_values() -> Checks:
    """Yield checks of the values of both policies: exactly Cluster and Local, not those of the old annotations."""
    takes = "the API server accepts a value that no data plane knows, or translates an old one"
    for value, kind in (("OnlyLocal", LB), ("Global", LB), ("local", NODE_PORTS), ("LOCAL", LB), ("OnlyLocal ", LB)):
        name = {"LOCAL": "upper-case", "OnlyLocal ": "with-a-blank"}.get(value, value.lower())
        made = chain(f"value-{name}", create(**kind, externalTrafficPolicy=value))
        said = f"The API server refuses externalTrafficPolicy '{value}': only Cluster and Local are valid"
        yield from refusal(f"policy.value.{name}", said, made, "created", POLICY, SUPPORTED, takes, API_ETP, *OLD_FORMS)
    made = chain("value-number", create(**LB, externalTrafficPolicy=1))
    said = "The API server refuses an externalTrafficPolicy that is not a string as a bad request"
    wants = Refused("created", (400,), ("BadRequest",), ("externalTrafficPolicy",))
    yield check("policy.value.number", EXTENDED, said, made, wants, takes, VALIDATION)
    for value, name in (("OnlyLocal", "onlylocal"), ("local", "local")):
        made = chain(f"internal-{name}", create(**INNER, internalTrafficPolicy=value))
        said = f"The API server refuses internalTrafficPolicy '{value}': only Cluster and Local are valid"
        yield from refusal(
            f"internal-policy.value.{name}", said, made, "created", INTERNAL, SUPPORTED, takes, API_ITP, KEP_2086
        )
    made = chain("internal-empty", create(**INNER, internalTrafficPolicy=""))
    said = (
        "The API server refuses an empty internalTrafficPolicy: the field is a pointer, so an empty value counts as set"
    )
    yield check("internal-policy.value.empty", EXTENDED, said, made, invalid("created", INTERNAL), takes, VALIDATION)
    for external in (LOCAL, CLUSTER):
        for inner in ("Local", "Cluster"):
            policy = external["externalTrafficPolicy"]
            name = f"{policy.lower()}-and-{inner.lower()}"
            made = chain(f"both-{name}", create(**LB, **external, internalTrafficPolicy=inner))
            said = f"A Service keeps externalTrafficPolicy {policy} together with internalTrafficPolicy {inner}"
            port = PRESENT if policy == "Local" else ABSENT
            wants = taken("created", policy=policy, internal=inner, health_port=port)
            mixed = "the API server confuses the two policies"
            yield check(f"policy.both.{name}", CORE, said, made, wants, mixed, API_ETP, API_ITP, KEP_2086)


def health_ports() -> Checks:
    """Yield checks of requested health-check node ports: only where needed, in the range, and free."""
    takes = "the API server accepts the field where it has no meaning"
    ask = {"healthCheckNodePort": FREE_PORT}
    for name, spec, who in (
        ("clusterip", INNER, "a ClusterIP Service"),
        ("load-balancer-unset", LB, "a LoadBalancer Service without externalTrafficPolicy"),
    ):
        made = chain(f"port-{name}", FREE, create(**spec, **ask))
        said = f"The API server refuses a health-check node port on {who}"
        yield from refusal(
            f"health-port.{name}",
            said,
            made,
            "created",
            HEALTH_PORT,
            ONLY_WHERE_NEEDED,
            takes,
            API_HEALTH_PORT,
            VALIDATION,
        )
    made = chain("port-external-ips", FREE, create(**IPS, **LOCAL, **ask))
    said = "The API server refuses a health-check node port on a ClusterIP Service with externalIPs and Local"
    wants = invalid("created", HEALTH_PORT)
    yield check(
        "health-port.external-ips", CORE, said, made, wants, takes, API_HEALTH_PORT, VALIDATION, features=EXTERNAL
    )
    for name, spec in (("nodeport", {**NODE_PORTS, **LOCAL}), ("cluster", {**LB, **CLUSTER})):
        made = chain(f"port-words-{name}", FREE, create(**spec, **ask))
        who = "type NodePort" if name == "nodeport" else "Cluster"
        said = f"When the API server refuses a health-check node port with {who}, the message says when it may be set"
        wants = invalid("created", ONLY_WHERE_NEEDED)
        yield check(
            f"health-port.{name}.words", EXTENDED, said, made, wants, "the message does not say why", VALIDATION
        )
    either = {"statuses": (422, 500), "reasons": ("Invalid", "InternalError")}
    for name, port in (("negative", -1), ("too-large", 65536), ("out-of-range", 1)):
        made = chain(f"port-{name}", create(**LB, **LOCAL, healthCheckNodePort=port))
        said = f"The API server refuses a health-check node port that is {name.replace('-', ' ')} ({port})"
        beyond = "the API server allocates a port that is not valid, or not in the node port range"
        wants = Refused("created", **either, says=("HealthCheck",))
        yield check(f"health-port.{name}", CORE, said, made, wants, beyond, API_HEALTH_PORT, REGISTRY)
        wants = Refused("created", **either, says=("range",))
        said += ", and the message names the range"
        yield check(f"health-port.{name}.words", EXTENDED, said, made, wants, "the message does not say why", REGISTRY)
    made = chain("port-zero", create(**LB, **LOCAL, healthCheckNodePort=0))
    said = "A health-check node port of 0 counts as unset, so the API server allocates one"
    wants = taken("created", health_port=PRESENT)
    yield check(
        "health-port.zero",
        EXTENDED,
        said,
        made,
        wants,
        "the Service gets no health-check node port",
        API_HEALTH_PORT,
        REGISTRY,
    )
    had = Ref("created", NODE_PORT)
    heir = create("claimed", "heir", **LB, **LOCAL, healthCheckNodePort=had)
    made = chain("port-of-nodeport", create(**NODE_PORTS), heir)
    said = "The API server refuses a health-check node port that is another Service's nodePort"
    wants = Refused("claimed", (422, 500), ("Invalid", "InternalError"), ("HealthCheck",))
    twice = "two independent allocators give the same port to two Services"
    yield check("health-port.is-a-nodeport", CORE, said, made, wants, twice, API_HEALTH_PORT, REGISTRY)
    said = (
        "When the API server refuses a health-check node port that is another Service's nodePort, it returns an "
        "internal error: the allocation failed"
    )
    wants = Refused("claimed", (500,), ("InternalError",), ("failed to allocate requested HealthCheck NodePort",))
    yield check(
        "health-port.is-a-nodeport.words", EXTENDED, said, made, wants, "the message does not say why", REGISTRY
    )
    again = create("refused", **LB, **LOCAL, healthCheckNodePort=FREE_PORT)
    made = chain("port-of-refused", FREE, create(**LB, **CLUSTER), again, claim(FREE_PORT))
    said = (
        "When the API server refuses to create a Service because its name is taken, another Service can claim the "
        "health-check node port that was requested for it"
    )
    yield check(
        "health-port.of-refused", CORE, said, made, Taken("claimed", ((HEALTH_PORT, FREE_PORT),)),
        "the API server allocates the port before it refuses the Service, and keeps it", API_HEALTH_PORT, REGISTRY,
        HEALTH_PORT_LEAKED, given=(Refused("refused", (409,), ("AlreadyExists",)),),
    )  # fmt: skip
    ports = [{"name": "tcp", "port": 80, "nodePort": Ref("created", HEALTH_PORT)}]
    made = chain("nodeport-of-port", create(**LB, **LOCAL), create("claimed", "heir", **NODE_PORTS, ports=ports))
    said = "The API server refuses a nodePort that is another Service's health-check node port"
    wants = invalid("claimed", "nodePort")
    yield check("health-port.is-no-nodeport", CORE, said, made, wants, twice, API_NODE_PORT, REGISTRY)


def load_balancers_only() -> Checks:
    """Yield checks of fields for load balancers only: source ranges, class, and allocation of nodePorts."""
    takes = "the API server accepts the field where it has no meaning"
    fields = (
        ("source-ranges", {"loadBalancerSourceRanges": ["192.0.2.0/24"]}, RANGES, (API_RANGES,)),
        ("class", {"loadBalancerClass": UNSERVED_CLASS}, CLASS, (API_CLASS, KEP_1959)),
        ("allocate", {"allocateLoadBalancerNodePorts": False}, ALLOCATE, (API_ALLOCATE, KEP_1864)),
    )
    for field, spec, path, because in fields:
        for kind, base in (("nodeport", NODE_PORTS), ("clusterip", INNER)):
            made = chain(f"{field}-{kind}", create(**base, **spec))
            said = f"The API server refuses {path.removeprefix('spec.')} on {KINDS[kind]} Service"
            yield check(f"{field}.{kind}", CORE, said, made, invalid("created", path), takes, *because, VALIDATION)
        name = path.removeprefix("spec.")
        said = f"When the API server refuses {name} on a NodePort Service, the message says where it may be used"
        made = chain(f"{field}-nodeport", create(**NODE_PORTS, **spec))
        wants = invalid("created", ONLY_BALANCED)
        yield check(f"{field}.nodeport.words", EXTENDED, said, made, wants, "the message does not say why", VALIDATION)
    made = chain("ranges", create(**LB, loadBalancerSourceRanges=["192.0.2.0/24", "2001:db8::/32"]))
    said = "A LoadBalancer Service keeps loadBalancerSourceRanges of both IP families unchanged"
    wants = taken("created", ranges=["192.0.2.0/24", "2001:db8::/32"])
    yield check("source-ranges.kept", CORE, said, made, wants, "the API server loses or changes the ranges", API_RANGES)
    for name, value in (("address", "192.0.2.1"), ("prefix", "192.0.2.0/33")):
        made = chain(f"ranges-{name}", create(**LB, loadBalancerSourceRanges=[value]))
        said = f"The API server refuses a loadBalancerSourceRange that is not a CIDR ({value})"
        nonsense = "the API server accepts an invalid range, and the load balancer admits every client, or none"
        wants = invalid("created", RANGES)
        yield check(f"source-ranges.{name}", CORE, said, made, wants, nonsense, API_RANGES, VALIDATION)
    made = chain("class-nonsense", create(type="LoadBalancer", loadBalancerClass="no/such/class"))
    said = "The API server refuses a loadBalancerClass that is not a label-style identifier"
    yield check(
        "class.nonsense",
        CORE,
        said,
        made,
        invalid("created", CLASS),
        "the API server accepts any text",
        API_CLASS,
        KEP_1959,
    )
    for name, verb, value in (("changed", "change", ANOTHER_CLASS), ("removed", "remove", None)):
        made = chain(f"class-{name}", create(**LB), merge("edited", loadBalancerClass=value))
        said = f"The API server refuses to {verb} the loadBalancerClass of a LoadBalancer Service"
        changes = "another implementation takes over a load balancer while the first one still serves it"
        yield from refusal(
            f"class.{name}",
            said,
            made,
            "edited",
            CLASS,
            "may not change once set",
            changes,
            API_CLASS,
            KEP_1959,
            VALIDATION,
        )


def node_ports_of_load_balancers() -> Checks:
    """Yield checks of allocateLoadBalancerNodePorts: true by default, without effect on the health-check node port."""
    made = chain("allocate-default", create(**LB))
    said = "allocateLoadBalancerNodePorts defaults to true, and the API server allocates nodePorts"
    wants = taken("created", allocate=True, node_port=PRESENT)
    yield check(
        "allocate.default",
        CORE,
        said,
        made,
        wants,
        "load balancers that need nodePorts get none",
        API_ALLOCATE,
        KEP_1864,
    )
    made = chain("allocate-off", create(**LB, **LOCAL, allocateLoadBalancerNodePorts=False))
    said = "With allocateLoadBalancerNodePorts false, the API server allocates no nodePort"
    wants = taken("created", allocate=False, node_port=ABSENT)
    yield check(
        "allocate.off",
        CORE,
        said,
        made,
        wants,
        "the API server allocates ports that no load balancer uses",
        API_ALLOCATE,
        KEP_1864,
    )
    said = "A LoadBalancer Service with Local gets a health-check node port even without nodePorts"
    wants = taken("created", policy="Local", health_port=PRESENT)
    no_check = "load balancers without nodePorts cannot find the nodes with endpoints"
    yield check("allocate.off.health-port", CORE, said, made, wants, no_check, API_ALLOCATE, KEP_1864, API_HEALTH_PORT)
    ports = [{"name": "tcp", "port": 80, "nodePort": FREE_PORT}]
    made = chain("allocate-chosen", FREE, create(**LB, allocateLoadBalancerNodePorts=False, ports=ports))
    said = "The API server grants a requested nodePort even with allocateLoadBalancerNodePorts false"
    wants = taken("created", allocate=False, node_port=PRESENT)
    yield check(
        "allocate.off.chosen", CORE, said, made, wants, "the API server drops the user's choice", API_ALLOCATE, KEP_1864
    )
    made = chain("allocate-turned-off", create(**LB), merge("off", allocateLoadBalancerNodePorts=False))
    said = "A LoadBalancer Service keeps its nodePorts when allocateLoadBalancerNodePorts becomes false"
    wants = taken("off", allocate=False, node_port=Same("created"))
    yield check(
        "allocate.turned-off",
        CORE,
        said,
        made,
        wants,
        "the change interrupts traffic",
        API_ALLOCATE,
        KEP_1864,
        REGISTRY,
    )
    off = create(**LB, allocateLoadBalancerNodePorts=False)
    made = chain("allocate-turned-on", off, merge("on", allocateLoadBalancerNodePorts=True))
    said = "A LoadBalancer Service gets nodePorts when allocateLoadBalancerNodePorts becomes true"
    wants = taken("on", allocate=True, node_port=PRESENT)
    yield check(
        "allocate.turned-on",
        CORE,
        said,
        made,
        wants,
        "the API server allocates nodePorts on creation only",
        API_ALLOCATE,
        KEP_1864,
        REGISTRY,
    )


def affinity() -> Checks:
    """Yield checks of sessionAffinity: its values, its default and its timeout."""
    made = chain("affinity-client", create(**INNER, sessionAffinity="ClientIP"))
    said = "The timeout of sessionAffinity ClientIP defaults to 10800 seconds"
    wants = taken("created", affinity="ClientIP", seconds=10800)
    yield check(
        "affinity.default-seconds", CORE, said, made, wants, "clients change backends after another time", API_AFFINITY
    )
    made = chain("affinity-none", create(**INNER))
    said = "sessionAffinity defaults to None"
    yield check(
        "affinity.default",
        CORE,
        said,
        made,
        taken("created", affinity="None"),
        "clients stay with one backend by default",
        API_AFFINITY,
    )
    made = chain("affinity-value", create(**INNER, sessionAffinity="Cookie"))
    said = "The API server refuses any sessionAffinity other than ClientIP and None"
    yield check(
        "affinity.value",
        CORE,
        said,
        made,
        invalid("created", AFFINITY),
        "the API server accepts an invalid value",
        API_AFFINITY,
    )
    for name, seconds in (("zero", 0), ("more-than-a-day", 86401)):
        config = {"clientIP": {"timeoutSeconds": seconds}}
        made = chain(f"affinity-{name}", create(**INNER, sessionAffinity="ClientIP", sessionAffinityConfig=config))
        said = f"The API server refuses a sessionAffinity timeout of {seconds} seconds"
        wants = invalid("created", "timeoutSeconds")
        yield check(
            f"affinity.{name}",
            CORE,
            said,
            made,
            wants,
            "the API server accepts an invalid value",
            API_AFFINITY,
            VALIDATION,
        )


def families() -> Checks:
    """Yield checks of dual-stack Services whose first family is IPv6, on any dual-stack cluster: which ClusterIPs."""
    dual = {**INNER, "ipFamilyPolicy": "RequireDualStack", "ipFamilies": ["IPv6", "IPv4"]}
    single = {**INNER, "ipFamilyPolicy": "SingleStack", "ipFamilies": ["IPv6"]}
    both, one = Addresses(("IPv6", "IPv4")), Addresses(("IPv6",))
    because = {"features": frozenset({"families.dual"})}
    made = chain("families", create(**dual))
    said = "A dual-stack Service gets its ClusterIPs in the order of its ipFamilies"
    wants = taken("created", families=["IPv6", "IPv4"], cluster_ips=both)
    order = "the API server orders ClusterIPs as the cluster does, so that clients of the first one use another family"
    yield check("families.order", CORE, said, made, wants, order, API_FAMILIES, KEP_563, **because)
    given = (wants,)
    made = chain("families-changed", create(**dual), merge("edited", ipFamilies=["IPv4", "IPv6"]))
    said = "The API server refuses to change the first family of a dual-stack Service"
    changes = "a Service loses the ClusterIP that clients know"
    yield from refusal(
        "families.changed", said, made, "edited", "clusterIPs[0]", "as indicated by", changes, API_FAMILIES,
        KEP_563, VALIDATION, **because,
    )  # fmt: skip
    stays = "the Service keeps its families, or loses the ClusterIP that clients know"
    made = chain("families-removed", create(**dual), merge("narrowed", ipFamilyPolicy="SingleStack"))
    said = "A dual-stack Service that becomes SingleStack keeps its first ClusterIP, and loses its second one"
    wants = taken("narrowed", families=["IPv6"], cluster_ip=Same("created"), cluster_ips=one)
    yield check("families.removed", CORE, said, made, wants, stays, API_FAMILIES, DUAL_STACK, given=given, **because)
    made = chain("families-added", create(**single), merge("widened", ipFamilyPolicy="RequireDualStack"))
    said = "A SingleStack Service that becomes dual-stack keeps its ClusterIP, and gets one of the other family second"
    wants = taken("widened", families=["IPv6", "IPv4"], cluster_ip=Same("created"), cluster_ips=both)
    given = (taken("created", families=["IPv6"], cluster_ips=one),)
    yield check("families.added", CORE, said, made, wants, stays, API_FAMILIES, DUAL_STACK, given=given, **because)


def external_names() -> Checks:
    """Yield checks of ExternalName Services: they are DNS aliases without a proxy, so none of these fields applies."""
    takes = "the API server accepts a field that no proxy implements"
    for name, spec, path in (
        ("policy", LOCAL, POLICY),
        ("health-port", {"healthCheckNodePort": FREE_PORT}, HEALTH_PORT),
        ("source-ranges", {"loadBalancerSourceRanges": ["192.0.2.0/24"]}, RANGES),
        ("class", {"loadBalancerClass": UNSERVED_CLASS}, CLASS),
        ("allocate", {"allocateLoadBalancerNodePorts": True}, ALLOCATE),
    ):
        first = (FREE,) if name == "health-port" else ()
        made = chain(f"name-{name}", *first, create(**NAME, **spec))
        said = f"The API server refuses {path.removeprefix('spec.')} on an ExternalName Service"
        wants = invalid("created", path)
        yield check(f"external-name.{name}", CORE, said, made, wants, takes, API_EXTERNAL_NAME, VALIDATION)
    made = chain("name", create(**NAME))
    said = "An ExternalName Service has no policy, no address and no health-check node port"
    wants = taken("created", policy=ABSENT, internal=ABSENT, cluster_ips=ABSENT, health_port=ABSENT)
    yield check("external-name.none", CORE, said, made, wants, takes, API_EXTERNAL_NAME)


def announcements() -> Checks:
    """Yield checks of status.loadBalancer.ingress: ipMode defaults to VIP, and only load balancers have an ingress."""

    def announced(name: str, **ingress: str) -> Chain:
        return chain(f"ingress-{name}", create(**LB, **LOCAL), Step("told", Verb.STATUS, [ingress]))

    short = "in-cluster traffic bypasses a load balancer that must see it, or takes a detour through one that need not"
    for name, mode in (("default", ""), ("vip", "VIP"), ("proxy", "Proxy")):
        made = announced(name, ip=BALANCED_IP, **({"ipMode": mode} if mode else {}))
        kept = f"The API server keeps ipMode {mode} of a load balancer address"
        said = kept if mode else "ipMode of a load balancer address defaults to VIP"
        yield check(
            f"ip-mode.{name}", CORE, said, made, taken("told", ip_mode=mode or "VIP"), short, API_IP_MODE, KEP_1860
        )
    for name, ingress in (
        ("hostname", {"hostname": "esipp.example", "ipMode": "VIP"}),
        ("value", {"ipMode": "Global"}),
    ):
        ingress = ingress if name == "hostname" else {**ingress, "ip": BALANCED_IP}
        made = announced(f"mode-{name}", **ingress)
        what = "an ipMode without an ip" if name == "hostname" else "any ipMode other than VIP and Proxy"
        said = f"The API server refuses {what}"
        wants = invalid("told", "ipMode")
        yield check(
            f"ip-mode.{name}",
            CORE,
            said,
            made,
            wants,
            "the API server accepts an invalid value",
            API_IP_MODE,
            KEP_1860,
            VALIDATION,
        )
    made = chain("ingress-nodeport", create(**NODE_PORTS), BALANCED)
    said = "The API server refuses a load balancer status on a Service of another type"
    hijack = "a user who may write the status attracts traffic for any address"
    yield check("status.nodeport", EXTENDED, said, made, invalid("balanced", INGRESS), hijack, API_STATUS, VALIDATION)


def others() -> Checks:
    """Yield checks of trafficDistribution with Local, of externalIPs, and of the source range annotation."""
    made = chain("distribution", create(**LB, **LOCAL, trafficDistribution="PreferClose"))
    said = "A Service keeps trafficDistribution together with externalTrafficPolicy Local"
    wants = taken("created", policy="Local", distribution="PreferClose", health_port=PRESENT)
    either = "the API server drops one of them, or refuses both together"
    yield check("distribution.beside-local", CORE, said, made, wants, either, API_DISTRIBUTION, KEP_4444, API_ETP)
    made = chain("distribution-value", create(**LB, trafficDistribution="OnlyLocal"))
    said = "The API server refuses an unknown trafficDistribution"
    wants = invalid("created", "spec.trafficDistribution")
    yield check(
        "distribution.value",
        CORE,
        said,
        made,
        wants,
        "the API server accepts an invalid value",
        API_DISTRIBUTION,
        KEP_4444,
        VALIDATION,
    )
    made = chain("external-ips-warning", create(**IPS))
    said = "Records whether the API server warns that externalIPs are deprecated, as it does since Kubernetes 1.36"
    wants = Warned("created", "externalIPs")
    yield check("external-ips.warning", RECORD, said, made, wants, "nothing", KEP_5707, features=EXTERNAL)
    made = chain("external-ips-loopback", create(type="ClusterIP", externalIPs=["127.0.0.1"]))
    said = "The API server refuses a loopback address as an externalIP"
    wants = invalid("created", "spec.externalIPs")
    takes = "a Service attracts every node's own loopback traffic"
    yield check(
        "external-ips.loopback", EXTENDED, said, made, wants, takes, API_EXTERNAL_IPS, VALIDATION, features=EXTERNAL
    )
    made = chain("external-ips-removed", create(**IPS, **LOCAL), merge("removed", externalIPs=None))
    said = "A ClusterIP Service loses its externalTrafficPolicy when its externalIPs are removed"
    wants = taken("removed", policy=ABSENT, external_ips=ABSENT)
    stays = "the policy remains, so the API server refuses the next update"
    yield check(
        "external-ips.removed", CORE, said, made, wants, stays, API_ETP, REGISTRY, features=EXTERNAL,
        given=(taken("created", policy="Local"),),
    )  # fmt: skip
    key = "service.beta.kubernetes.io/load-balancer-source-ranges"
    good, bad = {key: "192.0.2.0/24, 2001:db8::/32"}, {key: "192.0.2.0/33"}
    ranges = ["198.51.100.0/24"]
    ways = (
        ("kept", create(annotations=good, **LB), Taken("created", ((ANNOTATION + key, good[key]), (RANGES, ABSENT)))),
        ("nodeport", create(annotations=good, **NODE_PORTS), invalid("created", "load-balancer-source-ranges")),
        ("prefix", create(annotations=bad, **LB), invalid("created", "load-balancer-source-ranges")),
        (
            "field-wins",
            create(annotations=bad, **LB, loadBalancerSourceRanges=ranges),
            Taken("created", ((RANGES, ranges), (ANNOTATION + key, bad[key]))),
        ),
    )
    sentences = {
        "kept": "The API server still accepts the source ranges annotation, and leaves the field unset",
        "nodeport": "The API server refuses the source ranges annotation on a NodePort Service, like the field",
        "prefix": "The API server refuses a source ranges annotation that is not a CIDR, like the field",
        "field-wins": "The API server ignores the source ranges annotation when the field is set",
    }
    for name, step, want in ways:
        made = chain(f"ranges-annotation-{name}", step)
        loses = "the API server drops the annotation silently, or accepts an invalid one"
        yield check(
            f"source-ranges.annotation.{name}", EXTENDED, sentences[name], made, want, loses, RANGES_ANNOTATION,
            VALIDATION,
        )  # fmt: skip


CHECKS: tuple[Check, ...] = (
    *where_a_policy_belongs(),
    *which_values(),
    *health_ports(),
    *load_balancers_only(),
    *node_ports_of_load_balancers(),
    *affinity(),
    *families(),
    *external_names(),
    *announcements(),
    *others(),
)
