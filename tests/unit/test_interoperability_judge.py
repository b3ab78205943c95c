"""The judge of the inter-operation trials: each claim is tripped by what breaks it, and by nothing else."""

from collections import Counter
from dataclasses import replace

import pytest

from esipp.checks.check import Feature, Status
from esipp.checks.health import Place
from esipp.checks.interoperability import Kind
from esipp.checks.model import Family, Outcome, Role
from esipp.judging.controls import Counts
from esipp.scenarios.interoperability.evidence import InteroperabilityEvidence
from esipp.scenarios.interoperability.judge import LEAST
from tests.unit.interoperability_world import (
    ANOTHER_POD,
    BROKEN_PROBER,
    CHECKS,
    CLIENT,
    FEATURES,
    MASQUERADED,
    NODE,
    OBJECT,
    SILENCE,
    WELL,
    checks_of,
    names,
    no_answer,
    say,
    seen,
    statuses,
    verdict,
)
from tests.unit.verdicts import judge_with

HOME, BARE = (Place.ENDPOINT_NODE, Family.IPV4), (Place.BARE_NODE, Family.IPV4)
A, B = "neighbour-a", "neighbour-b"


def test_all_checks_hold_where_all_is_well() -> None:
    assert statuses(seen()) == {}


def test_what_was_never_performed_is_our_fault() -> None:
    assert set(statuses(InteroperabilityEvidence()).values()) == {"error"}


@pytest.mark.parametrize("trial", ["neighbours", "many", "names"])
def test_a_trial_that_breaks_off_leaves_its_own_checks_undecided(trial: str) -> None:
    broken = seen()
    broken.trouble[trial] = "the neighbour did not follow"
    assert statuses(broken) == dict.fromkeys(checks_of(trial), "inconclusive")
    ours = seen()
    ours.broken[trial] = "TypeError: no"
    assert statuses(ours) == dict.fromkeys(checks_of(trial), "error")


def test_checks_without_their_feature_are_unsupported() -> None:
    said = verdict("interop.names.clusterip.ipv4.pod-on-bare-node", dns=Feature(False, "kube-system has no Service"))
    assert said.status is Status.UNSUPPORTED
    assert "kube-system has no Service" in said.reason


# ------------------------------------------------------------------------------------------------------- neighbours
def changed(**fields: object) -> InteroperabilityEvidence:
    made = seen()
    assert made.neighbours
    made.neighbours = replace(made.neighbours, **fields)
    return made


@pytest.mark.parametrize("wrong", [say(0, A, count=1), no_answer(Outcome.REFUSED, 1), say(1, A, status=500, count=1)])
def test_a_health_check_that_follows_another_service_once_is_noticed(wrong: object) -> None:
    made = seen()
    assert made.neighbours
    made.neighbours.answers[HOME].append(wrong)
    found = statuses(made)
    assert found["interop.neighbours.status.ipv4.endpoint-node"] == "flaky"
    assert {check for check in found if ".status." in check} == {"interop.neighbours.status.ipv4.endpoint-node"}


def test_a_bare_node_that_says_200_for_another_services_pod_is_noticed() -> None:
    made = seen()
    assert made.neighbours
    made.neighbours.answers[BARE] = [say(1, A, count=100)]
    where = "ipv4.bare-node"
    assert statuses(made) == {f"interop.neighbours.{claim}.{where}": "fail" for claim in ("status", "document")}


def test_a_document_of_the_other_service_is_noticed() -> None:
    made = seen()
    assert made.neighbours
    made.neighbours.answers[HOME].append(say(1, B, count=2))
    assert statuses(made) == {"interop.neighbours.document.ipv4.endpoint-node": "flaky"}


@pytest.mark.parametrize("wrong", [ANOTHER_POD, NODE, SILENCE])
def test_a_connection_that_another_service_spoils_is_noticed(wrong: object) -> None:
    made = seen()
    assert made.neighbours
    made.neighbours.dialled[HOME].append(wrong)
    found = statuses(made)
    assert found.pop("interop.neighbours.served.ipv4.endpoint-node") == "flaky"
    # where the endpoint's node is lossy, silence elsewhere proves nothing
    assert set(found) <= checks_of("neighbours", claim="served", family=Family.IPV4)
    assert set(found.values()) <= {"inconclusive"}


def test_a_bare_node_that_serves_while_another_service_is_cluster_is_noticed() -> None:
    made = seen()
    assert made.neighbours
    made.neighbours.dialled[BARE].append(NODE)
    assert statuses(made) == {"interop.neighbours.served.ipv4.bare-node": "flaky"}


