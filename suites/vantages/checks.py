"""Checks of clients at other places than those of the source IP suite, and a covering design of all clients. Data only.

Two clients are outside: one in another subnet behind a router, as real clients are, and one behind NAT. Three are
inside: a second pod on the other node, and a pod and a host process on a control plane node.

The full product of all clients with entries, nodes, protocols, families and policies would take several times as long
as a run. So what users rely on most is asked of each client outside in full. A covering design adds the pairs of values
that no other path has, for the clients of the other suites, too. ``esipp plan`` says how much of the product it is.
"""

from collections.abc import Callable, Iterator
from itertools import product

from esipp.checks.covering import Design, cover
from suites.interoperability import inside
from suites.needs import needs
from suites.path_checks import *
from suites.source_ip import checks as source_ip
from suites.source_ip.connections import connections_checks

Checks = Iterator[PathCheck]
Row = tuple[Client, EntryKind, Role | None, Protocol, Family, TrafficPolicy | None]
"""A path in the words of the design: client, entry, its node, protocol, family, policy (None: unset)."""

SUITE = "vantages"
FACTORS = ("client", "entry", "node", "protocol", "family", "policy")
BEHIND = (OUTSIDE_ROUTED, OUTSIDE_NAT)
CLIENTS = (*BEHIND, SECOND_POD_ON_OTHER_NODE, POD_ON_CONTROL_PLANE, HOST_ON_CONTROL_PLANE)
"""The clients that only this suite has."""

EVERY_CLIENT = (*EVERYONE, *ON_BARE_NODE, *CLIENTS)
OF_A_NODE = tuple(Role)
NO_NODE = (None,)
NODES: dict[EntryKind, tuple[Role | None, ...]] = {
    EntryKind.NODE_PORT: OF_A_NODE,
    EntryKind.SECOND_ADDRESS: OF_A_NODE,
    EntryKind.EXTERNAL_IP: OF_A_NODE,
    EntryKind.VIP: NO_NODE,
    EntryKind.CLUSTER_IP: NO_NODE,
}
POLICIES = (CLUSTER, LOCAL, None)
SEED = 23
"""Of the design. It is data, so that runs of one version ask the same and can be compared."""


def why_not(row: Row) -> str:
    """Return why the product leaves a path out; empty if it has it."""
    client, kind, role, _, _, policy = row
    outside = client.vantage is Vantage.OUTSIDE
    dialled = role in (None, Role.ENDPOINT_NODE, Role.BARE_NODE)
    if kind is EntryKind.CLUSTER_IP and outside:
        return "no route leads from outside to a ClusterIP"
    if kind is EntryKind.EXTERNAL_IP and not dialled:
        return "the externalIPs of a run are addresses of the endpoint node and of the bare node"
    if kind is EntryKind.SECOND_ADDRESS and not dialled:
        return "the suite nodes dials every further address of each node"
    if kind is EntryKind.SECOND_ADDRESS and role is Role.BARE_NODE and policy is LOCAL and not outside:
        return "no document says how a bare node treats clients inside at its second address under Local"
    return ""


def path_of(row: Row) -> Path:
    """Return the path of a row, on the Services that the source IP suite has anyway."""
    client, kind, role, protocol, family, policy = row
    service = {
        EntryKind.VIP: Service(ServiceType.LOAD_BALANCER, policy),
        EntryKind.EXTERNAL_IP: Service(ServiceType.CLUSTER_IP, policy, external_ips=True),
    }.get(kind, Service(ServiceType.NODE_PORT, policy))
    return Path(client, Entry(kind, role), protocol, family, service)


