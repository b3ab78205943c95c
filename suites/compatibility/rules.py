"""The API's rules for the fields that decide where traffic from outside goes: taken, defaulted, refused. Data only."""

from collections.abc import Iterator

from suites.compatibility.requirements import *

Rows = Iterator[Check]

IPS = {"type": "ClusterIP", "externalIPs": ["192.0.2.70"]}
EXTERNAL = frozenset({"external-ips"})
NAME = {"type": "ExternalName", "externalName": "esipp.example"}
ANY_TYPE = {"clusterip": INNER, "nodeport": NODE_PORTS, "loadbalancer": LB}
KINDS = {"clusterip": "a ClusterIP", "nodeport": "a NodePort", "loadbalancer": "a LoadBalancer"}


def chain(name: str, *steps: Step) -> Chain:
    """A chain of this page."""
    return Chain(f"rule-{name}", steps)


def where_a_policy_belongs() -> Rows:
    """Only to Services that traffic from outside the cluster is meant for."""
    takes = "the field is taken where it means nothing"
    for value, spec in (("local", LOCAL), ("cluster", CLUSTER)):
        made = chain(f"clusterip-{value}", create(**INNER, **spec))
        said = f"externalTrafficPolicy {spec['externalTrafficPolicy']} is refused on a ClusterIP Service"
        yield from refusal(
            f"policy.clusterip.{value}", said, made, "created", POLICY, ONLY_EXTERNAL, takes, API_ETP, VALIDATION
        )
    made = chain("headless", create(**INNER, clusterIP="None", **LOCAL))
    said = "externalTrafficPolicy is refused on a headless Service"
    yield check("policy.headless", CORE, said, made, invalid("created", POLICY), takes, API_ETP, VALIDATION)
    made = chain("external-ips-local", create(**IPS, **LOCAL))
    said = (
        "externalTrafficPolicy Local is taken and kept on a ClusterIP Service with externalIPs, without a health port"
    )
    wants = taken("created", policy="Local", health_port=ABSENT)
    drops = "the policy of externalIPs is dropped or refused"
    yield check("policy.external-ips.local", CORE, said, made, wants, drops, API_ETP, VALIDATION, features=EXTERNAL)
    made = chain("nodeport-local", create(**NODE_PORTS, **LOCAL))
    said = "externalTrafficPolicy Local is taken and kept on a NodePort Service"
    yield check(
        "policy.nodeport.local", CORE, said, made, taken("created", policy="Local"), "the policy is lost", API_ETP
    )
    defaults = "services without a policy get another one"
    for name, spec in ANY_TYPE.items():
        made = chain(f"{name}-default", create(**spec))
        policy: object = ABSENT if name == "clusterip" else "Cluster"
        said = f"externalTrafficPolicy of {KINDS[name]} Service that names none"
        said += " stays unset" if policy is ABSENT else " is Cluster"
        yield check(f"policy.{name}.default", CORE, said, made, taken("created", policy=policy), defaults, API_ETP)
        said = f"internalTrafficPolicy of {KINDS[name]} Service that names none is Cluster"
        wants = taken("created", internal="Cluster")
        yield check(f"internal-policy.{name}.default", CORE, said, made, wants, defaults, API_ITP, KEP_2086)
    made = chain("external-ips-default", create(**IPS))
    said = "externalTrafficPolicy of a ClusterIP Service with externalIPs that names none is Cluster"
    wants = taken("created", policy="Cluster")
    yield check("policy.external-ips.default", CORE, said, made, wants, defaults, API_ETP, features=EXTERNAL)
    made = chain("nodeport-empty", create(**NODE_PORTS, externalTrafficPolicy=""))
    said = "An empty externalTrafficPolicy is one that is unset: Cluster"
    yield check("policy.nodeport.empty", EXTENDED, said, made, taken("created", policy="Cluster"), defaults, VALIDATION)