def test_an_object_that_was_written_is_noticed() -> None:
    after = {**OBJECT, "spec": {**OBJECT["spec"], "healthCheckNodePort": 31000}}
    said = verdict("interop.neighbours.kept", changed(after=after))
    assert (said.status, said.observed) == (Status.FAIL, "changed: spec.healthCheckNodePort")
    marked = {**OBJECT, "metadata": {**OBJECT["metadata"], "annotations": {"x": "y"}}}
    assert verdict("interop.neighbours.kept", changed(after=marked)).status is Status.FAIL


def test_changes_that_did_not_reach_the_nodes_prove_nothing() -> None:
    found = statuses(changed(changes=[("ready", 1.0)]))
    assert found == dict.fromkeys(checks_of("neighbours"), "inconclusive")


def test_a_node_that_is_not_reached_proves_nothing() -> None:
    made = seen()
    assert made.neighbours
    made.neighbours.ways = replace(WELL, reached={**WELL.reached, BARE: False})
    assert statuses(made) == dict.fromkeys(checks_of("neighbours", place=BARE[0], family=BARE[1]), "inconclusive")


def test_a_client_that_is_masqueraded_on_its_way_to_the_node_proves_nothing() -> None:
    made = seen()
    assert made.neighbours
    assert made.many
    strange = replace(WELL, strange={**WELL.strange, HOME: "192.0.2.7 = unknown address"})
    made.neighbours.ways = made.many.ways = strange
    made.neighbours.dialled[HOME] = [replace(MASQUERADED, count=100)]
    for by_service in made.many.dialled.values():
        by_service.update(
            {name: [MASQUERADED] for name, found in by_service.items() if found[0].words != SILENCE.words}
        )
    found = statuses(made)
    assert found["interop.neighbours.served.ipv4.endpoint-node"] == "inconclusive"
    for kind in Kind:
        claims = ("preserved",) if kind.is_local else ("answers", "rewritten")
        assert {found[f"interop.many.{kind.value}.{claim}.endpoint-node"] for claim in claims} == {"inconclusive"}


def test_a_few_answers_prove_nothing() -> None:
    made = seen()
    assert made.neighbours
    made.neighbours.answers[HOME] = [say(1, A, count=LEAST - 1)]
    made.neighbours.dialled[BARE] = [replace(SILENCE, count=LEAST - 1)]
    assert statuses(made) == {
        "interop.neighbours.status.ipv4.endpoint-node": "inconclusive",
        "interop.neighbours.document.ipv4.endpoint-node": "inconclusive",
        "interop.neighbours.served.ipv4.bare-node": "inconclusive",
    }


def test_a_broken_prober_is_our_fault() -> None:
    made = seen()
    assert made.neighbours
    made.neighbours.dialled[HOME].append(BROKEN_PROBER)
    made.neighbours.answers[HOME].append(no_answer(Outcome.ERROR, 1))
    where = "ipv4.endpoint-node"
    errors = {check: status for check, status in statuses(made).items() if status == "error"}
    assert errors == {f"interop.neighbours.{claim}.{where}": "error" for claim in ("status", "document", "served")}


# ------------------------------------------------------------------------------------------------------------- many
def of_many(kind: Kind, role: Role, *readings: object) -> InteroperabilityEvidence:
    """One service of many shows something else."""
    made = seen()
    assert made.many
    made.many.dialled[kind, role][f"many-{kind.value}-1"] = list(readings)
    return made


@pytest.mark.parametrize("kind", [Kind.BALANCER_LOCAL, Kind.NODE_PORT_LOCAL])
@pytest.mark.parametrize("wrong", [NODE, SILENCE, ANOTHER_POD])
def test_one_local_service_of_many_that_is_wrong_is_named(kind: Kind, wrong: object) -> None:
    made = of_many(kind, Role.ENDPOINT_NODE, wrong)
    said = verdict(f"interop.many.{kind.value}.preserved.endpoint-node", made)
    assert said.status is Status.FLAKY
    assert said.reason == f"1 of 3 Services fail: many-{kind.value}-1"


