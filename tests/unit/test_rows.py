"""The rows themselves: stable, complete, and each able to fail."""

import importlib
import json
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace

from esipp.checks.catalog import suite_names
from esipp.checks.check import KUBERNETES, Level
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
from esipp.checks.path import Cell, Spread
from tests.unit.world import CELLS, SOURCE_IP, by_id

JSON_FIELDS = (
    "id path requirement level suite service policy internal_policy protocol family client entry expect told spread "
    "features since references"
)


def offenders(holds: Callable[[Cell], object], cells: Iterable[Cell] = CELLS) -> list[str]:
    """The rows of which it does not hold; one test for all of them, as a test a row would cost seconds."""
    cells = list(cells)
    assert cells
    return [cell.id for cell in cells if not holds(cell)]


def negative(cell: Cell) -> bool:
    return cell.is_negative


def test_each_suite_says_what_it_is() -> None:
    told = [importlib.import_module(f"suites.{name}").__doc__ for name in suite_names()]
    assert all(told)
    assert len({*told}) == len(told)


def test_ids_are_unique_and_fit_for_files() -> None:
    assert [name for name, count in Counter(cell.id for cell in CELLS).items() if count > 1] == []
    assert offenders(lambda cell: set(cell.id) <= set("abcdefghijklmnopqrstuvwxyz0123456789.-")) == []


def test_a_path_that_is_made_from_another_has_a_key_of_its_own() -> None:
    path = by_id("nodeport.local.tcp.ipv4.outside-1-to-endpoint-node").path
    assert path.key != replace(path, family=Family.IPV6).key
    same = replace(path)
    assert (same, hash(same)) == (path, hash(path)), "whether its key was asked for makes no difference"


def test_several_backends_are_asked_of_controls_only() -> None:
    assert offenders(lambda cell: cell.spread is not Spread.SEVERAL) == []


def test_requirements_are_unique() -> None:
    assert [text for text, count in Counter(cell.requirement for cell in CELLS).items() if count > 1] == []


def test_every_row_is_complete() -> None:
    assert offenders(lambda cell: cell.requirement[0].isupper() and cell.requirement.endswith(".")) == []
    assert offenders(lambda cell: cell.references) == []
    assert offenders(lambda cell: cell.suite in suite_names()) == []
    assert offenders(lambda cell: cell.id.removeprefix("interop.").startswith(cell.path.key)) == []
    assert offenders(lambda cell: f"family.{cell.path.family.value.lower()}" in cell.features) == []


def test_only_a_recorded_row_accepts_everything() -> None:
    everything = frozenset(AddressClass)
    assert offenders(lambda cell: (cell.accept == everything) == (cell.level is Level.RECORD)) == []


def test_every_silent_row_has_a_sibling_of_the_same_client_that_answers() -> None:
    def siblings(cell: Cell) -> list[Path]:
        return [control.path for control in cell.controls if control.path.service is not None]

    def same_client(cell: Cell) -> bool:
        return any(
            (path.client, path.family, path.protocol, path.entry.role)
            == (cell.path.client, cell.path.family, cell.path.protocol, cell.path.entry.role)
            for path in siblings(cell)
        )

    assert offenders(same_client, filter(negative, CELLS)) == []


def test_every_silent_row_has_a_sibling_with_the_same_backends_that_answers() -> None:
    def same_backends(cell: Cell) -> bool:
        wanted = cell.path.service.backends if cell.path.service else None
        services = [c.path.service for c in cell.controls if c.path != cell.path]
        return any(service is not None and service.backends is wanted for service in services)

    assert offenders(same_backends, filter(negative, CELLS)) == []


def test_an_outside_client_proves_that_it_is_not_masqueraded() -> None:
    def proofs(cell: Cell) -> bool:
        found = [c for c in cell.controls if c.path.entry.kind is EntryKind.NODE_LISTENER]
        return [proof.accept for proof in found] == [frozenset({AddressClass.CLIENT})]

    assert offenders(proofs, (c for c in CELLS if c.path.client.vantage is Vantage.OUTSIDE)) == []


