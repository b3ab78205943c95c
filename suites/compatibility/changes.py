"""Checks of changes to a Service: which fields the API server defaults, clears and keeps, and which ports it frees."""

from collections.abc import Iterator

from suites.compatibility.requirements import *

Checks = Iterator[Check]

KEPT = {"internalTrafficPolicy": "Local", "sessionAffinity": "ClientIP"}
"""Fields of every Service of this module that no change may affect."""

TYPES = {"clusterip": INNER, "nodeport": NODE_PORTS, "loadbalancer": LB}
TYPE_NAMES = {"clusterip": "ClusterIP", "nodeport": "NodePort", "loadbalancer": "LoadBalancer"}
HAD = Ref("created", HEALTH_PORT)
UNUSABLE = "leftovers of the old type make the next update fail, or still attract traffic"


def chain(name: str, *steps: Step) -> Chain:
    """Return a chain of requests; its name begins with this module's prefix."""
    return Chain(f"change-{name}", steps)


def to_type(kind: str, **spec: object) -> Step:
    """Return a step that changes the type; a load balancer names its loadBalancerClass."""
    return merge("changed", **TYPES[kind], **spec)


def from_one_type_to_another() -> Checks:
    """Yield checks of all six changes of type, with Local and with Cluster."""
    for before in TYPES:
        for after in TYPES:
            if before != after:
                for policy in ("Local", "Cluster"):
                    yield from _changed(before, after, policy)


def _changed(before: str, after: str, policy: str) -> Checks:
    """Yield checks of one change of type. A ClusterIP Service has no policy: the change sets it, or it defaults."""
    name = f"{before}-to-{after}.{policy.lower()}"
    chosen = {"externalTrafficPolicy": policy}
    first = create(**TYPES[before], **KEPT, **({} if before == "clusterip" else chosen))
    then = to_type(after, **(chosen if before == "clusterip" and policy == "Local" else {}))
    announced = (BALANCED,) if before == "loadbalancer" else ()
    heir = (claim(HAD),) if before == "loadbalancer" and policy == "Local" else ()
    made = chain(name.replace(".", "-"), first, *announced, then, *heir)
    origin = f"a {TYPE_NAMES[before]} Service" + ("" if before == "clusterip" else f" with {policy}")
    target = f"a {TYPE_NAMES[after]} Service" + (" with Local" if before == "clusterip" and policy == "Local" else "")
    change = f"When {origin} becomes {target}"

    def say(aspect: str, what: str, fails_if: str, *because: str, **fields: object) -> Check:
        wants = taken("changed", **fields)
        return check(f"change.{name}.{aspect}", CORE, f"{change}, {what}", made, wants, fails_if, *because, REGISTRY)

    external = after != "clusterip"
    if external:
        lost = "the change loses the policy: nodes rewrite the source, or nodes without local endpoints drop traffic"
        yield say("policy", f"its externalTrafficPolicy is {policy}", lost, API_ETP, policy=policy)
    else:
        yield say("policy", "it loses its externalTrafficPolicy", UNUSABLE, API_ETP, policy=ABSENT)
    needs_port = after == "loadbalancer" and policy == "Local"
    what = f"it {'gets a' if needs_port else 'has no'} health-check node port"
    either = "the API server does not allocate a port that is needed, or keeps one that is not"
    yield say("health-port", what, either, API_HEALTH_PORT, health_port=PRESENT if needs_port else ABSENT)
    if before != "clusterip" and external:
        cut = "clients of the old nodePort lose their connection"
        yield say("node-port", "it keeps its nodePort", cut, API_NODE_PORT, node_port=Same("created"))
    else:
        what = "it gets a nodePort" if external else "it loses its nodePort"
        yield say("node-port", what, UNUSABLE, API_NODE_PORT, node_port=PRESENT if external else ABSENT)
    if after == "loadbalancer":
        what = "it has the requested loadBalancerClass, and allocateLoadBalancerNodePorts is true"
        lost = "no load balancer serves it, or the wrong one does"
        yield say(
            "balancer",
            what,
            lost,
            API_CLASS,
            KEP_1959,
            API_ALLOCATE,
            KEP_1864,
            allocate=True,
            balancer_class=UNSERVED_CLASS,
        )
    elif before == "loadbalancer":
        what = "it loses loadBalancerClass and allocateLoadBalancerNodePorts"
        none = {"allocate": ABSENT, "balancer_class": ABSENT}
        yield say("balancer", what, UNUSABLE, API_CLASS, KEP_1959, API_ALLOCATE, KEP_1864, **none)
        wants = taken("changed", ingress=ABSENT)
        yield check(
            f"change.{name}.status", CORE, f"{change}, it loses its load balancer status", made, wants,
            "the service proxy still accepts traffic for the old address", API_STATUS, REGISTRY,
            given=(taken("balanced", ingress=PRESENT),),
        )  # fmt: skip
    if heir:
        said = f"{change}, another Service can claim its health-check node port at once"
        yield freed(f"change.{name}", said, made, taken("changed", health_port=ABSENT))
    same = "its addresses change while clients use them, or clients lose their session affinity"
    what = "it keeps its ClusterIPs, internalTrafficPolicy and sessionAffinity"
    rest = {"cluster_ips": Same("created"), "internal": "Local", "affinity": "ClientIP"}
    yield say("rest", what, same, API_ITP, KEP_2086, API_AFFINITY, **rest)