def test_single_connections_that_are_lost_are_held_against_what_the_way_loses() -> None:
    kind, check = Kind.BALANCER_LOCAL, f"interop.many.{Kind.BALANCER_LOCAL.value}.preserved.endpoint-node"
    made = seen()
    assert made.many
    own = made.many.dialled[kind, Role.ENDPOINT_NODE]
    own[next(iter(own))] = [replace(CLIENT, count=1), replace(SILENCE, count=1)]
    assert statuses(made)[check] == "flaky", "where the way lost nothing every loss counts"
    made.many.ways = replace(made.many.ways, counts={(Place.BARE_NODE, Family.IPV4): Counts(2, 40)})
    assert statuses(made)[check] == "inconclusive"
    assert "may explain the 1 of 6 lost here" in verdict(check, made).reason
    own[next(iter(own))] = [replace(each, count=1) for each in (CLIENT, SILENCE, MASQUERADED)]
    assert statuses(made)[check] == "flaky", "a wrong source is no loss, whatever is lost beside it"
    own[next(iter(own))] = [replace(SILENCE, count=2)]
    assert statuses(made)[check] == "flaky", "a service that never answers is no matter of single connections"


def test_every_check_that_passes_says_what_it_can_see() -> None:
    verdicts = [verdict(identity) for identity in CHECKS]
    assert [each.check_id for each in verdicts if each.status is Status.PASS and not each.sees] == []


@pytest.mark.parametrize("kind", [Kind.BALANCER_LOCAL, Kind.NODE_PORT_LOCAL])
def test_one_local_service_of_many_that_leaks_at_the_bare_node_is_noticed(kind: Kind) -> None:
    made = of_many(kind, Role.BARE_NODE, NODE)
    assert statuses(made) == {f"interop.many.{kind.value}.silent.bare-node": "flaky"}


@pytest.mark.parametrize("kind", [Kind.NODE_PORT_CLUSTER, Kind.NODE_PORT_UNSET])
@pytest.mark.parametrize("role", [Role.ENDPOINT_NODE, Role.BARE_NODE])
def test_one_cluster_service_of_many_that_is_silent_or_not_rewritten_is_noticed(kind: Kind, role: Role) -> None:
    stem = f"interop.many.{kind.value}"
    found = statuses(of_many(kind, role, CLIENT))
    assert found == {f"{stem}.rewritten.{role.value}": "flaky"}
    found = statuses(of_many(kind, role, SILENCE))
    assert found.pop(f"{stem}.answers.{role.value}") == "flaky"
    assert found.pop(f"{stem}.rewritten.{role.value}") == "flaky"
    # silence of Local services proves nothing where Cluster services are silent, too
    assert set(found.values()) <= {"inconclusive"}
    assert all(".silent." in check for check in found)


@pytest.mark.parametrize("proxy", ["cilium", "kube-proxy"])
def test_cluster_services_that_are_never_rewritten_at_the_pods_own_node_are_known_of_cilium(proxy: str) -> None:
    made = seen()
    assert made.many
    dialled = made.many.dialled[Kind.NODE_PORT_CLUSTER, Role.ENDPOINT_NODE]
    dialled.update({name: [CLIENT] for name in dialled})
    check = CHECKS["interop.many.nodeport-cluster.rewritten.endpoint-node"]
    known = Status.KNOWN if proxy == "cilium" else Status.FAIL
    assert judge_with(check, made, FEATURES, {"service-proxy": proxy}).status is known
    dialled.update({next(iter(dialled)): [SILENCE]})
    assert judge_with(check, made, FEATURES, {"service-proxy": proxy}).status is Status.FAIL


def test_health_checks_of_many_are_held_against_their_own_names() -> None:
    made = seen()
    assert made.many
    name, other = (f"many-loadbalancer-local-{number}" for number in (1, 2))
    made.many.answers[name][HOME] = [say(1, other, count=2)]
    assert statuses(made) == {"interop.many.loadbalancer-local.document.endpoint-node": "flaky"}
    made.many.answers[name][HOME] = [say(0, name, count=2)]
    assert statuses(made) == {
        f"interop.many.loadbalancer-local.{claim}.endpoint-node": "flaky" for claim in ("status", "document")
    }


def test_a_family_in_which_the_client_does_not_reach_the_nodes_is_no_fault_of_the_services() -> None:
    made = seen()
    assert made.many
    made.many.ways = replace(WELL, reached={**WELL.reached, (Place.ENDPOINT_NODE, Family.IPV6): False})
    made.many.dialled[Kind.NODE_PORT_LOCAL, Role.ENDPOINT_NODE]["many-nodeport-local-1"] = [SILENCE]
    assert verdict("interop.many.nodeport-local.preserved.endpoint-node", made).status is Status.INCONCLUSIVE


def test_no_services_have_no_ports_of_their_own() -> None:
    made = seen()
    assert made.many
    made.many.ports = {}
    assert statuses(made) == {"interop.many.distinct": "inconclusive"}


