"""The checks themselves: stable, complete, and each able to fail."""

import importlib
import json
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace

from esipp.checks.catalog import all_checks, suite_names
from esipp.checks.check import OF_VERSIONS, Level
from esipp.checks.explain import explain
from esipp.checks.model import (
    AddressClass,
    Backends,
    Claim,
    EntryKind,
    Family,
    Path,
    Protocol,
    Role,
    TrafficPolicy,
    Vantage,
)
from esipp.checks.path import PathCheck, Spread
from tests.unit.world import CHECKS, SOURCE_IP, by_id

JSON_FIELDS = (
    "id path requirement level suite service policy internal_policy protocol family client entry expect told spread "
    "features since references"
)


def offenders(holds: Callable[[PathCheck], object], path_checks: Iterable[PathCheck] = CHECKS) -> list[str]:
    """The checks of which it does not hold; one test for all of them, as a test a check would cost seconds."""
    path_checks = list(path_checks)
    assert path_checks
    return [path_check.id for path_check in path_checks if not holds(path_check)]


def negative(path_check: PathCheck) -> bool:
    return path_check.subject.is_negative


def test_each_suite_says_what_it_is() -> None:
    docs = [importlib.import_module(f"suites.{name}").__doc__ for name in suite_names()]
    assert all(docs)
    assert len({*docs}) == len(docs)


def test_ids_are_unique_and_fit_for_files() -> None:
    ids = [check.id for check in all_checks()]
    assert [name for name, count in Counter(ids).items() if count > 1] == []
    assert [name for name in ids if not set(name) <= set("abcdefghijklmnopqrstuvwxyz0123456789.-")] == []


def test_a_path_that_is_made_from_another_has_a_key_of_its_own() -> None:
    path = by_id("nodeport.local.tcp.ipv4.outside-1-to-endpoint-node").subject.path
    assert path.key != replace(path, family=Family.IPV6).key
    same = replace(path)
    assert (same, hash(same)) == (path, hash(path)), "whether its key was asked for makes no difference"


def test_several_backends_are_asked_of_controls_only() -> None:
    assert offenders(lambda path_check: path_check.subject.spread is not Spread.SEVERAL) == []


def test_requirements_are_unique() -> None:
    assert [text for text, count in Counter(path_check.requirement for path_check in CHECKS).items() if count > 1] == []


def test_a_requirement_is_whole_sentences() -> None:
    texts = {check.requirement for check in all_checks()}
    assert {text for text in texts if not text.endswith(".") or ".." in text or ",," in text} == set()


def test_every_check_is_complete() -> None:
    assert offenders(lambda path_check: path_check.requirement[0].isupper()) == []
    assert offenders(lambda path_check: path_check.references) == []
    assert offenders(lambda path_check: path_check.suite in suite_names()) == []
    assert (
        offenders(
            lambda path_check: (
                path_check.id.removeprefix("interop.").removeprefix("vantage.").startswith(path_check.subject.path.key)
            )
        )
        == []
    )
    assert (
        offenders(lambda path_check: f"family.{path_check.subject.path.family.value.lower()}" in path_check.features)
        == []
    )


def test_only_a_recorded_check_accepts_everything() -> None:
    everything = frozenset(AddressClass)
    assert (
        offenders(lambda path_check: (path_check.subject.accept == everything) == (path_check.level is Level.RECORD))
        == []
    )


def test_every_silent_check_has_a_sibling_of_the_same_client_that_answers() -> None:
    def siblings(path_check: PathCheck) -> list[Path]:
        return [control.path for control in path_check.subject.controls if control.path.service is not None]

    def same_client(path_check: PathCheck) -> bool:
        return any(
            (path.client, path.family, path.protocol, path.entry.role)
            == (
                path_check.subject.path.client,
                path_check.subject.path.family,
                path_check.subject.path.protocol,
                path_check.subject.path.entry.role,
            )
            for path in siblings(path_check)
        )

    assert offenders(same_client, filter(negative, CHECKS)) == []


