"""Checks of edits by clients that do not know the fields: policy and health-check node port survive. Data only."""

import json
from collections.abc import Iterator

from suites.compatibility.requirements import *

Checks = Iterator[Check]

LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
OURS = {**LB, **LOCAL, "internalTrafficPolicy": "Local"}
"""A Service of a client that knows all fields; a client that does not know them edits it."""

TARGET = 8080
CHANGED = {"target_port": TARGET}
"""The field that every edit changes, which proves that the edit took place."""

PORT = {"name": "tcp", "protocol": "TCP", "port": 80, "targetPort": TARGET}
HAD = Ref("created", HEALTH_PORT)
SET = {TARGET_PORT: TARGET}


def chain(name: str, *steps: Step) -> Chain:
    """Return a chain of requests; its name begins with this module's prefix."""
    return Chain(f"client-{name}", steps)


def _manifest(target: int) -> str:
    """Return kubectl's last-applied annotation of a manifest without a policy."""
    port = {"name": "tcp", "port": 80, "targetPort": target}
    return json.dumps({"apiVersion": "v1", "kind": "Service", "spec": {"ports": [port]}})


EDITS = {
    "update": ("A read-modify-write of another field", Step("edited", Verb.UPDATE, SET), UPDATES),
    "strategic": (
        "A strategic merge patch of another field",
        Step("edited", Verb.STRATEGIC, {"spec": {"ports": [{"port": 80, "targetPort": TARGET}]}}),
        API_ETP,
    ),
    "json-patch": (
        "A JSON patch of another field",
        Step("edited", Verb.JSON, [{"op": "replace", "path": "/spec/ports/0/targetPort", "value": TARGET}]),
        API_ETP,
    ),
    "merge": (
        "A JSON merge patch with ports but without a nodePort",
        Step("edited", Verb.MERGE, {"spec": {"ports": [PORT]}}),
        API_ETP,
    ),
    "replace": (
        "A replacement with the original manifest, without allocated values,",
        Step("edited", Verb.REPLACE, {"spec": {**OURS, "ports": [PORT]}}),
        REGISTRY,
    ),
    "apply": (
        "A server-side apply of another field by another field manager",
        Step("edited", Verb.APPLY, {"spec": {"ports": [PORT]}}, manager="esipp-other", force=True),
        SERVER_SIDE_APPLY,
    ),
    "kubectl-apply": (
        "A kubectl apply of manifests that never had a policy",
        Step(
            "edited",
            Verb.STRATEGIC,
            {
                "metadata": {"annotations": {LAST_APPLIED: _manifest(TARGET)}},
                "spec": {
                    "$setElementOrder/ports": [{"port": 80}],
                    "ports": [{"port": 80, "targetPort": TARGET}],
                },
            },
        ),
        KUBECTL_APPLY,
    ),
}


def edits_of_other_fields() -> Checks:
    """Yield checks that each kind of edit keeps the policies, the health-check node port and the nodePort."""
    for name, (said, edit, because) in EDITS.items():
        notes = {LAST_APPLIED: _manifest(8081)} if name == "kubectl-apply" else None
        made = chain(name, create(annotations=notes, **OURS), edit)
        given = (taken("edited", **CHANGED),)
        wants = taken("edited", policy="Local", internal="Local")
        forgets = "an edit by a client that does not know the field resets it"
        text = f"{said} keeps both policies"
        yield check(f"client.{name}.policy", CORE, text, made, wants, forgets, because, DESIGN_BACKWARD, given=given)
        wants = taken("edited", health_port=Same("created"))
        moves = "the load balancer probes a port on which no node listens any more"
        text = f"{said} keeps the health-check node port"
        yield check(f"client.{name}.health-port", CORE, text, made, wants, moves, because, API_HEALTH_PORT, given=given)
        wants = taken("edited", node_port=Same("created"), cluster_ips=Same("created"), balancer_class=UNSERVED_CLASS)
        text = f"{said} keeps nodePort, ClusterIPs and loadBalancerClass"
        breaks = "an unrelated edit interrupts clients of the Service"
        yield check(f"client.{name}.rest", CORE, text, made, wants, breaks, because, API_NODE_PORT, given=given)