def from_policy_to_policy() -> Checks:
    """Yield checks of changes from Local to Cluster and back, on load balancers and NodePort Services."""
    away, back = merge("away", **CLUSTER), merge("back", **LOCAL)
    made = chain("round-trip", create(**LB, **LOCAL, **KEPT), away, claim(HAD), back)
    said = (
        "When a LoadBalancer Service changes to Cluster, it loses its health-check node port and keeps all other fields"
    )
    rest = {
        "node_port": Same("created"),
        "cluster_ips": Same("created"),
        "internal": "Local",
        "balancer_class": UNSERVED_CLASS,
    }
    wants = taken("away", policy="Cluster", health_port=ABSENT, **rest)
    lost = "a change of the policy changes other fields"
    yield check("change.round-trip.away", CORE, said, made, wants, lost, API_ETP, API_HEALTH_PORT, DESIGN_BACKWARD)
    said = (
        "When a LoadBalancer Service changes to Cluster, another Service can claim its health-check node port at once"
    )
    yield freed("change.round-trip", said, made, taken("away", health_port=ABSENT))
    said = "When a LoadBalancer Service returns to Local, it gets a health-check node port and keeps all other fields"
    wants = taken("back", policy="Local", health_port=PRESENT, **rest)
    yield check("change.round-trip.back", CORE, said, made, wants, lost, API_ETP, API_HEALTH_PORT, DESIGN_BACKWARD)
    again = merge("back", **LOCAL, healthCheckNodePort=HAD)
    made = chain("round-trip-same-port", create(**LB, **LOCAL), away, again)
    said = (
        "When a LoadBalancer Service returns to Local and requests its former health-check node port, it gets that port"
    )
    wants = taken("back", policy="Local", health_port=Same("created"))
    ignored = "the API server ignores the request, or believes that the Service itself still holds the port"
    yield check("change.round-trip.same-port", CORE, said, made, wants, ignored, API_HEALTH_PORT, REGISTRY)
    chosen = merge("back", **LOCAL, healthCheckNodePort=FREE_PORT)
    made = chain("round-trip-chosen", FREE, create(**LB, **CLUSTER), chosen)
    said = "When a LoadBalancer Service changes to Local and requests a health-check node port, it gets that port"
    wants = Taken("back", ((POLICY, "Local"), (HEALTH_PORT, FREE_PORT)))
    yield check(
        "change.to-local.chosen-port",
        CORE,
        said,
        made,
        wants,
        "the API server ignores the request",
        API_HEALTH_PORT,
        REGISTRY,
    )
    made = chain("round-trip-taken", create("first", "first", **LB, **LOCAL), create(**LB, **CLUSTER),
                 merge("back", **LOCAL, healthCheckNodePort=Ref("first", HEALTH_PORT)))  # fmt: skip
    said = "The API server refuses a change to Local with another Service's health-check node port"
    wants = Refused("back", (422, 500), ("Invalid", "InternalError"), ("HealthCheck",))
    yield check(
        "change.to-local.taken-port",
        CORE,
        said,
        made,
        wants,
        "the API server gives one port to two Services",
        API_HEALTH_PORT,
        REGISTRY,
    )
    made = chain("round-trip-nodeport", create(**NODE_PORTS, **LOCAL, **KEPT), away, back)
    rest = {"node_port": Same("created"), "cluster_ips": Same("created"), "internal": "Local", "health_port": ABSENT}
    for step, policy in (("away", "Cluster"), ("back", "Local")):
        word = "changes" if step == "away" else "returns"
        said = f"When a NodePort Service {word} to {policy}, it keeps its nodePort and all other fields"
        wants = taken(step, policy=policy, **rest)
        yield check(f"change.round-trip-nodeport.{step}", CORE, said, made, wants, lost, API_ETP, DESIGN_BACKWARD)
    made = chain("policy-removed", create(**LB, **LOCAL), merge("removed", externalTrafficPolicy=None), claim(HAD))
    said = (
        "When a patch removes externalTrafficPolicy, the policy defaults to Cluster and the Service loses its "
        "health-check node port"
    )
    wants = taken("removed", policy="Cluster", health_port=ABSENT)
    half = "the Service keeps a part of Local"
    yield check("change.policy-removed", CORE, said, made, wants, half, API_ETP, REGISTRY)
    said = "When a patch removes externalTrafficPolicy, another Service can claim the health-check node port at once"
    yield freed("change.policy-removed", said, made, taken("removed", health_port=ABSENT))
    made = chain("deleted", create(**LB, **LOCAL), Step("deleted", Verb.DELETE), claim(HAD))
    said = "Another Service can claim the health-check node port of a deleted Service at once"
    yield freed("change.deleted", said, made, Taken("deleted"))


