"""A Service becomes another one: which fields are defaulted, cleared and kept, which ports freed. Data only."""

from collections.abc import Iterator

from suites.compatibility.requirements import *

Rows = Iterator[Check]

KEPT = {"internalTrafficPolicy": "Local", "sessionAffinity": "ClientIP"}
"""What every Service of this page has besides, which no change concerns."""

TYPES = {"clusterip": INNER, "nodeport": NODE_PORTS, "loadbalancer": LB}
WORDS = {"clusterip": "ClusterIP", "nodeport": "NodePort", "loadbalancer": "LoadBalancer"}
HAD = Ref("created", HEALTH_PORT)
UNUSABLE = "what is left of the old type makes the next update fail, or goes on to draw traffic"


def chain(name: str, *steps: Step) -> Chain:
    """A chain of this page."""
    return Chain(f"change-{name}", steps)


def to_type(kind: str, **spec: object) -> Step:
    """The Service becomes another type; whoever asks for a load balancer names who serves it."""
    return merge("changed", **TYPES[kind], **spec)


def from_one_type_to_another() -> Rows:
    """All six directions, with Local and with Cluster."""
    for before in TYPES:
        for after in TYPES:
            if before != after:
                for policy in ("Local", "Cluster"):
                    yield from _changed(before, after, policy)


def _changed(before: str, after: str, policy: str) -> Rows:
    """One direction: a ClusterIP Service has no policy, so that it is given with the new type, or defaulted."""
    name = f"{before}-to-{after}.{policy.lower()}"
    chosen = {"externalTrafficPolicy": policy}
    first = create(**TYPES[before], **KEPT, **({} if before == "clusterip" else chosen))
    then = to_type(after, **(chosen if before == "clusterip" and policy == "Local" else {}))
    announced = (BALANCED,) if before == "loadbalancer" else ()
    heir = (claim(HAD),) if before == "loadbalancer" and policy == "Local" else ()
    made = chain(name.replace(".", "-"), first, *announced, then, *heir)
    who = f"A {WORDS[before]} Service {'without a policy' if before == 'clusterip' else f'with {policy}'}"
    who += (
        f" that becomes a {WORDS[after]} Service{' with Local' if before == 'clusterip' and policy == 'Local' else ''}"
    )

    def say(aspect: str, what: str, tripped_by: str, *because: str, **fields: object) -> Check:
        wants = taken("changed", **fields)
        return check(f"change.{name}.{aspect}", CORE, f"{who} {what}", made, wants, tripped_by, *because, REGISTRY)

    external = after != "clusterip"
    if external:
        kept = "has Cluster" if before == "clusterip" and policy == "Cluster" else f"has {policy}"
        lost = "the policy is lost on the way: the source is rewritten, or traffic stops at bare nodes"
        yield say("policy", f"{kept}", lost, API_ETP, policy=policy)
    else:
        yield say("policy", "has no externalTrafficPolicy any more", UNUSABLE, API_ETP, policy=ABSENT)
    needs_port = after == "loadbalancer" and policy == "Local"
    what = "has a health-check node port from then on" if needs_port else "has no health-check node port"
    either = "the port is not allocated when it is needed, or stays when it is not"
    yield say("health-port", what, either, API_HEALTH_PORT, health_port=PRESENT if needs_port else ABSENT)
    if before != "clusterip" and external:
        cut = "clients that dial the old nodePort are cut off"
        yield say("node-port", "keeps its nodePort", cut, API_NODE_PORT, node_port=Same("created"))
    else:
        what = "has a nodePort" if external else "has no nodePort any more"
        yield say("node-port", what, UNUSABLE, API_NODE_PORT, node_port=PRESENT if external else ABSENT)
    if after == "loadbalancer":
        what = "has the class that it asks for, and nodePorts allocated by default"
        lost = "nobody serves it, or the wrong one"
        yield say(
            "balancer", what, lost, API_CLASS, KEP_1959, API_ALLOCATE, KEP_1864, allocate=True, balancer_class=NOBODY
        )
    elif before == "loadbalancer":
        what = "has neither loadBalancerClass nor allocateLoadBalancerNodePorts any more"
        none = {"allocate": ABSENT, "balancer_class": ABSENT}
        yield say("balancer", what, UNUSABLE, API_CLASS, KEP_1959, API_ALLOCATE, KEP_1864, **none)
        wants = taken("changed", ingress=ABSENT)
        yield check(
            f"change.{name}.status", CORE, f"{who} is announced nowhere any more", made, wants,
            "the service proxy goes on to take traffic for the old address", API_STATUS, REGISTRY,
            given=(taken("balanced", ingress=PRESENT),),
        )  # fmt: skip
    if heir:
        wants = taken("claimed", health_port=Same("created"))
        said = f"{who} gives its health-check node port back: another service may have it at once"
        given = (taken("changed", health_port=ABSENT),)
        yield check(
            f"change.{name}.freed", CORE, said, made, wants, "the port leaks", API_HEALTH_PORT, REGISTRY, given=given
        )
    same = "its addresses change under the clients' feet, or clients that stick to a backend lose it"
    what = "keeps its ClusterIPs, internalTrafficPolicy and sessionAffinity"
    rest = {"cluster_ips": Same("created"), "internal": "Local", "affinity": "ClientIP"}
    yield say("rest", what, same, API_ITP, KEP_2086, API_AFFINITY, **rest)


