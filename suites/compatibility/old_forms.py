"""Checks that the pre-1.7 annotations for the policy have no effect on the API today. Data only.

old_paths.py has the checks of traffic.
"""

from collections.abc import Iterator

from suites.compatibility.requirements import *

Checks = Iterator[Check]

DIALECTS = {
    stage: (
        f"service.{stage}.kubernetes.io/external-traffic",
        f"service.{stage}.kubernetes.io/healthcheck-nodeport",
    )
    for stage in ("alpha", "beta")
}
KINDS = {"loadbalancer": LB, "nodeport": NODE_PORTS}
WHO = {"loadbalancer": "a LoadBalancer Service", "nodeport": "a NodePort Service"}
EFFECT = "the API server or a controller of the cluster still acts upon the annotation"


def chain(name: str, *steps: Step) -> Chain:
    """Return a chain of requests; its name begins with this module's prefix."""
    return Chain(f"old-{name}", steps)


def without_fields() -> Checks:
    """Yield checks of a pre-1.7 manifest: annotations with OnlyLocal and a health-check port, and no fields."""
    for stage, (traffic, port) in DIALECTS.items():
        for kind, base in KINDS.items():
            notes = {traffic: "OnlyLocal", port: Ref("free", "port", text=True)}
            made = chain(f"{stage}-{kind}", FREE, create(annotations=notes, **base), Step("later", Verb.LOOK))
            name, who = f"old.{stage}.{kind}", WHO[kind]
            said = f"The {stage} annotations for OnlyLocal and a health-check port on {who}"
            wants: tuple[Want, ...] = (taken("created", policy="Cluster"), taken("later", policy="Cluster"))
            yield check(
                f"{name}.policy", CORE, f"{said} have no effect: the policy is Cluster", made, wants, EFFECT, *OLD_FORMS
            )
            wants = (taken("created", health_port=ABSENT), taken("later", health_port=ABSENT))
            text = f"{said} have no effect: it has no health-check node port"
            yield check(f"{name}.health-port", CORE, text, made, wants, EFFECT, *OLD_FORMS, API_HEALTH_PORT)
            kept = ((ANNOTATION + traffic, "OnlyLocal"), (ANNOTATION + port, PRESENT))
            wants = (Taken("created", kept), Taken("later", kept))
            text = f"{said} remain unchanged"
            yield check(
                f"{name}.kept", CORE, text, made, wants, "the API server drops the user's annotations", *OLD_FORMS
            )
            text = f"{said} cause no warning"
            silent = Warned("created", f"service.{stage}.kubernetes.io/", absent=True)
            yield check(f"{name}.warning", EXTENDED, text, made, silent, "a warning", *OLD_FORMS)


def against_fields() -> Checks:
    """Yield checks of annotations that contradict a field: the field counts."""
    for stage, (traffic, port) in DIALECTS.items():
        for kind, base in KINDS.items():
            local = PRESENT if kind == "loadbalancer" else ABSENT
            for value, spec, health in (("OnlyLocal", CLUSTER, ABSENT), ("Global", LOCAL, local)):
                policy = spec["externalTrafficPolicy"]
                name = f"{stage}-{value.lower()}-{kind}"
                made = chain(
                    f"but-{name}", create(annotations={traffic: value}, **base, **spec), Step("later", Verb.LOOK)
                )
                said = f"On {WHO[kind]} with {stage} annotation {value} and field {policy}, the field takes precedence"
                fields = {"policy": policy, "health_port": health}
                wants = (taken("created", **fields), taken("later", **fields))
                yield check(f"old.{stage}.{value.lower()}.{kind}", CORE, said, made, wants, EFFECT, *OLD_FORMS, API_ETP)
        notes = {traffic: "OnlyLocal", port: Ref("other", "port", text=True)}
        asked = create(annotations=notes, **LB, **LOCAL, healthCheckNodePort=FREE_PORT)
        made = chain(f"{stage}-two-ports", FREE, Step("other", Verb.FREE), asked)
        said = f"When {stage} annotation and field name different health-check ports, the field takes precedence"
        wants = (Taken("created", ((HEALTH_PORT, FREE_PORT),)),)
        yield check(f"old.{stage}.two-ports", CORE, said, made, wants, EFFECT, *OLD_FORMS, API_HEALTH_PORT)
        notes = {traffic: "Nonsense", port: "no port"}
        for kind, base in KINDS.items():
            made = chain(f"{stage}-nonsense-{kind}", create(annotations=notes, **base))
            said = f"The API server accepts values that were never valid in the {stage} annotations on {WHO[kind]}"
            wants = (
                Taken("created", ((POLICY, "Cluster"), (HEALTH_PORT, ABSENT), (ANNOTATION + traffic, "Nonsense"))),
            )
            yield check(
                f"old.{stage}.nonsense.{kind}",
                CORE,
                said,
                made,
                wants,
                "an old validation still refuses them",
                *OLD_FORMS,
            )


def added_later() -> Checks:
    """Yield checks of annotations that a client adds to a Service and removes again."""
    for stage, (traffic, port) in DIALECTS.items():
        for kind, base in KINDS.items():
            for value, spec in (("OnlyLocal", CLUSTER), ("Global", LOCAL)):
                policy = spec["externalTrafficPolicy"]
                notes = {traffic: value, port: "30000"}
                add = Step("added", Verb.MERGE, {"metadata": {"annotations": notes}})
                gone = Step("removed", Verb.MERGE, {"metadata": {"annotations": dict.fromkeys(notes)}})
                made = chain(f"edit-{stage}-{value.lower()}-{kind}", create(**base, **spec), add, gone)
                health = Same("created") if kind == "loadbalancer" and policy == "Local" else ABSENT
                fields = {"policy": policy, "health_port": health, "node_port": Same("created")}
                said = (
                    f"Adding and removing the {stage} annotation {value} on {WHO[kind]} with {policy} changes nothing"
                )
                wants = (taken("added", **fields), taken("removed", **fields))
                name = f"old.{stage}.{value.lower()}.{kind}.edited"
                yield check(name, CORE, said, made, wants, EFFECT, *OLD_FORMS)


def no_listeners() -> Checks:
    """Yield checks that no node listens on the annotation's port, while every node does on the field's port."""
    for stage, (traffic, port) in DIALECTS.items():
        notes = {traffic: "OnlyLocal", port: Ref("free", "port", text=True)}
        ports = {"silent": FREE_PORT, "control": Ref("control", HEALTH_PORT)}
        both = {**LB, "ipFamilyPolicy": "PreferDualStack"}  # the client dials nodes in every family that they have
        made = chain(
            f"{stage}-heard", FREE, create(annotations=notes, **both), create("control", "control", **both, **LOCAL),
            Step("listened", Verb.LISTEN, ports, of="control"), Step("later", Verb.LOOK),
        )  # fmt: skip
        said = f"No node listens on the health-check port that the {stage} annotation names"
        open_ = "the service proxy still opens the port that the annotation names"
        outside = frozenset({"vantage.outside"})
        wants: tuple[Want, ...] = (Quiet("listened"), taken("later", policy="Cluster", health_port=ABSENT))
        yield check(f"old.{stage}.not-heard", CORE, said, made, wants, open_, *OLD_FORMS, features=outside)


CHECKS: tuple[Check, ...] = (*without_fields(), *against_fields(), *added_later(), *no_listeners())