def server_side_apply() -> Checks:
    """Yield checks of server-side apply: without conflict, with a conflict, with force, and with shared ownership."""
    others = {"metadata": {"labels": {"esipp-apply": "beside"}}, "spec": {"selector": {"esipp.dev/more": "yes"}}}
    mine = Step(
        "created", Verb.APPLY, {"spec": {**OURS, "ports": [{**PORT, "targetPort": 8081}]}}, manager="esipp-owner"
    )
    quiet = Step("edited", Verb.APPLY, others, manager="esipp-other")
    made = chain("apply-beside", mine, quiet)
    said = "A server-side apply that sets only its own fields keeps policy and health-check node port"
    wants = taken("edited", policy="Local", health_port=Same("created"), node_port=Same("created"))
    given = (Taken("edited", (("metadata.labels.esipp-apply", "beside"),)),)
    forgets = "an apply resets fields that it does not set"
    yield check("client.apply-beside", CORE, said, made, wants, forgets, SERVER_SIDE_APPLY, given=given)
    claims = {"spec": dict(CLUSTER)}
    refused = Step("claimed", Verb.APPLY, claims, manager="esipp-other", alone=True)
    made = chain("apply-conflict", mine, refused, Step("after", Verb.LOOK))
    said = "A server-side apply that sets another manager's policy without force reports a conflict"
    wants: tuple[Want, ...] = (Refused("claimed", (409,), ("Conflict",), ("externalTrafficPolicy",)),)
    steals = "two managers overwrite each other's policy unnoticed"
    yield check("client.apply-conflict", CORE, said, made, wants, steals, SERVER_SIDE_APPLY)
    said = "The conflict about a policy names the manager that owns it"
    wants = (Refused("claimed", (409,), ("Conflict",), ("esipp-owner",)),)
    yield check(
        "client.apply-conflict.words", EXTENDED, said, made, wants, "the message names no manager", SERVER_SIDE_APPLY
    )
    said = "A conflict about the policy leaves the Service unchanged"
    wants = (taken("after", policy="Local", health_port=Same("created"), node_port=Same("created")),)
    yield check(
        "client.apply-conflict.unchanged",
        CORE,
        said,
        made,
        wants,
        "the API server applies a part of the request",
        SERVER_SIDE_APPLY,
    )
    forced = Step("forced", Verb.APPLY, claims, manager="esipp-other", force=True)
    again = Step("again", Verb.APPLY, mine.body, manager="esipp-owner")
    made = chain("apply-forced", mine, forced, again)
    said = (
        "A server-side apply with force sets another manager's policy to Cluster and frees the health-check node port"
    )
    wants = (taken("forced", policy="Cluster", health_port=ABSENT, node_port=Same("created")),)
    yield check(
        "client.apply-forced",
        CORE,
        said,
        made,
        wants,
        "the API server ignores force, or applies a part of the request",
        SERVER_SIDE_APPLY,
    )
    said = "When the manager that lost the policy applies again, it gets a conflict"
    wants = (Refused("again", (409,), ("Conflict",), ("externalTrafficPolicy",)),)
    yield check("client.apply-forced.lost", CORE, said, made, wants, steals, SERVER_SIDE_APPLY)
    without = {name: value for name, value in mine.body["spec"].items() if name != "externalTrafficPolicy"}
    gives_up = Step("given-up", Verb.APPLY, {"spec": without}, manager="esipp-owner")
    made = chain("apply-given-up", mine, gives_up)
    said = (
        "When the only manager of a policy stops applying it, the policy becomes Cluster and the Service loses its "
        "health-check node port"
    )
    wants = (taken("given-up", policy="Cluster", health_port=ABSENT, node_port=Same("created")),)
    stays = "a policy that no manager requests remains, or a part of it"
    yield check("client.apply-given-up", CORE, said, made, wants, stays, SERVER_SIDE_APPLY, API_ETP)
    shares = Step("shared", Verb.APPLY, {"spec": dict(LOCAL)}, manager="esipp-other")
    made = chain("apply-shared", mine, shares, gives_up)
    said = "When one of two managers of a policy stops applying it, the policy remains"
    wants = (taken("given-up", policy="Local", health_port=Same("created")),)
    yield check(
        "client.apply-shared", CORE, said, made, wants, "the policy goes with the first manager", SERVER_SIDE_APPLY
    )