def test_a_pod_that_dials_another_node_shows_whether_it_is_masqueraded_before_it_is_believed() -> None:
    """Silence at a bare node too: to a masqueraded pod that node is as it is to any node, and says nothing of pods."""

    def listened(cell: Cell) -> bool:
        return any(
            (control.path.entry.kind, control.path.entry.role, control.path.client)
            == (EntryKind.NODE_LISTENER, cell.path.entry.role, cell.path.client)
            for control in cell.controls
        )

    node_ports = [c for c in CELLS if c.path.entry.kind is EntryKind.NODE_PORT and c.path.client.vantage is Vantage.POD]
    elsewhere = [c for c in node_ports if c.path.entry.role is not c.path.client.role]
    silent = [c for c in elsewhere if c.is_negative]
    kept = [c for c in elsewhere if c.accept == {AddressClass.CLIENT}]
    assert offenders(listened, silent) == []
    assert offenders(listened, kept) == []


def test_a_host_process_expects_another_nodes_address_only_at_another_node() -> None:
    hosts = [c for c in CELLS if c.path.client.vantage is Vantage.NODE and AddressClass.NODE in c.accept]
    rewritten = [c for c in hosts if not c.id.endswith(".answers") and c.level is not Level.RECORD]
    at_a_node = (EntryKind.NODE_PORT, EntryKind.SECOND_ADDRESS)
    assert offenders(lambda c: c.path.entry.kind in at_a_node, rewritten) == []
    assert offenders(lambda c: c.path.entry.role is not c.path.client.role, rewritten) == []


def test_no_row_is_its_own_control() -> None:
    assert offenders(lambda cell: cell.path not in [control.path for control in cell.controls]) == []


def test_every_row_explains_itself() -> None:
    for cell in CELLS:
        text = explain(cell)
        assert cell.id in text
        assert " ".join(cell.requirement.split()) in " ".join(text.split())


def test_every_row_is_json() -> None:
    for cell in CELLS:
        assert sorted(json.loads(json.dumps(cell.as_json()))) == sorted(JSON_FIELDS.split())


# --------------------------------------------------------------------------------------------- what the issue asks for
def test_local_from_outside_is_core_where_the_api_says_so() -> None:
    """But for SCTP, which an add-on need not carry, and for what the API leaves to the implementation."""
    left_to_others = {EntryKind.SECOND_ADDRESS}

    def core(cell: Cell) -> bool:
        service = cell.path.service
        free = service and (service.ranges or service.families) and (cell.is_negative or cell.level is Level.RECORD)
        # load balancers may leave control planes out
        left_out = service and service.backends is Backends.CONTROL_PLANE and cell.path.entry.kind is EntryKind.VIP
        return cell.level is Level.CORE or bool(free) or bool(left_out)

    local = (
        cell
        for cell in CELLS
        if cell.path.service
        and cell.path.service.policy is TrafficPolicy.LOCAL
        and cell.path.client.vantage is Vantage.OUTSIDE
        and cell.path.protocol is not Protocol.SCTP
        and cell.path.entry.kind not in left_to_others
    )
    assert offenders(core, local) == []


def test_sctp_is_never_core() -> None:
    assert offenders(lambda c: c.level is not Level.CORE, (c for c in CELLS if c.path.protocol is Protocol.SCTP)) == []


def test_the_matrix_has_every_axis() -> None:
    paths = [cell.path for cell in CELLS]
    services = [path.service for path in paths if path.service]
    assert {path.protocol for path in paths} == set(Protocol)
    assert {path.family for path in paths} == set(Family)
    assert {path.entry.kind for path in paths} == set(EntryKind) - {EntryKind.NODE_LISTENER}
    assert {path.claim for path in paths} == set(Claim)
    assert {service.backends for service in services} == set(Backends)
    assert {cell.spread for cell in CELLS} == {Spread.ANY, Spread.ONE}
    assert {path.client.name for path in paths} >= {"outside-1", "outside-2", "backend"}
    assert {(path.client.vantage, path.client.role) for path in paths} >= {
        (vantage, role) for vantage in (Vantage.POD, Vantage.NODE) for role in (Role.ENDPOINT_NODE, Role.OTHER_NODE)
    }


def test_every_protocol_and_family_has_the_same_regular_rows() -> None:
    """What differs by protocol is spelled out (HTTP, one socket, headers); the rest is one matrix, six times."""
    regular = [c for c in SOURCE_IP if c.path.service and not c.path.one_socket and c.path.service.slug in REGULAR]
    stems = {
        (protocol, family): {
            cell.id.replace(f".{protocol.value.lower()}.{family.value.lower()}.", ".*.")
            for cell in regular
            if (cell.path.protocol, cell.path.family) == (protocol, family)
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


def test_a_row_names_what_it_needs() -> None:
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
    needed = {identity: {n for n in by_id(identity).features if not n.startswith(KUBERNETES)} for identity in wanted}
    assert needed == wanted