def from_policy_to_policy() -> Rows:
    """Local → Cluster → Local, on load balancers and NodePort Services."""
    away, back = merge("away", **CLUSTER), merge("back", **LOCAL)
    made = chain("round-trip", create(**LB, **LOCAL, **KEPT), away, claim(HAD), back)
    said = "A load balancer that leaves Local has Cluster and no health-check node port, and keeps all else"
    rest = {"node_port": Same("created"), "cluster_ips": Same("created"), "internal": "Local", "balancer_class": NOBODY}
    wants = taken("away", policy="Cluster", health_port=ABSENT, **rest)
    lost = "other fields change with the policy"
    yield check("change.round-trip.away", CORE, said, made, wants, lost, API_ETP, API_HEALTH_PORT, DESIGN_BACKWARD)
    said = "The health-check node port of a load balancer that left Local may be another service's at once"
    wants = taken("claimed", health_port=Same("created"))
    given = (taken("away", health_port=ABSENT),)
    yield check(
        "change.round-trip.freed", CORE, said, made, wants, "the port leaks", API_HEALTH_PORT, REGISTRY, given=given
    )
    said = "A load balancer that comes back to Local has Local and a health-check node port again, and keeps all else"
    wants = taken("back", policy="Local", health_port=PRESENT, **rest)
    yield check("change.round-trip.back", CORE, said, made, wants, lost, API_ETP, API_HEALTH_PORT, DESIGN_BACKWARD)
    again = merge("back", **LOCAL, healthCheckNodePort=HAD)
    made = chain("round-trip-same-port", create(**LB, **LOCAL), away, again)
    said = "A load balancer that comes back to Local with the health-check node port that it had gets it again"
    wants = taken("back", policy="Local", health_port=Same("created"))
    ignored = "the choice is ignored, or the port is thought to be taken by the service itself"
    yield check("change.round-trip.same-port", CORE, said, made, wants, ignored, API_HEALTH_PORT, REGISTRY)
    chosen = merge("back", **LOCAL, healthCheckNodePort=FREE_PORT)
    made = chain("round-trip-chosen", FREE, create(**LB, **CLUSTER), chosen)
    said = "A load balancer that comes to Local with a health-check node port of its choice gets that one"
    wants = Taken("back", ((POLICY, "Local"), (HEALTH_PORT, FREE_PORT)))
    yield check(
        "change.to-local.chosen-port", CORE, said, made, wants, "the choice is ignored", API_HEALTH_PORT, REGISTRY
    )
    made = chain("round-trip-taken", create("first", "first", **LB, **LOCAL), create(**LB, **CLUSTER),
                 merge("back", **LOCAL, healthCheckNodePort=Ref("first", HEALTH_PORT)))  # fmt: skip
    said = "A load balancer that comes to Local with another service's health-check node port is refused"
    wants = Refused("back", (422, 500), ("Invalid", "InternalError"), ("HealthCheck",))
    yield check(
        "change.to-local.taken-port", CORE, said, made, wants, "a port is given to two", API_HEALTH_PORT, REGISTRY
    )
    made = chain("round-trip-nodeport", create(**NODE_PORTS, **LOCAL, **KEPT), away, back)
    rest = {"node_port": Same("created"), "cluster_ips": Same("created"), "internal": "Local", "health_port": ABSENT}
    for step, policy in (("away", "Cluster"), ("back", "Local")):
        word = "leaves" if step == "away" else "comes back to"
        said = f"A NodePort Service that {word} Local has {policy}, and keeps its nodePort and all else"
        wants = taken(step, policy=policy, **rest)
        yield check(f"change.round-trip-nodeport.{step}", CORE, said, made, wants, lost, API_ETP, DESIGN_BACKWARD)
    made = chain("policy-removed", create(**LB, **LOCAL), merge("removed", externalTrafficPolicy=None), claim(HAD))
    said = "A policy that is taken out by a patch is Cluster from then on, without a health-check node port"
    wants = taken("removed", policy="Cluster", health_port=ABSENT)
    half = "the service is left with half of Local"
    yield check("change.policy-removed", CORE, said, made, wants, half, API_ETP, REGISTRY)
    said = "The health-check node port of a policy that is taken out may be another service's at once"
    wants = taken("claimed", health_port=Same("created"))
    given = (taken("removed", health_port=ABSENT),)
    yield check(
        "change.policy-removed.freed", CORE, said, made, wants, "the port leaks", API_HEALTH_PORT, REGISTRY, given=given
    )
    made = chain("deleted", create(**LB, **LOCAL), Step("deleted", Verb.DELETE), claim(HAD))
    said = "The health-check node port of a deleted service may be another service's at once"
    given = (Taken("deleted"),)
    yield check(
        "change.deleted.freed", CORE, said, made, wants, "the port leaks", API_HEALTH_PORT, REGISTRY, given=given
    )