def which_values() -> Rows:
    """Exactly Cluster and Local, in both policies; the words of the old annotations are none."""
    takes = "a value is taken that no data plane knows, or an old one is translated"
    for value, kind in (("OnlyLocal", LB), ("Global", LB), ("local", NODE_PORTS), ("LOCAL", LB), ("OnlyLocal ", LB)):
        name = {"LOCAL": "upper-case", "OnlyLocal ": "with-a-blank"}.get(value, value.lower())
        made = chain(f"value-{name}", create(**kind, externalTrafficPolicy=value))
        said = f"externalTrafficPolicy '{value}' is refused: values are exactly Cluster and Local"
        yield from refusal(f"policy.value.{name}", said, made, "created", POLICY, SUPPORTED, takes, API_ETP, *OLD_FORMS)
    made = chain("value-number", create(**LB, externalTrafficPolicy=1))
    said = "externalTrafficPolicy that is no text is refused as a bad request"
    wants = Refused("created", (400,), ("BadRequest",), ("externalTrafficPolicy",))
    yield check("policy.value.number", EXTENDED, said, made, wants, takes, VALIDATION)
    for value, name in (("OnlyLocal", "onlylocal"), ("local", "local")):
        made = chain(f"internal-{name}", create(**INNER, internalTrafficPolicy=value))
        said = f"internalTrafficPolicy '{value}' is refused: values are exactly Cluster and Local"
        yield from refusal(
            f"internal-policy.value.{name}", said, made, "created", INTERNAL, SUPPORTED, takes, API_ITP, KEP_2086
        )
    made = chain("internal-empty", create(**INNER, internalTrafficPolicy=""))
    said = "An empty internalTrafficPolicy is refused: the field is a pointer, and this is a value"
    yield check("internal-policy.value.empty", EXTENDED, said, made, invalid("created", INTERNAL), takes, VALIDATION)
    for external in (LOCAL, CLUSTER):
        for inner in ("Local", "Cluster"):
            policy = external["externalTrafficPolicy"]
            name = f"{policy.lower()}-and-{inner.lower()}"
            made = chain(f"both-{name}", create(**LB, **external, internalTrafficPolicy=inner))
            said = f"externalTrafficPolicy {policy} and internalTrafficPolicy {inner} go together, and both are kept"
            port = PRESENT if policy == "Local" else ABSENT
            wants = taken("created", policy=policy, internal=inner, health_port=port)
            mixed = "one policy is taken for the other"
            yield check(f"policy.both.{name}", CORE, said, made, wants, mixed, API_ETP, API_ITP, KEP_2086)


def health_ports() -> Rows:
    """A health-check node port that is asked for: only where it is needed, only from the range, only if it is free."""
    takes = "the field is taken where it means nothing"
    ask = {"healthCheckNodePort": FREE_PORT}
    for name, spec, who in (
        ("clusterip", INNER, "a ClusterIP Service"),
        ("load-balancer-unset", LB, "a LoadBalancer Service that names no policy"),
    ):
        made = chain(f"port-{name}", FREE, create(**spec, **ask))
        said = f"A health-check node port is refused on {who}"
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
    said = "A health-check node port is refused on a ClusterIP Service with externalIPs and Local"
    wants = invalid("created", HEALTH_PORT)
    yield check(
        "health-port.external-ips", CORE, said, made, wants, takes, API_HEALTH_PORT, VALIDATION, features=EXTERNAL
    )
    for name, spec in (("nodeport", {**NODE_PORTS, **LOCAL}), ("cluster", {**LB, **CLUSTER})):
        made = chain(f"port-words-{name}", FREE, create(**spec, **ask))
        who = "type NodePort" if name == "nodeport" else "Cluster"
        said = f"The refusal of a health-check node port with {who} says when it may be set"
        wants = invalid("created", ONLY_WHERE_NEEDED)
        yield check(f"health-port.{name}.words", EXTENDED, said, made, wants, "it does not tell why", VALIDATION)
    either = {"statuses": (422, 500), "reasons": ("Invalid", "InternalError")}
    for name, port in (("negative", -1), ("too-large", 65536), ("out-of-range", 1)):
        made = chain(f"port-{name}", create(**LB, **LOCAL, healthCheckNodePort=port))
        said = f"A health-check node port that is {name.replace('-', ' ')} ({port}) is refused"
        beyond = "a port is handed out that nobody can listen at, or that is not the allocator's"
        wants = Refused("created", **either, says=("HealthCheck",))  # type: ignore[arg-type]
        yield check(f"health-port.{name}", CORE, said, made, wants, beyond, API_HEALTH_PORT, REGISTRY)
        wants = Refused("created", **either, says=("range",))  # type: ignore[arg-type]
        said += "; and the refusal names the range"
        yield check(f"health-port.{name}.words", EXTENDED, said, made, wants, "it does not tell why", REGISTRY)
    made = chain("port-zero", create(**LB, **LOCAL, healthCheckNodePort=0))
    said = "A health-check node port of 0 is one that is not asked for: one is allocated"
    wants = taken("created", health_port=PRESENT)
    yield check(
        "health-port.zero", EXTENDED, said, made, wants, "the service is left without one", API_HEALTH_PORT, REGISTRY
    )
    had = Ref("created", NODE_PORT)
    made = chain("port-of-nodeport", create(**NODE_PORTS), claim(had))
    said = "A health-check node port that is another service's nodePort is refused"
    wants = Refused("claimed", (422, 500), ("Invalid", "InternalError"), ("HealthCheck",))
    twice = "two allocators that do not know each other hand one port out twice"
    yield check("health-port.is-a-nodeport", CORE, said, made, wants, twice, API_HEALTH_PORT, REGISTRY)
    said = "The refusal of a health-check node port that is a nodePort says that it is allocated, as an internal error"
    wants = Refused("claimed", (500,), ("InternalError",), ("failed to allocate requested HealthCheck NodePort",))
    yield check("health-port.is-a-nodeport.words", EXTENDED, said, made, wants, "it does not tell why", REGISTRY)
    ports = [{"name": "tcp", "port": 80, "nodePort": Ref("created", HEALTH_PORT)}]
    made = chain("nodeport-of-port", create(**LB, **LOCAL), create("claimed", "heir", **NODE_PORTS, ports=ports))
    said = "A nodePort that is another service's health-check node port is refused"
    wants = invalid("claimed", "nodePort")
    yield check("health-port.is-no-nodeport", CORE, said, made, wants, twice, API_NODE_PORT, REGISTRY)