def test_services_that_never_were_programmed_are_not_reported_as_if_they_were() -> None:
    made = seen()
    assert made.many
    made.many.late = "gave up: 3 do not answer yet"
    assert "Services were programmed: gave up" in verdict("interop.many.programmed", made).observed


def test_listeners_of_services_that_were_not_deleted_prove_nothing() -> None:
    made = seen()
    assert made.many
    made.many.gone = {}
    assert statuses(made) == {"interop.many.loadbalancer-local.gone": "inconclusive"}


def test_a_port_that_was_given_twice_or_not_at_all_is_noticed() -> None:
    made = seen()
    assert made.many
    made.many.ports["many-nodeport-local-1"] = made.many.ports["many-nodeport-local-2"]
    assert statuses(made) == {"interop.many.distinct": "fail"}
    made = seen()
    assert made.many
    made.many.ports["many-loadbalancer-local-1"].pop()
    assert statuses(made) == {"interop.many.distinct": "fail"}


def test_a_listener_that_stays_open_is_noticed() -> None:
    made = seen()
    assert made.many
    made.many.gone["many-loadbalancer-local-0"] = Counter({"200": 1, "refused": 7})
    said = verdict("interop.many.loadbalancer-local.gone", made)
    assert said.status is Status.FLAKY
    assert "many-loadbalancer-local-0" in said.reason


def test_listeners_that_were_never_open_prove_nothing_by_being_closed() -> None:
    made = seen()
    assert made.many
    for nodes in made.many.answers.values():
        nodes[HOME] = [no_answer(Outcome.REFUSED)]
    assert statuses(made)["interop.many.loadbalancer-local.gone"] == "inconclusive"


# ------------------------------------------------------------------------------------------------------------ names
NAME_CHECKS = sorted(check for check in checks_of("names") if ".dialled." not in check)


@pytest.mark.parametrize("wrong", ["172.18.255.1", "10.96.0.7, 10.96.0.8", "unresolved (EAI_NONAME)", "timeout"])
def test_a_name_that_is_resolved_to_anything_else_is_noticed(wrong: str) -> None:
    for identity in NAME_CHECKS:
        check, made = CHECKS[identity], names()
        assert check.subject.client
        assert check.subject.family
        made.resolved[check.subject.claim, check.subject.client.name, check.subject.family] = Counter({wrong: 20})
        assert statuses(InteroperabilityEvidence(seen().trouble, {}, seen().neighbours, seen().many, made)) == {
            identity: "fail"
        }


def test_a_name_that_is_sometimes_unknown_is_flaky() -> None:
    made = seen()
    assert made.names
    made.names.resolved["headless", "pod-on-bare-node", Family.IPV6]["unresolved (EAI_AGAIN)"] = 1
    assert statuses(made) == {"interop.names.headless.ipv6.pod-on-bare-node": "flaky"}


def test_a_pod_that_is_not_seen_itself_at_what_it_resolved_is_noticed() -> None:
    made = seen()
    assert made.names
    made.names.dialled["pod-on-bare-node", Family.IPV4] = [NODE]
    assert statuses(made) == {"interop.names.dialled.ipv4.pod-on-bare-node": "fail"}


def test_a_pod_that_is_masqueraded_on_the_direct_path_proves_nothing_about_names() -> None:
    made = seen()
    assert made.names
    key = ("pod-on-bare-node", Family.IPV4)
    made.names.dialled[key] = [NODE]
    for direct in ([NODE], [CLIENT, SILENCE], []):
        made.names.direct[key] = direct
        assert statuses(made) == {"interop.names.dialled.ipv4.pod-on-bare-node": "inconclusive"}


def test_what_was_not_resolved_could_not_be_dialled() -> None:
    made = seen()
    assert made.names
    made.names.resolved["dialled", "pod-on-bare-node", Family.IPV4] = Counter({"timeout": 20})
    assert statuses(made) == {"interop.names.dialled.ipv4.pod-on-bare-node": "inconclusive"}


def test_a_name_of_a_service_without_a_vip_proves_nothing_about_vips() -> None:
    made = seen()
    assert made.names
    del made.names.vips[Family.IPV4]
    assert set(statuses(made).values()) == {"inconclusive"}
    assert set(statuses(made)) == checks_of("names", claim="balancer", family=Family.IPV4)


def test_a_prober_that_cannot_ask_is_our_fault() -> None:
    made = seen()
    assert made.names
    made.names.trouble["short", "pod-on-bare-node", Family.IPV4] = "not asked"
    assert statuses(made) == {"interop.names.short.ipv4.pod-on-bare-node": "error"}
