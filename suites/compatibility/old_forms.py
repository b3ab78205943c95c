"""The annotations that were the policy before it was a field: inert today, without effect and without harm. Data only.

The checks of the data path are in old_paths.py.
"""

from collections.abc import Iterator

from suites.compatibility.requirements import *

Rows = Iterator[Check]

DIALECTS = {
    testbed: (
        f"service.{testbed}.kubernetes.io/external-traffic",
        f"service.{testbed}.kubernetes.io/healthcheck-nodeport",
    )
    for testbed in ("alpha", "beta")
}
KINDS = {"loadbalancer": LB, "nodeport": NODE_PORTS}
WHO = {"loadbalancer": "a LoadBalancer Service", "nodeport": "a NodePort Service"}
EFFECT = "an API server or a controller of the cluster still acts upon the annotation"


def chain(name: str, *steps: Step) -> Chain:
    """A chain of this page."""
    return Chain(f"old-{name}", steps)


def in_place_of_fields() -> Rows:
    """What a manifest from before 1.7 asks for: OnlyLocal, and a health-check port."""
    for testbed, (traffic, port) in DIALECTS.items():
        for kind, base in KINDS.items():
            notes = {traffic: "OnlyLocal", port: Ref("free", "port", text=True)}
            made = chain(f"{testbed}-{kind}", FREE, create(annotations=notes, **base), Step("later", Verb.LOOK))
            name, who = f"old.{testbed}.{kind}", WHO[kind]
            said = f"The {testbed} annotations of OnlyLocal and a health-check port on {who}"
            wants: tuple[Want, ...] = (taken("created", policy="Cluster"), taken("later", policy="Cluster"))
            yield check(
                f"{name}.policy", CORE, f"{said} change nothing: it has Cluster", made, wants, EFFECT, *OLD_FORMS
            )
            wants = (taken("created", health_port=ABSENT), taken("later", health_port=ABSENT))
            text = f"{said} change nothing: it has no health-check node port"
            yield check(f"{name}.health-port", CORE, text, made, wants, EFFECT, *OLD_FORMS, API_HEALTH_PORT)
            kept = ((ANNOTATION + traffic, "OnlyLocal"), (ANNOTATION + port, PRESENT))
            wants = (Taken("created", kept), Taken("later", kept))
            text = f"{said} are kept as they are"
            yield check(f"{name}.kept", CORE, text, made, wants, "users' metadata is eaten", *OLD_FORMS)
            text = f"{said} are no reason for a warning"
            silent = Warned("created", f"service.{testbed}.kubernetes.io/", absent=True)
            yield check(f"{name}.warning", EXTENDED, text, made, silent, "a warning", *OLD_FORMS)


def against_fields() -> Rows:
    """An annotation says one thing, the field another: the field holds."""
    for testbed, (traffic, port) in DIALECTS.items():
        for kind, base in KINDS.items():
            local = PRESENT if kind == "loadbalancer" else ABSENT
            for value, spec, health in (("OnlyLocal", CLUSTER, ABSENT), ("Global", LOCAL, local)):
                policy = spec["externalTrafficPolicy"]
                name = f"{testbed}-{value.lower()}-{kind}"
                made = chain(
                    f"but-{name}", create(annotations={traffic: value}, **base, **spec), Step("later", Verb.LOOK)
                )
                said = f"On {WHO[kind]} with the {testbed} annotation {value} and the field {policy} the field holds"
                fields = {"policy": policy, "health_port": health}
                wants = (taken("created", **fields), taken("later", **fields))
                yield check(
                    f"old.{testbed}.{value.lower()}.{kind}", CORE, said, made, wants, EFFECT, *OLD_FORMS, API_ETP
                )
        notes = {traffic: "OnlyLocal", port: Ref("other", "port", text=True)}
        asked = create(annotations=notes, **LB, **LOCAL, healthCheckNodePort=FREE_PORT)
        made = chain(f"{testbed}-two-ports", FREE, Step("other", Verb.FREE), asked)
        said = f"Of a health-check port in the {testbed} annotation and another one in the field the field holds"
        wants = (Taken("created", ((HEALTH_PORT, FREE_PORT),)),)
        yield check(f"old.{testbed}.two-ports", CORE, said, made, wants, EFFECT, *OLD_FORMS, API_HEALTH_PORT)
        notes = {traffic: "Nonsense", port: "no port"}
        for kind, base in KINDS.items():
            made = chain(f"{testbed}-nonsense-{kind}", create(annotations=notes, **base))
            said = f"Values that were never valid in the {testbed} annotations on {WHO[kind]} are nobody's business"
            wants = (
                Taken("created", ((POLICY, "Cluster"), (HEALTH_PORT, ABSENT), (ANNOTATION + traffic, "Nonsense"))),
            )
            yield check(f"old.{testbed}.nonsense.{kind}", CORE, said, made, wants, "old checks refuse them", *OLD_FORMS)


def on_the_way() -> Rows:
    """Annotations that come and go on a Service that is there."""
    for testbed, (traffic, port) in DIALECTS.items():
        for kind, base in KINDS.items():
            for value, spec in (("OnlyLocal", CLUSTER), ("Global", LOCAL)):
                policy = spec["externalTrafficPolicy"]
                notes = {traffic: value, port: "30000"}
                add = Step("added", Verb.MERGE, {"metadata": {"annotations": notes}})
                gone = Step("removed", Verb.MERGE, {"metadata": {"annotations": dict.fromkeys(notes)}})
                made = chain(f"edit-{testbed}-{value.lower()}-{kind}", create(**base, **spec), add, gone)
                health = Same("created") if kind == "loadbalancer" and policy == "Local" else ABSENT
                fields = {"policy": policy, "health_port": health, "node_port": Same("created")}
                said = (
                    f"The {testbed} annotation {value} that comes to {WHO[kind]} with {policy}, and goes again, changes"
                )
                wants = (taken("added", **fields), taken("removed", **fields))
                name = f"old.{testbed}.{value.lower()}.{kind}.edited"
                yield check(name, CORE, f"{said} nothing", made, wants, EFFECT, *OLD_FORMS)


def nobody_listens() -> Rows:
    """The port that an annotation names is open on no node, while every node answers at one that a field names."""
    for testbed, (traffic, port) in DIALECTS.items():
        notes = {traffic: "OnlyLocal", port: Ref("free", "port", text=True)}
        ports = {"silent": FREE_PORT, "control": Ref("control", HEALTH_PORT)}
        both = {**LB, "ipFamilyPolicy": "PreferDualStack"}  # nodes are asked in every family that they have
        made = chain(
            f"{testbed}-heard", FREE, create(annotations=notes, **both), create("control", "control", **both, **LOCAL),
            Step("listened", Verb.LISTEN, ports, of="control"), Step("later", Verb.LOOK),
        )  # fmt: skip
        said = f"No node answers at the health-check port that a service names in the {testbed} annotation"
        open_ = "a service proxy still opens the port that the annotation names"
        outside = frozenset({"vantage.outside"})
        wants: tuple[Want, ...] = (Quiet("listened"), taken("later", policy="Cluster", health_port=ABSENT))
        yield check(f"old.{testbed}.not-heard", CORE, said, made, wants, open_, *OLD_FORMS, features=outside)


CHECKS: tuple[Check, ...] = (*in_place_of_fields(), *against_fields(), *on_the_way(), *nobody_listens())