def to_external_name() -> Rows:
    """A load balancer becomes an alias: nothing is left of it."""
    edit = merge("changed", type="ExternalName", externalName="esipp.example", clusterIP=None)
    made = chain("loadbalancer-to-externalname", create(**LB, **LOCAL, **KEPT), BALANCED, edit, claim(HAD))
    said = "A load balancer with Local that becomes an ExternalName Service has nothing of either left"
    none = {"policy": ABSENT, "health_port": ABSENT, "node_port": ABSENT, "balancer_class": ABSENT, "ingress": ABSENT}
    wants = taken("changed", **none, cluster_ips=ABSENT, internal=ABSENT)
    yield check("change.loadbalancer-to-externalname", CORE, said, made, wants, UNUSABLE, API_EXTERNAL_NAME, REGISTRY)
    said = "A load balancer that becomes an ExternalName Service gives its health-check node port back"
    wants = taken("claimed", health_port=Same("created"))
    name = "change.loadbalancer-to-externalname.freed"
    given = (taken("changed", health_port=ABSENT),)
    yield check(name, CORE, said, made, wants, "the port leaks", API_HEALTH_PORT, REGISTRY, given=given)


def of_two_minds() -> Rows:
    """What no longer applies is cleared only if the user did not change it in the same update: that is refused."""
    silently = "what the user asks for is dropped without a word"
    local, plain = create(**LB, **LOCAL), create(**NODE_PORTS, **LOCAL)
    ways = (
        ("leave-local-with-port", merge("changed", **CLUSTER, healthCheckNodePort=FREE_PORT), local, HEALTH_PORT,
         "A health-check node port that is changed while Local is left is refused"),
        ("leave-type-with-port", to_type("nodeport", healthCheckNodePort=FREE_PORT, loadBalancerClass=None), local,
         HEALTH_PORT, "A health-check node port that is changed while the type is left is refused"),
        ("leave-type-with-policy", to_type("clusterip", **CLUSTER), plain, POLICY,
         "A policy that is changed while the type is left that needs one is refused"),
        ("leave-type-with-node-port", to_type("clusterip", ports=[{"name": "tcp", "port": 80, "nodePort": FREE_PORT}]),
         plain, "nodePort", "A nodePort that is changed while the type is left that needs one is refused"),
        ("leave-type-with-class", to_type("nodeport", loadBalancerClass=ANOTHER_CLASS), local, CLASS,
         "A loadBalancerClass that is changed while the type is left is refused"),
    )  # fmt: skip
    for name, edit, first, field, said in ways:
        made = chain(name, FREE, first, edit)
        yield check(f"change.{name}", EXTENDED, said, made, invalid("changed", field), silently, REGISTRY, VALIDATION)


CHECKS: tuple[Check, ...] = (
    *from_one_type_to_another(),
    *from_policy_to_policy(),
    *to_external_name(),
    *of_two_minds(),
)