def updates_by_old_clients() -> Checks:
    """Yield checks of updates by a client older than the fields: its library drops them and writes the object back.

    An update replaces the whole object, so a missing optional field is an unset field. An unset policy defaults to
    Cluster. The API server restores allocated values that the Service still needs; with Cluster it needs no
    health-check node port.
    """
    both = (POLICY, HEALTH_PORT)

    def dropping(name: str, *fields: str, since: Step | None = None, then: tuple[Step, ...] = ()) -> Chain:
        edit = Step("edited", Verb.UPDATE, SET, drop=fields)
        return chain(name, since or create(**OURS), edit, *then)

    given = (taken("edited", **CHANGED),)
    made = dropping("drops-both", *both, then=(claim(HAD),))
    said = (
        "An update without policy and health-check node port succeeds: the policy becomes Cluster, and the Service "
        "loses the port"
    )
    wants = taken("edited", policy="Cluster", health_port=ABSENT)
    half = "old clients cannot edit the Service, or leave it with a part of Local"
    yield check("client.drops-both", CORE, said, made, wants, half, UPDATES, API_ETP, REGISTRY, given=given)
    said = "After an update without policy and health-check node port, another Service can claim the port at once"
    yield freed("client.drops-both", said, made, taken("edited", health_port=ABSENT))
    said = "An update without policy and health-check node port keeps nodePort and ClusterIPs"
    wants = taken("edited", node_port=Same("created"), cluster_ips=Same("created"))
    cut = "the update interrupts clients of the Service"
    yield check("client.drops-both.rest", CORE, said, made, wants, cut, API_NODE_PORT, REGISTRY, given=given)
    made = dropping("drops-policy", POLICY)
    said = (
        "An update with the health-check node port but without the policy succeeds: the policy becomes Cluster, and "
        "the Service loses the port"
    )
    wants = taken("edited", policy="Cluster", health_port=ABSENT)
    yield check("client.drops-policy", EXTENDED, said, made, wants, half, UPDATES, REGISTRY, given=given)
    made = dropping("drops-ports", HEALTH_PORT, NODE_PORT, "spec.clusterIP", CLUSTER_IPS)
    said = (
        "After an update without allocated values, the Service still has all of them, including the health-check node "
        "port"
    )
    wants = taken(
        "edited", policy="Local", health_port=Same("created"), node_port=Same("created"), cluster_ips=Same("created")
    )
    moves = "an edit of another field changes the ports"
    yield check("client.drops-allocated", CORE, said, made, wants, moves, API_HEALTH_PORT, REGISTRY, given=given)
    made = dropping("drops-internal", INTERNAL)
    said = (
        "An update without internalTrafficPolicy succeeds: the field defaults to Cluster, and externalTrafficPolicy "
        "does not change"
    )
    wants = taken("edited", internal="Cluster", policy="Local", health_port=Same("created"))
    mixed = "one policy changes with the other"
    yield check("client.drops-internal-policy", CORE, said, made, wants, mixed, UPDATES, API_ITP, KEP_2086, given=given)
    made = dropping("drops-class", CLASS)
    said = "The API server refuses an update without the loadBalancerClass, because the field is immutable"
    wants_refused = invalid("edited", CLASS)
    stolen = "an old client's edit hands the load balancer over to the cloud provider"
    yield check("client.drops-class", CORE, said, made, wants_refused, stolen, API_CLASS, KEP_1959, VALIDATION)
    off = create(**OURS, allocateLoadBalancerNodePorts=False)
    made = dropping("drops-allocate", ALLOCATE, since=off)
    said = (
        "An update without allocateLoadBalancerNodePorts succeeds: the field defaults to true, and the Service gets a "
        "nodePort"
    )
    wants = taken("edited", allocate=True, node_port=PRESENT, policy="Local", health_port=Same("created"))
    none = "the API server does not default a field that was set before"
    yield check(
        "client.drops-allocate", EXTENDED, said, made, wants, none, UPDATES, API_ALLOCATE, KEP_1864, given=given
    )
    stale = Step("edited", Verb.UPDATE, SET, since="created", alone=True)
    steps = (create(**LB, **CLUSTER), merge("meanwhile", **LOCAL), stale, Step("after", Verb.LOOK))
    made = chain("stale", *steps)
    said = "An update with the resourceVersion from before another client set Local reports a conflict"
    conflict = Refused("edited", (409,), ("Conflict",))
    undone = "a client with an old copy of the Service reverts the policy"
    yield check("client.stale", CORE, said, made, conflict, undone, UPDATES)
    said = (
        "An update with an outdated resourceVersion leaves policy and health-check node port as another client set them"
    )
    wants = taken("after", policy="Local", health_port=Same("meanwhile"))
    yield check("client.stale.unchanged", CORE, said, made, wants, undone, UPDATES)


CHECKS: tuple[Check, ...] = (*edits_of_other_fields(), *server_side_apply(), *updates_by_old_clients())
