"""Checks of clients at other places than those of the source IP suite. Data only.

Two are outside: one in another subnet behind a router, as real clients are, and one behind NAT. Three are inside: a
second pod on the other node, and a pod and a host process on a control plane node. Pods and host processes on the bare
node are in the interoperability suite.

The full product of these clients with entries, nodes, protocols, families and policies would double a run. So what
users rely on most is asked of each client outside in full, and a covering design chooses the rest. ``esipp plan`` says
how much of the product it is.
"""

from collections.abc import Iterator
from itertools import product

from esipp.checks.covering import Design, cover
from suites.needs import needs
from suites.path_checks import *
from suites.source_ip.connections import connections_checks

Checks = Iterator[PathCheck]
Row = tuple[Client, EntryKind, Role | None, Protocol, Family, TrafficPolicy | None]
"""A path in the words of the design: client, entry, its node, protocol, family, policy (None: unset)."""

SUITE = "vantages"
FACTORS = ("client", "entry", "node", "protocol", "family", "policy")
BEHIND = (OUTSIDE_ROUTED, OUTSIDE_NAT)
CLIENTS = (*BEHIND, SECOND_POD_ON_OTHER_NODE, POD_ON_CONTROL_PLANE, HOST_ON_CONTROL_PLANE)
ROLES: dict[EntryKind, tuple[Role | None, ...]] = {
    EntryKind.NODE_PORT: tuple(Role),
    EntryKind.SECOND_ADDRESS: (Role.ENDPOINT_NODE, Role.BARE_NODE),
    EntryKind.EXTERNAL_IP: (Role.ENDPOINT_NODE, Role.BARE_NODE),
    EntryKind.VIP: (None,),
    EntryKind.CLUSTER_IP: (None,),
}
POLICIES = (CLUSTER, LOCAL, None)
SEED = 23
"""Of the design. It is data, so that runs of one version ask the same and can be compared."""


def is_asked(row: Row) -> bool:
    """Return whether some check could be about this path."""
    client, kind, role, _, _, policy = row
    outside = client.vantage is Vantage.OUTSIDE
    if kind is EntryKind.CLUSTER_IP:
        return not outside
    if kind is EntryKind.SECOND_ADDRESS:  # as in the source IP suite
        known = {(Role.ENDPOINT_NODE, LOCAL), (Role.BARE_NODE, CLUSTER)} | (
            {(Role.BARE_NODE, LOCAL)} if outside else set()
        )
        return (role, policy) in known
    return True


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
        yield path_check(path, NODE_IP, Level.EXTENDED, tutorial, PROXIER)
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


ROWS: tuple[Row, ...] = tuple(
    row
    for client, (kind, roles), protocol, family, policy in product(CLIENTS, ROLES.items(), Protocol, FAMILIES, POLICIES)
    for role in roles
    if is_asked(row := (client, kind, role, protocol, family, policy))
)
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

DESIGN = Design(
    FACTORS,
    ROWS,
    cover(ROWS, SEED, FULL),
    path_of,
    lambda row: checks_of(path_of(row)),
    {"node": "no node", "policy": "unset policy"},
)

PATH_CHECKS: tuple[PathCheck, ...] = tuple(check for row in DESIGN.rows for check in checks_of(path_of(row)))


def together() -> Iterator[Check]:
    """Yield the checks of what connections of the clients outside show together; both clients must be there."""
    for check in connections_checks(check for check in PATH_CHECKS if check.subject.path.client in BEHIND):
        clients = [needs(client=client, family=check.subject.family) for client in BEHIND]
        yield replace(check, features=check.features.union(*clients))


CHECKS: tuple[Check, ...] = tuple(
    replace(check, id=f"vantage.{check.id}", suite=SUITE) for check in (*PATH_CHECKS, *together())
)