def test_every_silent_check_has_a_sibling_with_the_same_backends_that_answers() -> None:
    def same_backends(path_check: PathCheck) -> bool:
        wanted = path_check.subject.path.service.backends if path_check.subject.path.service else None
        services = [c.path.service for c in path_check.subject.controls if c.path != path_check.subject.path]
        return any(service is not None and service.backends is wanted for service in services)

    assert offenders(same_backends, filter(negative, CHECKS)) == []


def test_an_outside_client_proves_that_it_is_not_masqueraded() -> None:
    def proofs(path_check: PathCheck) -> bool:
        found = [c for c in path_check.subject.controls if c.path.entry.kind is EntryKind.NODE_LISTENER]
        return [proof.accept for proof in found] == [frozenset({AddressClass.CLIENT})]

    assert offenders(proofs, (c for c in CHECKS if c.subject.path.client.vantage is Vantage.OUTSIDE)) == []


def test_a_pod_that_dials_another_node_shows_whether_it_is_masqueraded_before_it_is_believed() -> None:
    """Silence at a bare node too: to a masqueraded pod that node is as it is to any node, and says nothing of pods."""

    def listened(path_check: PathCheck) -> bool:
        return any(
            (control.path.entry.kind, control.path.entry.role, control.path.client)
            == (EntryKind.NODE_LISTENER, path_check.subject.path.entry.role, path_check.subject.path.client)
            for control in path_check.subject.controls
        )

    node_ports = [
        c
        for c in CHECKS
        if c.subject.path.entry.kind is EntryKind.NODE_PORT and c.subject.path.client.vantage is Vantage.POD
    ]
    elsewhere = [c for c in node_ports if c.subject.path.entry.role is not c.subject.path.client.role]
    silent = [c for c in elsewhere if c.subject.is_negative]
    kept = [c for c in elsewhere if c.subject.accept == {AddressClass.CLIENT}]
    assert offenders(listened, silent) == []
    assert offenders(listened, kept) == []


def test_a_host_process_expects_another_nodes_address_only_at_another_node() -> None:
    hosts = [
        c for c in CHECKS if c.subject.path.client.vantage is Vantage.NODE and AddressClass.NODE in c.subject.accept
    ]
    rewritten = [c for c in hosts if not c.id.endswith(".answers") and c.level is not Level.RECORD]
    at_a_node = (EntryKind.NODE_PORT, EntryKind.SECOND_ADDRESS)
    assert offenders(lambda c: c.subject.path.entry.kind in at_a_node, rewritten) == []
    assert offenders(lambda c: c.subject.path.entry.role is not c.subject.path.client.role, rewritten) == []


def test_no_check_is_its_own_control() -> None:
    assert (
        offenders(
            lambda path_check: path_check.subject.path not in [control.path for control in path_check.subject.controls]
        )
        == []
    )


def test_every_check_explains_itself() -> None:
    for path_check in CHECKS:
        text = explain(path_check)
        assert path_check.id in text
        assert " ".join(path_check.requirement.split()) in " ".join(text.split())


def test_every_check_is_json() -> None:
    for path_check in CHECKS:
        assert sorted(json.loads(json.dumps(path_check.as_json()))) == sorted(JSON_FIELDS.split())


# --------------------------------------------------------------------------------------------- what the issue asks for
def test_local_from_outside_is_core_where_the_api_says_so() -> None:
    """But for SCTP, which an add-on need not carry, and for what the API leaves to the implementation."""
    left_to_others = {EntryKind.SECOND_ADDRESS}

    def core(path_check: PathCheck) -> bool:
        service = path_check.subject.path.service
        free = (
            service
            and (service.ranges or service.families)
            and (path_check.subject.is_negative or path_check.level is Level.RECORD)
        )
        # load balancers may leave control planes out
        left_out = (
            service
            and service.backends is Backends.CONTROL_PLANE
            and path_check.subject.path.entry.kind is EntryKind.VIP
        )
        header = service and service.reports is not Claim.NOTHING  # no header is the API's
        return path_check.level is Level.CORE or bool(free) or bool(left_out) or bool(header)

    local = (
        path_check
        for path_check in CHECKS
        if path_check.subject.path.service
        and path_check.subject.path.service.policy is TrafficPolicy.LOCAL
        and path_check.subject.path.client.vantage is Vantage.OUTSIDE
        and path_check.subject.path.protocol is not Protocol.SCTP
        and path_check.subject.path.entry.kind not in left_to_others
    )
    assert offenders(core, local) == []