def load_balancers_only() -> Rows:
    """Source ranges, class, and whether nodePorts are allocated: for load balancers only."""
    takes = "the field is taken where it means nothing"
    fields = (
        ("source-ranges", {"loadBalancerSourceRanges": ["192.0.2.0/24"]}, RANGES, (API_RANGES,)),
        ("class", {"loadBalancerClass": NOBODY}, CLASS, (API_CLASS, KEP_1959)),
        ("allocate", {"allocateLoadBalancerNodePorts": False}, ALLOCATE, (API_ALLOCATE, KEP_1864)),
    )
    for field, spec, path, because in fields:
        for kind, base in (("nodeport", NODE_PORTS), ("clusterip", INNER)):
            made = chain(f"{field}-{kind}", create(**base, **spec))
            said = f"{path.removeprefix('spec.')} is refused on {KINDS[kind]} Service"
            yield check(f"{field}.{kind}", CORE, said, made, invalid("created", path), takes, *because, VALIDATION)
        said = f"The refusal of {path.removeprefix('spec.')} on a NodePort Service says where it may be used"
        made = chain(f"{field}-nodeport", create(**NODE_PORTS, **spec))
        wants = invalid("created", ONLY_BALANCED)
        yield check(f"{field}.nodeport.words", EXTENDED, said, made, wants, "it does not tell why", VALIDATION)
    made = chain("ranges", create(**LB, loadBalancerSourceRanges=["192.0.2.0/24", "2001:db8::/32"]))
    said = "loadBalancerSourceRanges of both families are kept as they are"
    wants = taken("created", ranges=["192.0.2.0/24", "2001:db8::/32"])
    yield check("source-ranges.kept", CORE, said, made, wants, "the ranges are lost or changed", API_RANGES)
    for name, value in (("address", "192.0.2.1"), ("prefix", "192.0.2.0/33")):
        made = chain(f"ranges-{name}", create(**LB, loadBalancerSourceRanges=[value]))
        said = f"A loadBalancerSourceRange that is no CIDR ({value}) is refused"
        nonsense = "nonsense is taken, and whoever reads it lets everybody in, or nobody"
        wants = invalid("created", RANGES)
        yield check(f"source-ranges.{name}", CORE, said, made, wants, nonsense, API_RANGES, VALIDATION)
    made = chain("class-nonsense", create(type="LoadBalancer", loadBalancerClass="no/such/class"))
    said = "A loadBalancerClass that is no label-style identifier is refused"
    yield check("class.nonsense", CORE, said, made, invalid("created", CLASS), "anything is taken", API_CLASS, KEP_1959)
    for name, value in (("changed", ANOTHER_CLASS), ("removed", None)):
        made = chain(f"class-{name}", create(**LB), merge("edited", loadBalancerClass=value))
        said = f"The loadBalancerClass of a load balancer cannot be {name}"
        changes = "a load balancer is handed over while another one still serves it"
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