def checks_of(path: Path) -> Checks:
    """Yield the checks of a path, by the rules of the source IP suite."""
    client, entry = path.client, path.entry
    kind, outside = entry.kind, client.vantage is Vantage.OUTSIDE
    tutorial = {EntryKind.VIP: TUTORIAL_LB, EntryKind.EXTERNAL_IP: API_EXTERNAL_IPS}.get(kind, TUTORIAL_NODE_PORT)
    local = path.service is not None and path.service.policy is LOCAL
    if kind is EntryKind.CLUSTER_IP:  # the external policy does not apply here
        yield path_check(path, CLIENT_IP, Level.CORE, TUTORIAL_CLUSTER_IP)
    elif not local and kind is EntryKind.SECOND_ADDRESS:
        _, rewrites = answers_and_rewrites(path, tutorial)
        yield rewrites
    elif not local:
        yield from answers_and_rewrites(path, tutorial)
    elif kind is EntryKind.VIP or (kind is EntryKind.EXTERNAL_IP and not outside):
        yield path_check(path, CLIENT_IP, Level.CORE, API_ETP, tutorial)
    elif entry.role is Role.ENDPOINT_NODE:
        level = Level.EXTENDED if kind is EntryKind.SECOND_ADDRESS else Level.CORE
        yield path_check(path, CLIENT_IP, level, API_ETP, tutorial)
    elif entry.role is client.role:  # only kube-proxy promises this short circuit for nodePorts
        yield path_check(path, CLIENT_IP, Level.EXTENDED, API_ETP, PROXIER)
    else:
        second = kind is EntryKind.SECOND_ADDRESS
        also = frozenset({"node-ports.all-addresses"} if second else ())
        yield silent_at_bare_node(path, API_ETP, tutorial, DESIGN_BLACKHOLE, also=also)


EVERY_ROW: tuple[Row, ...] = tuple(
    (client, kind, role, protocol, family, policy)
    for client, (kind, roles), protocol, family, policy in product(
        EVERY_CLIENT, NODES.items(), Protocol, FAMILIES, POLICIES
    )
    for role in roles
)
ROWS = tuple(row for row in EVERY_ROW if not why_not(row))
EXCLUDED = tuple((row, why) for row in EVERY_ROW if (why := why_not(row)))


def as_in_source_ip(row: Row) -> bool:
    """Return whether the source IP suite asks second addresses in this way."""
    _, kind, role, _, _, policy = row
    usual = {(Role.ENDPOINT_NODE, LOCAL), (Role.BARE_NODE, LOCAL), (Role.BARE_NODE, CLUSTER)}
    return kind is not EntryKind.SECOND_ADDRESS or (role, policy) in usual


KEPT = (NODE_PORT_LOCAL, LB_LOCAL)
FULL = tuple(
    row
    for row in ROWS
    if row[0] in BEHIND
    and path_of(row).service in KEPT
    and row[2] in (None, Role.ENDPOINT_NODE)
    and row[1] is not EntryKind.SECOND_ADDRESS
)
"""What is asked in full: nodePort and VIP under Local, where each client outside must be seen as itself."""

_ASKED = {check.subject.path for check in (*source_ip.PATH_CHECKS, *inside.CHECKS)}
ELSEWHERE = tuple(row for row in ROWS if path_of(row) in _ASKED)
"""The paths of other suites."""

OF_THESE_CLIENTS = cover([row for row in ROWS if row[0] in CLIENTS and as_in_source_ip(row)], SEED, FULL)
"""A design of its own, as runs before there was one of all clients have it: their checks stay the same."""

LACKING: tuple[Callable[[Row], bool], ...] = (
    lambda row: row[1] is EntryKind.SECOND_ADDRESS,
    lambda row: row[3] is Protocol.SCTP,
    lambda row: Role.CONTROL_PLANE in (row[0].role, row[2]),
    lambda row: row[4] is Family.IPV6,
)
"""The paths that many clusters do not have. The design has every pair that is possible without them, too."""

DESIGN = Design(
    FACTORS,
    ROWS,
    cover(ROWS, SEED, (*ELSEWHERE, *OF_THESE_CLIENTS), LACKING),
    path_of,
    lambda row: checks_of(path_of(row)),
    {"node": "no node", "policy": "unset policy"},
    elsewhere=frozenset(ELSEWHERE),
    excluded=EXCLUDED,
)

PATH_CHECKS: tuple[PathCheck, ...] = tuple(check for row in DESIGN.own for check in checks_of(path_of(row)))


def together() -> Iterator[Check]:
    """Yield the checks of what connections of the clients outside show together; both clients must be there."""
    for check in connections_checks(check for check in PATH_CHECKS if check.subject.path.client in BEHIND):
        clients = [needs(client=client, family=check.subject.family) for client in BEHIND]
        yield replace(check, features=check.features.union(*clients))


CHECKS: tuple[Check, ...] = tuple(
    replace(check, id=f"vantage.{check.id}", suite=SUITE) for check in (*PATH_CHECKS, *together())
)
