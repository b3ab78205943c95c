"""What the inter-operation trials see where all is well: for testing their judge, never a stand-in for Kubernetes."""

from collections import Counter
from dataclasses import replace
from typing import Any

from esipp.checks.check import Feature, Verdict
from esipp.checks.health import Place
from esipp.checks.interoperability import DIALLED, InteroperabilityCheck, Kind
from esipp.checks.model import AddressClass, Family
from esipp.judging.observation import Reading
from esipp.scenarios.health.evidence import Node
from esipp.scenarios.interoperability.evidence import InteroperabilityEvidence, Many, Names, Neighbours, Ways
from suites.interoperability.checks import OF_SCENARIOS as ALL_CHECKS
from suites.interoperability.requirements import NODES
from tests.unit.health_world import NAMESPACE, no_answer, say
from tests.unit.verdicts import judge_with

__all__ = ["NAMESPACE", "no_answer", "say"]

CHECKS = {check.id: check for check in ALL_CHECKS}
FEATURES = {name: Feature(True, "made up") for check in ALL_CHECKS for name in check.features}
NODES_OF_ALL: list[Node] = [(place, family) for place in NODES for family in Family]

CLIENT = Reading(frozenset({AddressClass.CLIENT}), "172.18.0.9 = client outside-1")
NODE = Reading(frozenset({AddressClass.NODE}), "10.244.1.1 = node worker-a")
MASQUERADED = Reading(frozenset({AddressClass.OTHER}), "192.0.2.7 = unknown address")
SILENCE = Reading(frozenset({AddressClass.DROPPED}), "no answer")
ANOTHER_POD = replace(CLIENT, words="by another", product_fault="answered by pod x, which is no backend")
BROKEN_PROBER = Reading(frozenset(), "probe failed", harness_fault="the prober failed: no descriptors")

WELL = Ways(dict.fromkeys(NODES_OF_ALL, True), dict.fromkeys(NODES_OF_ALL, ""))

OBJECT = {
    "metadata": {"name": "neighbour-a", "uid": "u"},
    "spec": {"healthCheckNodePort": 30123, "ports": [{"nodePort": 30124}]},
}
CHANGES = [(words, 1.1) for words in ("unready", "ready", "Cluster", "made again", "deleted")]


def home(place: Place) -> bool:
    return place is Place.ENDPOINT_NODE


def neighbours() -> Neighbours:
    return Neighbours(
        (NAMESPACE, "neighbour-a"),
        {node: [say(int(home(node[0])), "neighbour-a", count=100)] for node in NODES_OF_ALL},
        {node: [replace(CLIENT if home(node[0]) else SILENCE, count=100)] for node in NODES_OF_ALL},
        {node: Counter({"200": 10, "refused": 9}) for node in NODES_OF_ALL},
        list(CHANGES),
        OBJECT,
        OBJECT,
        WELL,
    )


def many() -> Many:
    names = {kind: [f"many-{kind.value}-{number}" for number in range(3)] for kind in Kind}
    seen = Many(names, NAMESPACE, {"programmed": 9.9}, ways=WELL)
    port = 30000
    for kind, own in names.items():
        for role in DIALLED:
            local = CLIENT if role is DIALLED[0] else SILENCE
            seen.dialled[kind, role] = {name: [replace(local if kind.is_local else NODE, count=2)] for name in own}
        for name in own:
            ports = 2 if kind is Kind.BALANCER_LOCAL else 1
            seen.ports[name] = [*range(port, port + ports)]
            port += ports
    for name in names[Kind.BALANCER_LOCAL]:
        seen.answers[name] = {node: [say(int(home(node[0])), name, count=2)] for node in NODES_OF_ALL}
        seen.gone[name] = Counter({"refused": 8})
    return seen


def names() -> Names:
    checks = [
        check
        for check in ALL_CHECKS
        if check.subject.scenario == "names" and check.subject.client and check.subject.family
    ]
    seen = Names("cluster.local", vips={Family.IPV4: "172.18.255.1", Family.IPV6: "fc00::ff01"})
    for check in checks:
        assert check.subject.client
        assert check.subject.family
        wanted = "10.96.0.7" if check.subject.family is Family.IPV4 else "fd00:96::7"
        seen.wanted[check.subject.claim, check.subject.family] = wanted
        seen.resolved[check.subject.claim, check.subject.client.name, check.subject.family] = Counter({wanted: 20})
        seen.dialled[check.subject.client.name, check.subject.family] = [replace(CLIENT, count=20)]
        seen.direct[check.subject.client.name, check.subject.family] = [replace(CLIENT, count=20)]
    return seen


def seen() -> InteroperabilityEvidence:
    """Everything, well."""
    return InteroperabilityEvidence(neighbours=neighbours(), many=many(), names=names())


def verdict(identity: str, what: InteroperabilityEvidence | None = None, **features: Feature) -> Verdict:
    return judge_with(CHECKS[identity], what or seen(), FEATURES | features, {})


def statuses(what: InteroperabilityEvidence) -> dict[str, str]:
    """The checks that are not fine, with their status."""
    found = {identity: judge_with(check, what, FEATURES, {}).status.value for identity, check in CHECKS.items()}
    return {identity: status for identity, status in found.items() if status not in ("pass", "recorded")}


def checks_of(trial: str, **traits: Any) -> set[str]:
    """The ids of a trial's checks with these traits."""

    def fits(check: InteroperabilityCheck) -> bool:
        of = check.subject
        return of.scenario == trial and all(getattr(of, name) == value for name, value in traits.items())

    return {identity for identity, check in CHECKS.items() if fits(check)}