def node_ports_of_load_balancers() -> Rows:
    """allocateLoadBalancerNodePorts: true unless told otherwise; the health-check port does not depend on it."""
    made = chain("allocate-default", create(**LB))
    said = "allocateLoadBalancerNodePorts is true by default, and nodePorts are allocated"
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
    said = "With allocateLoadBalancerNodePorts false no nodePort is allocated"
    wants = taken("created", allocate=False, node_port=ABSENT)
    yield check("allocate.off", CORE, said, made, wants, "ports are used up for nobody", API_ALLOCATE, KEP_1864)
    said = "A load balancer with Local has its health-check node port also without nodePorts"
    wants = taken("created", policy="Local", health_port=PRESENT)
    no_check = "load balancers without nodePorts cannot tell where the endpoints are"
    yield check("allocate.off.health-port", CORE, said, made, wants, no_check, API_ALLOCATE, KEP_1864, API_HEALTH_PORT)
    ports = [{"name": "tcp", "port": 80, "nodePort": FREE_PORT}]
    made = chain("allocate-chosen", FREE, create(**LB, allocateLoadBalancerNodePorts=False, ports=ports))
    said = "A nodePort that is asked for is given also with allocateLoadBalancerNodePorts false"
    wants = taken("created", allocate=False, node_port=PRESENT)
    yield check("allocate.off.chosen", CORE, said, made, wants, "the user's choice is dropped", API_ALLOCATE, KEP_1864)
    made = chain("allocate-turned-off", create(**LB), merge("off", allocateLoadBalancerNodePorts=False))
    said = "A load balancer whose allocateLoadBalancerNodePorts is turned off keeps the nodePorts that it has"
    wants = taken("off", allocate=False, node_port=Same("created"))
    yield check(
        "allocate.turned-off", CORE, said, made, wants, "running traffic is cut off", API_ALLOCATE, KEP_1864, REGISTRY
    )
    off = create(**LB, allocateLoadBalancerNodePorts=False)
    made = chain("allocate-turned-on", off, merge("on", allocateLoadBalancerNodePorts=True))
    said = "A load balancer whose allocateLoadBalancerNodePorts is turned on gets nodePorts"
    wants = taken("on", allocate=True, node_port=PRESENT)
    yield check("allocate.turned-on", CORE, said, made, wants, "it never gets any", API_ALLOCATE, KEP_1864, REGISTRY)


def affinity() -> Rows:
    """sessionAffinity: by the client's address for three hours, or not at all."""
    made = chain("affinity-client", create(**INNER, sessionAffinity="ClientIP"))
    said = "sessionAffinity ClientIP lasts 10800 seconds unless told otherwise"
    wants = taken("created", affinity="ClientIP", seconds=10800)
    yield check("affinity.default-seconds", CORE, said, made, wants, "clients move on sooner or later", API_AFFINITY)
    made = chain("affinity-none", create(**INNER))
    said = "sessionAffinity is None unless told otherwise"
    yield check("affinity.default", CORE, said, made, taken("created", affinity="None"), "clients stick", API_AFFINITY)
    made = chain("affinity-value", create(**INNER, sessionAffinity="Cookie"))
    said = "Another sessionAffinity than ClientIP and None is refused"
    yield check("affinity.value", CORE, said, made, invalid("created", AFFINITY), "nonsense is taken", API_AFFINITY)
    for name, seconds in (("zero", 0), ("more-than-a-day", 86401)):
        config = {"clientIP": {"timeoutSeconds": seconds}}
        made = chain(f"affinity-{name}", create(**INNER, sessionAffinity="ClientIP", sessionAffinityConfig=config))
        said = f"A sessionAffinity of {seconds} seconds is refused"
        wants = invalid("created", "timeoutSeconds")
        yield check(f"affinity.{name}", CORE, said, made, wants, "nonsense is taken", API_AFFINITY, VALIDATION)


def external_names() -> Rows:
    """ExternalName is an alias: nothing is proxied, so nothing of this applies."""
    takes = "a promise is taken that no proxy will ever keep"
    for name, spec, path in (
        ("policy", LOCAL, POLICY),
        ("health-port", {"healthCheckNodePort": FREE_PORT}, HEALTH_PORT),
        ("source-ranges", {"loadBalancerSourceRanges": ["192.0.2.0/24"]}, RANGES),
        ("class", {"loadBalancerClass": NOBODY}, CLASS),
        ("allocate", {"allocateLoadBalancerNodePorts": True}, ALLOCATE),
    ):
        first = (FREE,) if name == "health-port" else ()
        made = chain(f"name-{name}", *first, create(**NAME, **spec))
        said = f"{path.removeprefix('spec.')} is refused on an ExternalName Service"
        wants = invalid("created", path)
        yield check(f"external-name.{name}", CORE, said, made, wants, takes, API_EXTERNAL_NAME, VALIDATION)
    made = chain("name", create(**NAME))
    said = "An ExternalName Service has no policy, no address and no health-check node port"
    wants = taken("created", policy=ABSENT, internal=ABSENT, cluster_ips=ABSENT, health_port=ABSENT)
    yield check("external-name.none", CORE, said, made, wants, takes, API_EXTERNAL_NAME)