def to_external_name() -> Checks:
    """Yield checks of a load balancer that becomes an ExternalName Service: all its fields are cleared."""
    edit = merge("changed", type="ExternalName", externalName="esipp.example", clusterIP=None)
    made = chain("loadbalancer-to-externalname", create(**LB, **LOCAL, **KEPT), BALANCED, edit, claim(HAD))
    said = (
        "When a LoadBalancer Service with Local becomes an ExternalName Service, it loses all fields of its policy and "
        "type"
    )
    none = {"policy": ABSENT, "health_port": ABSENT, "node_port": ABSENT, "balancer_class": ABSENT, "ingress": ABSENT}
    wants = taken("changed", **none, cluster_ips=ABSENT, internal=ABSENT)
    yield check("change.loadbalancer-to-externalname", CORE, said, made, wants, UNUSABLE, API_EXTERNAL_NAME, REGISTRY)
    said = (
        "When a LoadBalancer Service becomes an ExternalName Service, another Service can claim its health-check node "
        "port"
    )
    yield freed("change.loadbalancer-to-externalname", said, made, taken("changed", health_port=ABSENT))


def contradictions() -> Checks:
    """Yield checks of updates that set a field which no longer applies: the API server refuses them."""
    silently = "the API server drops the requested value silently"
    local, plain = create(**LB, **LOCAL), create(**NODE_PORTS, **LOCAL)
    ways = (
        ("leave-local-with-port", merge("changed", **CLUSTER, healthCheckNodePort=FREE_PORT), local, HEALTH_PORT,
         "The API server refuses to change the health-check node port in an update to Cluster"),
        ("leave-type-with-port", to_type("nodeport", healthCheckNodePort=FREE_PORT, loadBalancerClass=None), local,
         HEALTH_PORT, "The API server refuses to change the health-check node port in an update to type NodePort"),
        ("leave-type-with-policy", to_type("clusterip", **CLUSTER), plain, POLICY,
         "The API server refuses to change externalTrafficPolicy in an update to type ClusterIP"),
        ("leave-type-with-node-port", to_type("clusterip", ports=[{"name": "tcp", "port": 80, "nodePort": FREE_PORT}]),
         plain, "nodePort", "The API server refuses to change a nodePort in an update to type ClusterIP"),
        ("leave-type-with-class", to_type("nodeport", loadBalancerClass=ANOTHER_CLASS), local, CLASS,
         "The API server refuses to change loadBalancerClass in an update to type NodePort"),
    )  # fmt: skip
    for name, edit, first, field, said in ways:
        made = chain(name, FREE, first, edit)
        yield check(f"change.{name}", EXTENDED, said, made, invalid("changed", field), silently, REGISTRY, VALIDATION)


CHECKS: tuple[Check, ...] = (
    *from_one_type_to_another(),
    *from_policy_to_policy(),
    *to_external_name(),
    *contradictions(),
)