def test_a_load_balancer_of_one_family_is_not_asked_for_a_service_that_requires_both() -> None:
    both = {family.value.lower() for family in Family}
    at_vips = [each for each in CHECKS if each.subject.balanced and each.subject.path.service]
    required = [each.id for each in at_vips if each.subject.balanced >= both]
    assert required == [each.id for each in at_vips if ".first-ipv6." in each.id] != []


def test_sctp_is_never_core() -> None:
    assert (
        offenders(lambda c: c.level is not Level.CORE, (c for c in CHECKS if c.subject.path.protocol is Protocol.SCTP))
        == []
    )


def test_the_matrix_has_every_axis() -> None:
    paths = [path_check.subject.path for path_check in CHECKS]
    services = [path.service for path in paths if path.service]
    assert {path.protocol for path in paths} == set(Protocol)
    assert {path.family for path in paths} == set(Family)
    assert {path.entry.kind for path in paths} == set(EntryKind) - {EntryKind.NODE_LISTENER}
    assert {path.claim for path in paths} == set(Claim)
    assert {service.backends for service in services} == set(Backends)
    assert {path_check.subject.spread for path_check in CHECKS} == {Spread.ANY, Spread.ONE}
    assert {path.client.name for path in paths} >= {"outside-1", "outside-2", "backend"}
    assert {(path.client.vantage, path.client.role) for path in paths} >= {
        (vantage, role) for vantage in (Vantage.POD, Vantage.NODE) for role in (Role.ENDPOINT_NODE, Role.OTHER_NODE)
    }


def test_every_protocol_and_family_has_the_same_regular_checks() -> None:
    """What differs by protocol is spelled out (HTTP, one socket, headers); the rest is one matrix, six times."""
    regular = [
        c
        for c in SOURCE_IP
        if c.subject.path.service and not c.subject.path.one_socket and c.subject.path.service.slug in REGULAR
    ]
    stems = {
        (protocol, family): {
            path_check.id.replace(f".{protocol.value.lower()}.{family.value.lower()}.", ".*.")
            for path_check in regular
            if (path_check.subject.path.protocol, path_check.subject.path.family) == (protocol, family)
        }
        for protocol in Protocol
        for family in Family
    }
    first, *others = stems.values()
    assert len(first) > 100
    assert all(other == first for other in others)


REGULAR = {
    *("clusterip", "clusterip.itp-local", "nodeport.cluster", "nodeport.local", "nodeport.unset"),
    *("loadbalancer.cluster", "loadbalancer.local", "loadbalancer.unset", "external-ips.cluster", "external-ips.local"),
}


def test_a_check_names_what_it_needs() -> None:
    wanted = {
        "nodeport.local.udp.ipv6.outside-2-to-second-address-of-endpoint-node": {
            "family.ipv6",
            "vantage.outside",
            "vantage.outside.two-addresses",
            "nodes.second-address.ipv6",
        },
        "nodeport.local.tcp.ipv4.host-on-other-node-to-bare-node": {"family.ipv4", "nodes.three"},
        "external-ips.local.sctp.ipv4.outside-1-to-external-ip-of-endpoint-node": {
            "family.ipv4",
            "vantage.outside",
            "sctp",
            "external-ips",
        },
        "nodeport.local.only-ipv4.tcp.ipv6.outside-1-to-endpoint-node": {
            "family.ipv6",
            "families.dual",
            "vantage.outside",
        },
    }
    needed = {identity: {n for n in by_id(identity).features if not n.startswith(OF_VERSIONS)} for identity in wanted}
    assert needed == wanted
