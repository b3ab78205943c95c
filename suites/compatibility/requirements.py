"""Building blocks of API checks: Services, steps, and the functions that make a check."""

from typing import Any

from esipp.base.labels import UNSERVED_CLASS
from esipp.checks.api import (
    AFFINITY,
    AFFINITY_SECONDS,
    ALLOCATE,
    ANNOTATION,
    CLASS,
    CLUSTER_IP,
    CLUSTER_IPS,
    FAMILIES,
    FAMILY_POLICY,
    HEALTH_PORT,
    INGRESS,
    INTERNAL,
    NODE_PORT,
    POLICY,
    RANGES,
    TARGET_PORT,
    Addresses,
    Chain,
    Is,
    Quiet,
    Ref,
    Refused,
    Requests,
    Same,
    Step,
    Taken,
    Verb,
    Want,
    Warned,
    say_step,
    say_want,
)
from esipp.checks.check import Check, Level
from suites.references import *

SUITE = "compatibility"
CORE, EXTENDED, RECORD = Level.CORE, Level.EXTENDED, Level.RECORD

# ------------------------------------------------------------------------------------------------------- services
LOCAL, CLUSTER = {"externalTrafficPolicy": "Local"}, {"externalTrafficPolicy": "Cluster"}
LB = {"type": "LoadBalancer", "loadBalancerClass": UNSERVED_CLASS}
NODE_PORTS, INNER = {"type": "NodePort"}, {"type": "ClusterIP"}
ANOTHER_CLASS = "esipp.dev/somebody"
BALANCED_IP = "192.0.2.80"
"""A documentation address, so that no load balancer announces it and no client dials it."""

SUPPORTED = 'supported values: "Cluster", "Local"'
ONLY_WHERE_NEEDED = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'"
ONLY_EXTERNAL = "may only be set for externally-accessible services"
ONLY_BALANCED = "may only be used when `type` is 'LoadBalancer'"

ABSENT, PRESENT = Is.ABSENT, Is.PRESENT


# ---------------------------------------------------------------------------------------------------------- steps
def create(name: str = "created", of: str = "", annotations: dict[str, Any] | None = None, **spec: Any) -> Step:
    """Return a step that creates a Service."""
    return Step(name, Verb.CREATE, {"spec": spec, **({"annotations": annotations} if annotations else {})}, of)


def merge(name: str, alone: bool = False, **spec: Any) -> Step:
    """Return a step that patches the spec with a JSON merge patch."""
    return Step(name, Verb.MERGE, {"spec": spec}, alone=alone)


def claim(port: Ref) -> Step:
    """Return a step in which another Service requests a health-check node port, and no other port.

    API servers draw nodePorts before they allocate the health-check node port, and may draw just this one: they refuse
    it then as "already allocated" (1.36.3: 4 of 400 Services with 40 nodePorts, and none of 400 without).
    """
    spec = {**LB, **LOCAL, "allocateLoadBalancerNodePorts": False, "healthCheckNodePort": port}
    return Step("claimed", Verb.CREATE, {"spec": spec}, "heir")


FREE = Step("free", Verb.FREE)
FREE_PORT = Ref("free", "port")
BALANCED = Step("balanced", Verb.STATUS, [{"ip": BALANCED_IP}])


# ------------------------------------------------------------------------------------------------------------ checks
def taken(step: str, **fields: Any) -> Taken:
    """Return what must hold: the API server accepts the step, and the fields have these values (see ``_PATHS``)."""
    return Taken(step, tuple((_PATHS[name], value) for name, value in fields.items()))


_PATHS = {
    "policy": POLICY,
    "internal": INTERNAL,
    "health_port": HEALTH_PORT,
    "node_port": NODE_PORT,
    "balancer_class": CLASS,
    "allocate": ALLOCATE,
    "ranges": RANGES,
    "ingress": INGRESS,
    "cluster_ip": CLUSTER_IP,
    "cluster_ips": CLUSTER_IPS,
    "families": FAMILIES,
    "family_policy": FAMILY_POLICY,
    "target_port": TARGET_PORT,
    "affinity": AFFINITY,
    "seconds": AFFINITY_SECONDS,
    "ip_mode": f"{INGRESS}.0.ipMode",
    "external_ips": "spec.externalIPs",
    "distribution": "spec.trafficDistribution",
    "external_name": "spec.externalName",
}