def announcements() -> Rows:
    """status.loadBalancer.ingress: an address is of mode VIP unless told otherwise; only load balancers have one."""

    def told(name: str, **ingress: str) -> Chain:
        return chain(f"ingress-{name}", create(**LB, **LOCAL), Step("told", Verb.STATUS, [ingress]))

    short = "in-cluster traffic takes the short way past a load balancer that must see it, or the long way for nothing"
    for name, mode in (("default", ""), ("vip", "VIP"), ("proxy", "Proxy")):
        made = told(name, ip=BALANCED_IP, **({"ipMode": mode} if mode else {}))
        said = f"ipMode {mode} of an announced address is kept" if mode else "ipMode of an announced address is VIP"
        said += "" if mode else " unless told otherwise"
        yield check(
            f"ip-mode.{name}", CORE, said, made, taken("told", ip_mode=mode or "VIP"), short, API_IP_MODE, KEP_1860
        )
    for name, ingress in (
        ("hostname", {"hostname": "esipp.example", "ipMode": "VIP"}),
        ("value", {"ipMode": "Global"}),
    ):
        ingress = ingress if name == "hostname" else {**ingress, "ip": BALANCED_IP}
        made = told(f"mode-{name}", **ingress)
        said = "ipMode is refused where no ip is announced" if name == "hostname" else "Another ipMode is refused"
        wants = invalid("told", "ipMode")
        yield check(f"ip-mode.{name}", CORE, said, made, wants, "nonsense is taken", API_IP_MODE, KEP_1860, VALIDATION)
    made = chain("ingress-nodeport", create(**NODE_PORTS), BALANCED)
    said = "An announcement is refused on a Service that is no load balancer"
    hijack = "whoever may write a status draws any address's traffic to any service"
    yield check("status.nodeport", EXTENDED, said, made, invalid("balanced", INGRESS), hijack, API_STATUS, VALIDATION)


def others() -> Rows:
    """trafficDistribution beside Local; externalIPs and what the server has to say of them; the living annotation."""
    made = chain("distribution", create(**LB, **LOCAL, trafficDistribution="PreferClose"))
    said = "trafficDistribution is taken and kept beside externalTrafficPolicy Local, which is kept as well"
    wants = taken("created", policy="Local", distribution="PreferClose", health_port=PRESENT)
    either = "one of them is dropped, or they exclude each other"
    yield check("distribution.beside-local", CORE, said, made, wants, either, API_DISTRIBUTION, KEP_4444, API_ETP)
    made = chain("distribution-value", create(**LB, trafficDistribution="OnlyLocal"))
    said = "A trafficDistribution that nobody knows is refused"
    wants = invalid("created", "spec.trafficDistribution")
    yield check(
        "distribution.value", CORE, said, made, wants, "nonsense is taken", API_DISTRIBUTION, KEP_4444, VALIDATION
    )
    made = chain("external-ips-warning", create(**IPS))
    said = "Whether the server warns that externalIPs are deprecated, as it does since 1.36"
    wants = Warned("created", "externalIPs")
    yield check("external-ips.warning", RECORD, said, made, wants, "nothing", KEP_5707, features=EXTERNAL)
    made = chain("external-ips-loopback", create(type="ClusterIP", externalIPs=["127.0.0.1"]))
    said = "A loopback address is refused as an externalIP"
    wants = invalid("created", "spec.externalIPs")
    takes = "a service draws every node's own traffic"
    yield check(
        "external-ips.loopback", EXTENDED, said, made, wants, takes, API_EXTERNAL_IPS, VALIDATION, features=EXTERNAL
    )
    made = chain("external-ips-removed", create(**IPS, **LOCAL), merge("removed", externalIPs=None))
    said = "Without its externalIPs a ClusterIP Service has no externalTrafficPolicy any more"
    wants = taken("removed", policy=ABSENT, external_ips=ABSENT)
    stays = "a policy stays that the next update is refused for"
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
        "kept": "The annotation for source ranges is still taken, and is no field",
        "nodeport": "The annotation for source ranges is refused on a NodePort Service, as the field is",
        "prefix": "The annotation for source ranges is refused where it is no CIDR, as the field is",
        "field-wins": "Where the field has source ranges the annotation is not looked at",
    }
    for name, step, want in ways:
        made = chain(f"ranges-annotation-{name}", step)
        loses = "the oldest way to say who may come in is lost without a word, or nonsense passes"
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
    *external_names(),
    *announcements(),
    *others(),
)
