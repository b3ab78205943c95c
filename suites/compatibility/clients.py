"""Clients that do not know the fields: whatever they edit, policy and health-check node port survive. Data only."""

import json
from collections.abc import Iterator

from suites.compatibility.requirements import *

Rows = Iterator[Check]

LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
OURS = {**LB, **LOCAL, "internalTrafficPolicy": "Local"}
"""A Service made by somebody who knows all fields; then somebody edits it who does not."""

TARGET = 8080
SEEN = {"target_port": TARGET}
"""What every edit changes, so that it is known to have happened."""

PORT = {"name": "tcp", "protocol": "TCP", "port": 80, "targetPort": TARGET}
HAD = Ref("created", HEALTH_PORT)
SET = {TARGET_PORT: TARGET}


def chain(name: str, *steps: Step) -> Chain:
    """A chain of this page."""
    return Chain(f"client-{name}", steps)


def _manifest(target: int) -> str:
    """What kubectl keeps of a manifest that was applied by somebody who knows no policy."""
    port = {"name": "tcp", "port": 80, "targetPort": target}
    return json.dumps({"apiVersion": "v1", "kind": "Service", "spec": {"ports": [port]}})


EDITS = {
    "update": ("A read-modify-write of something else", Step("edited", Verb.UPDATE, SET), UPDATES),
    "strategic": (
        "A strategic merge patch of something else",
        Step("edited", Verb.STRATEGIC, {"spec": {"ports": [{"port": 80, "targetPort": TARGET}]}}),
        API_ETP,
    ),
    "json-patch": (
        "A JSON patch of something else",
        Step("edited", Verb.JSON, [{"op": "replace", "path": "/spec/ports/0/targetPort", "value": TARGET}]),
        API_ETP,
    ),
    "merge": (
        "A JSON merge patch of something else, whose ports name no nodePort,",
        Step("edited", Verb.MERGE, {"spec": {"ports": [PORT]}}),
        API_ETP,
    ),
    "replace": (
        "Writing the manifest again, without what was allocated,",
        Step("edited", Verb.REPLACE, {"spec": {**OURS, "ports": [PORT]}}),
        REGISTRY,
    ),
    "apply": (
        "A server-side apply by another manager, of something else,",
        Step("edited", Verb.APPLY, {"spec": {"ports": [PORT]}}, manager="esipp-other", force=True),
        SERVER_SIDE_APPLY,
    ),
    "kubectl-apply": (
        "What kubectl apply sends for a manifest without a policy, now and before,",
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


def who_edits_something_else() -> Rows:
    """Each way to edit: the policies, the health-check node port, the nodePort."""
    for name, (said, edit, because) in EDITS.items():
        notes = {LAST_APPLIED: _manifest(8081)} if name == "kubectl-apply" else None
        made = chain(name, create(annotations=notes, **OURS), edit)
        given = (taken("edited", **SEEN),)
        wants = taken("edited", policy="Local", internal="Local")
        forgets = "an edit by a client that does not know the field resets it"
        text = f"{said} keeps both policies"
        yield check(f"client.{name}.policy", CORE, text, made, wants, forgets, because, DESIGN_BACKWARD, given=given)
        wants = taken("edited", health_port=Same("created"))
        moves = "the load balancer asks a port where nobody listens any more"
        text = f"{said} keeps the health-check node port"
        yield check(f"client.{name}.health-port", CORE, text, made, wants, moves, because, API_HEALTH_PORT, given=given)
        wants = taken("edited", node_port=Same("created"), cluster_ips=Same("created"), balancer_class=NOBODY)
        text = f"{said} keeps nodePort, ClusterIPs and class"
        breaks = "clients of the service are cut off by an edit that has nothing to do with them"
        yield check(f"client.{name}.rest", CORE, text, made, wants, breaks, because, API_NODE_PORT, given=given)


def who_names_other_fields() -> Rows:
    """Server-side apply without force: who names nothing of others' gets in nobody's way, who does is told so."""
    others = {"metadata": {"labels": {"esipp-apply": "beside"}}, "spec": {"selector": {"esipp.dev/more": "yes"}}}
    mine = Step(
        "created", Verb.APPLY, {"spec": {**OURS, "ports": [{**PORT, "targetPort": 8081}]}}, manager="esipp-owner"
    )
    quiet = Step("edited", Verb.APPLY, others, manager="esipp-other")
    made = chain("apply-beside", mine, quiet)
    said = "A server-side apply that names only fields of its own keeps policy and health-check node port"
    wants = taken("edited", policy="Local", health_port=Same("created"), node_port=Same("created"))
    given = (Taken("edited", (("metadata.labels.esipp-apply", "beside"),)),)
    forgets = "an apply resets what it does not name"
    yield check("client.apply-beside", CORE, said, made, wants, forgets, SERVER_SIDE_APPLY, given=given)
    claims = {"spec": dict(CLUSTER)}
    refused = Step("claimed", Verb.APPLY, claims, manager="esipp-other", alone=True)
    made = chain("apply-conflict", mine, refused, Step("after", Verb.LOOK))
    said = "A server-side apply that claims another manager's policy without force is a conflict"
    wants: tuple[Want, ...] = (Refused("claimed", (409,), ("Conflict",), ("externalTrafficPolicy",)),)
    steals = "two managers overwrite each other's policy without knowing"
    yield check("client.apply-conflict", CORE, said, made, wants, steals, SERVER_SIDE_APPLY)
    said = "The conflict about a policy names the manager that has it"
    wants = (Refused("claimed", (409,), ("Conflict",), ("esipp-owner",)),)
    yield check("client.apply-conflict.words", EXTENDED, said, made, wants, "nobody is named", SERVER_SIDE_APPLY)
    said = "After a conflict about the policy the service is as it was"
    wants = (taken("after", policy="Local", health_port=Same("created"), node_port=Same("created")),)
    yield check("client.apply-conflict.unchanged", CORE, said, made, wants, "half of it is done", SERVER_SIDE_APPLY)
    forced = Step("forced", Verb.APPLY, claims, manager="esipp-other", force=True)
    again = Step("again", Verb.APPLY, mine.body, manager="esipp-owner")
    made = chain("apply-forced", mine, forced, again)
    said = "A server-side apply that claims another manager's policy with force gets it, and the health port is freed"
    wants = (taken("forced", policy="Cluster", health_port=ABSENT, node_port=Same("created")),)
    yield check("client.apply-forced", CORE, said, made, wants, "force is ignored, or goes half way", SERVER_SIDE_APPLY)
    said = "The manager that lost the policy is told so when it applies again"
    wants = (Refused("again", (409,), ("Conflict",), ("externalTrafficPolicy",)),)
    yield check("client.apply-forced.lost", CORE, said, made, wants, steals, SERVER_SIDE_APPLY)
    without = {name: value for name, value in mine.body["spec"].items() if name != "externalTrafficPolicy"}
    gives_up = Step("given-up", Verb.APPLY, {"spec": without}, manager="esipp-owner")
    made = chain("apply-given-up", mine, gives_up)
    said = "A policy that its only manager no longer applies is Cluster, without a health-check node port"
    wants = (taken("given-up", policy="Cluster", health_port=ABSENT, node_port=Same("created")),)
    stays = "a policy stays that nobody asks for, or half of it"
    yield check("client.apply-given-up", CORE, said, made, wants, stays, SERVER_SIDE_APPLY, API_ETP)
    shares = Step("shared", Verb.APPLY, {"spec": dict(LOCAL)}, manager="esipp-other")
    made = chain("apply-shared", mine, shares, gives_up)
    said = "A policy that two managers apply stays when one of them gives it up"
    wants = (taken("given-up", policy="Local", health_port=Same("created")),)
    yield check("client.apply-shared", CORE, said, made, wants, "it goes with the first", SERVER_SIDE_APPLY)


def who_drops_fields() -> Rows:
    """A client from before the fields: its library cannot hold what it does not know, and writes the object without.

    An update replaces the whole object, so that an optional field which is not there is one that is unset. Policies
    have a default, and get it: Cluster. What was allocated is patched back as long as it is needed; with Cluster no
    health-check node port is.
    """
    both = (POLICY, HEALTH_PORT)

    def dropping(name: str, *fields: str, since: Step | None = None, then: tuple[Step, ...] = ()) -> Chain:
        edit = Step("edited", Verb.UPDATE, SET, drop=fields)
        return chain(name, since or create(**OURS), edit, *then)

    given = (taken("edited", **SEEN),)
    made = dropping("drops-both", *both, then=(claim(HAD),))
    said = "An update without policy and health-check node port is taken: Cluster, and no health-check node port"
    wants = taken("edited", policy="Cluster", health_port=ABSENT)
    half = "old clients cannot edit the service at all, or leave it with half of Local"
    yield check("client.drops-both", CORE, said, made, wants, half, UPDATES, API_ETP, REGISTRY, given=given)
    said = "The health-check node port that an update left out with its policy may be another service's at once"
    wants = taken("claimed", health_port=Same("created"))
    gone = (taken("edited", health_port=ABSENT),)
    yield check(
        "client.drops-both.freed", CORE, said, made, wants, "the port leaks", API_HEALTH_PORT, REGISTRY, given=gone
    )
    said = "An update without policy and health-check node port keeps nodePort and ClusterIPs"
    wants = taken("edited", node_port=Same("created"), cluster_ips=Same("created"))
    cut = "clients of the service are cut off"
    yield check("client.drops-both.rest", CORE, said, made, wants, cut, API_NODE_PORT, REGISTRY, given=given)
    made = dropping("drops-policy", POLICY)
    said = "An update without the policy but with the health-check node port is taken: Cluster, and the port goes"
    wants = taken("edited", policy="Cluster", health_port=ABSENT)
    yield check("client.drops-policy", EXTENDED, said, made, wants, half, UPDATES, REGISTRY, given=given)
    made = dropping("drops-ports", HEALTH_PORT, NODE_PORT, "spec.clusterIP", CLUSTER_IPS)
    said = "An update that leaves out only what was allocated gets all of it back: health-check node port among it"
    wants = taken(
        "edited", policy="Local", health_port=Same("created"), node_port=Same("created"), cluster_ips=Same("created")
    )
    moves = "a client that edits something else moves the ports"
    yield check("client.drops-allocated", CORE, said, made, wants, moves, API_HEALTH_PORT, REGISTRY, given=given)
    made = dropping("drops-internal", INTERNAL)
    said = "An update without the internal policy is taken: Cluster; the external one stays"
    wants = taken("edited", internal="Cluster", policy="Local", health_port=Same("created"))
    mixed = "one policy goes with the other"
    yield check("client.drops-internal-policy", CORE, said, made, wants, mixed, UPDATES, API_ITP, KEP_2086, given=given)
    made = dropping("drops-class", CLASS)
    said = "An update without the loadBalancerClass is refused: nobody may change who serves a load balancer"
    wants_refused = invalid("edited", CLASS)
    stolen = "an old client's edit hands the load balancer over to the cloud's own"
    yield check("client.drops-class", CORE, said, made, wants_refused, stolen, API_CLASS, KEP_1959, VALIDATION)
    off = create(**OURS, allocateLoadBalancerNodePorts=False)
    made = dropping("drops-allocate", ALLOCATE, since=off)
    said = "An update without allocateLoadBalancerNodePorts is taken: it is true, and a nodePort is allocated"
    wants = taken("edited", allocate=True, node_port=PRESENT, policy="Local", health_port=Same("created"))
    none = "the field cannot be defaulted where it was set"
    yield check(
        "client.drops-allocate", EXTENDED, said, made, wants, none, UPDATES, API_ALLOCATE, KEP_1864, given=given
    )
    stale = Step("edited", Verb.UPDATE, SET, since="created", alone=True)
    steps = (create(**LB, **CLUSTER), merge("meanwhile", **LOCAL), stale, Step("after", Verb.LOOK))
    made = chain("stale", *steps)
    said = "A write of what was read before somebody else set Local is a conflict: it would undo that"
    conflict = Refused("edited", (409,), ("Conflict",))
    undone = "the policy is undone by whoever read the service before"
    yield check("client.stale", CORE, said, made, conflict, undone, UPDATES)
    said = "After a stale write the policy is what the other one made it, and so is the health-check node port"
    wants = taken("after", policy="Local", health_port=Same("meanwhile"))
    yield check("client.stale.unchanged", CORE, said, made, wants, undone, UPDATES)


CHECKS: tuple[Check, ...] = (*who_edits_something_else(), *who_names_other_fields(), *who_drops_fields())