def invalid(step: str, *says: str) -> Refused:
    """Return what must hold: validation refuses the step, with a message that contains these texts."""
    return Refused(step, says=says)


SINCE = (
    ("loadBalancerClass", (1, 22), KEP_1959),
    ("ipFamilyPolicy", (1, 20), KEP_563),
    ("internalTrafficPolicy", (1, 22), KEP_2086),
    ("allocateLoadBalancerNodePorts", (1, 22), KEP_1864),
    ("externalIPs", (1, 29), EXTERNAL_IPS_POLICY),
    ("ipMode", (1, 30), KEP_1860),
    ("status.loadBalancer.ingress", (1, 29), ONLY_BALANCED_ANNOUNCED),
    ("trafficDistribution", (1, 31), KEP_4444),
    ("apply-patch", (1, 16), KEP_555),
    ("replace {", (1, 23), CARRIED_OVER),
    (" without ", (1, 23), CARRIED_OVER),
    ("externalTrafficPolicy", (1, 7), FIELDS_SINCE_1_7),
    ("external-traffic", (1, 8), ANNOTATIONS_REMOVED),
)
"""The Kubernetes version that introduced each request or field; the latest one counts."""


def since(said: str) -> tuple[str, Reference | None]:
    """Return the first Kubernetes version that knows these requests and fields, and its reference."""
    found = [(version, why) for name, version, why in SINCE if name in said]
    if not found:
        return "", None
    version, why = max(found, key=lambda each: (each[0], each[1].title))
    return f"{version[0]}.{version[1]}", why


def check(
    name: str,
    level: Level,
    requirement: str,
    chain: Chain,
    wants: Want | tuple[Want, ...],
    fails_if: str,
    *references: Reference,
    given: tuple[Want, ...] = (),
    features: frozenset[str] = frozenset(),
) -> Check[Requests]:
    """Return one check of the answers to a chain of requests."""
    wants = wants if isinstance(wants, tuple) else (wants,)
    expected, asked = (
        "; ".join(say_want(want) for want in wants),
        "; then ".join(say_step(step) for step in chain.steps),
    )
    version, why = since("; ".join([*map(say_step, chain.steps), expected]))
    writes_status = any(step.verb is Verb.STATUS for step in chain.steps)
    return Check(
        id=f"api.{name}",
        requirement=f"{requirement}.",
        level=level,
        suite=SUITE,
        references=references,
        features=features | ({"rights.services-status"} if writes_status else frozenset()),
        subject=Requests(name, chain, wants, given),
        expected=expected,
        fails_if=fails_if,
        asked=asked,
        since=version,
        since_why=why,
    )


def freed(name: str, requirement: str, chain: Chain, after: Taken) -> Check[Requests]:
    """Return the check that another Service can claim a health-check node port, which a step frees."""
    wants = taken("claimed", health_port=Same("created"))
    kept = "the API server does not free the port"
    return check(
        f"{name}.freed", Level.CORE, requirement, chain, wants, kept, API_HEALTH_PORT, REGISTRY, given=(after,)
    )


def refusal(
    name: str,
    requirement: str,
    chain: Chain,
    step: str,
    field: str,
    words: str,
    fails_if: str,
    *references: Reference,
    features: frozenset[str] = frozenset(),
) -> tuple[Check, Check]:
    """Return two checks of one refusal: that it names the field, and that its message says why."""
    return (
        check(name, CORE, requirement, chain, invalid(step, field), fails_if, *references, features=features),
        check(
            f"{name}.words",
            EXTENDED,
            f"{requirement}, and the message says why",
            chain,
            invalid(step, words),
            "the message of the refusal does not say why",
            VALIDATION,
            features=features,
        ),
    )
