"""Checks of isolation and of policy changes: Services over the same pods, while policies change. Data only.

Isolation checks repeat checks of the source IP suite for unchanged Services, while other Services change policy. Every
answer counts. Policy change checks are about the Services that change.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace

from esipp.checks.check import Level
from esipp.checks.connections import Aspect
from esipp.checks.known_differences import KnownDifference
from esipp.checks.policy_change import (
    PLACES,
    At,
    ChangingService,
    Isolated,
    IsolatedConnections,
    IsolatedHealth,
    PolicyChange,
    PolicyClaim,
)
from esipp.checks.timing import PROMPT
from suites.known_differences.balancers import by_proxy
from suites.known_differences.cilium import AFTER_POLICY_CHANGES, POLICY_CHANGES_IN_DSR
from suites.needs import needs
from suites.path_checks import *
from suites.path_checks import NODES, requirement
from suites.references import *
from suites.requirement import Requirement
from suites.source_ip.connections import connections_checks

SERVICES = {
    ChangingService.NODE_PORT: "a NodePort Service",
    ChangingService.DEFAULT: "a LoadBalancer Service",
    ChangingService.ECMP: "a LoadBalancer Service (ECMP forwarder)",
}
ENTRIES = {
    At.ENDPOINT_NODE: "the nodePort of {service} on the endpoint node",
    At.BARE_NODE: "the nodePort of {service} on a node without local endpoints",
    At.VIP: "the VIP of {service}",
}
ANSWERED = "Under Local the pod sees the client's own address; under Cluster the client gets an answer"
NEW_POLICY = {
    At.ENDPOINT_NODE: ANSWERED,
    At.BARE_NODE: "Under Local the client gets no answer; under Cluster it gets one",
    At.VIP: ANSWERED,
}
NEVER = "It never comes from another Service's pod, and never shows {address}"
OF_NO_ACCEPTING_NODE = NEVER.format(address="a third address or that of a node that did not accept the connection")
ON_BARE = (
    NEVER.format(address="a third address")
    + ". The node either rewrites the source to its own address or does not answer"
)

ENTRY_CLAIMS: dict[PolicyClaim, Requirement] = {
    PolicyClaim.SETTLES: Requirement(
        "When externalTrafficPolicy changes, new connections to {entry} follow the new policy within 30 s and until "
        "the next change. {new_policy}",
        "follows the new policy within 30 s, and stays so",
        "nodes ignore policy changes of existing Services, or some do; a node without local endpoints still serves "
        "after the return to Local; the load balancer does not follow",
        (DESIGN_BACKWARD, API_ETP, E2E_LAG),
    ),
    PolicyClaim.PROMPT: Requirement(
        f"When externalTrafficPolicy changes, new connections to {{entry}} follow the new policy from {PROMPT:.0f} s "
        "after the API server accepted the change. {new_policy}",
        f"follows the new policy within {PROMPT:.0f} s",
        "a node follows the old policy for seconds after each change: it rewrites, serves or drops",
        (DESIGN_BACKWARD, API_ETP, PROXIER),
        Level.EXTENDED,
    ),
    PolicyClaim.REWRITES: Requirement(
        "When externalTrafficPolicy changes to Cluster, the node that accepts connections to {entry} rewrites the "
        "source of each one within 30 s and until the next change",
        "an address of the node that accepted it, within 30 s",
        "rules of Local remain next to those of Cluster",
        (PROXIER, E2E_LOAD_BALANCERS),
        Level.EXTENDED,
    ),
    PolicyClaim.OTHERWISE: Requirement(
        "While externalTrafficPolicy changes, every answer at {entry} follows one of the two policies. {never}",
        "only what one of the two policies allows",
        "rules of both policies apply together for a moment: a node forwards connections without rewriting, "
        "masquerades them with another address, or returns to the old policy",
        (DESIGN_BACKWARD, API_ETP),
    ),
    PolicyClaim.TIME: Requirement(
        "Records the time from a policy change until new connections to {entry} follow it, in both directions",
        "recorded",
        "",
        (DESIGN_BACKWARD,),
        Level.RECORD,
    ),
    PolicyClaim.NO_LOSS: Requirement(
        "While externalTrafficPolicy changes, {entry} loses no new connection, because both policies lead to the local "
        "pod",
        "every connection answered",
        "a node removes the old rules of a Service before it adds the new ones",
        (DESIGN_BACKWARD, PROXIER),
        Level.EXTENDED,
    ),
}
HEALTH_CLAIMS: dict[PolicyClaim, Requirement] = {
    PolicyClaim.HEALTH_CLOSED: Requirement(
        "When externalTrafficPolicy of {service} changes to Cluster, every node stops answering its health check "
        "within 30 s, and does not answer until the return to Local",
        "no answer on any node within 30 s",
        "a node keeps the listener of a Service that has no health-check node port any more, and misleads load "
        "balancers that still probe it",
        (API_HEALTH_PORT, E2E_LOAD_BALANCERS),
    ),
    PolicyClaim.HEALTH_AGAIN: Requirement(
        "When externalTrafficPolicy of {service} returns to Local, its health check answers 200 on the endpoint node "
        "and 503 on other nodes within 30 s, and until the next change",
        "200 on the endpoint node and 503 elsewhere within 30 s",
        "the API server allocates no port on the return, or a node does not reopen it or gives an outdated answer",
        (API_HEALTH_PORT, E2E_LOAD_BALANCERS),
    ),
}
HEALTH_PROMPT = Requirement(
    f"Every node opens or closes the health-check node port of {{service}} within {PROMPT:.0f} s after the API server "
    "accepted a policy change",
    f"closed or open according to the new policy within {PROMPT:.0f} s",
    "a node follows seconds late, so load balancers rely on an outdated answer",
    (API_HEALTH_PORT, PROXIER),
    Level.EXTENDED,
)
KEPT_CLAIMS: dict[At, Requirement] = {
    At.ENDPOINT_NODE: Requirement(
        "Connections opened under Local through the endpoint node survive a change to Cluster and back, and the pod "
        "still sees the client's own address",
        "every exchange answered, with the same source",
        "a policy change flushes connection tracking, or the new rules apply to established connections",
        (DESIGN_BACKWARD, CONNTRACK),
        Level.EXTENDED,
    ),
    At.BARE_NODE: Requirement(
        "Connections opened under Cluster through a node without local endpoints survive a change to Local, and the "
        "pod still sees that node's address",
        "every exchange answered, with the same source",
        "a node without local endpoints drops established connections, or forwards them without rewriting",
        (DESIGN_BACKWARD, CONNTRACK),
        Level.EXTENDED,
    ),
}
ISOLATED = "{claim} This holds while other Services with the same pods change their policy."
ISOLATED_HEALTH = (
    "While other Services with the same pods change their policy, the health check of an unchanged Local Service "
    "answers {status} on {node}, every time."
)

ISOLATED_ASKED = (
    "every client opens new connections at a fixed rate while a LoadBalancer and a NodePort Service over the same pods "
    "change between Local and Cluster; every answer counts"
)
ISOLATED_FAILS_IF = (
    "a change of one Service affects another one over the same pods: its rules, endpoints or source addresses"
)
ISOLATED_HEALTH_FAILS_IF = (
    "a node restarts all health checks when one Service goes, or confuses the health checks of two Services"
)
CHANGES_ASKED = (
    "externalTrafficPolicy changes from Local to Cluster and back three times, each time after nodes followed the "
    "previous change, while a client outside opens new connections at a fixed rate; all times use one clock"
)

PROXIES = by_proxy("another-source")


SUITE = "compatibility"
TCP = Protocol.TCP
NODE_PORT_UNSET, LB_UNSET = Service(ServiceType.NODE_PORT), Service(ServiceType.LOAD_BALANCER)
FROM_INSIDE = (POD_ON_OTHER_NODE, HOST_ON_OTHER_NODE)


# ------------------------------------------------------------------------------------------------------ isolation
def from_outside(family: Family) -> Iterator[PathCheck]:
    """Yield path checks of clients outside: Local keeps the source at local endpoints, Cluster answers everywhere."""
    for client in OUTSIDE:
        for service in (NODE_PORT_LOCAL, LB_LOCAL):
            yield path_check(Path(client, ENDPOINT_NODE, TCP, family, service), CLIENT_IP, Level.CORE, API_ETP)
            yield silent_at_bare_node(Path(client, BARE_NODE, TCP, family, service), API_ETP)
        yield path_check(Path(client, VIP, TCP, family, LB_LOCAL), CLIENT_IP, Level.CORE, API_ETP, TUTORIAL_LB)
        for service in (NODE_PORT_CLUSTER, NODE_PORT_UNSET):
            for entry in (ENDPOINT_NODE, BARE_NODE):
                yield from answers_and_rewrites(Path(client, entry, TCP, family, service), TUTORIAL_NODE_PORT)
        for service in (LB_CLUSTER, LB_UNSET):
            yield from answers_and_rewrites(Path(client, VIP, TCP, family, service), TUTORIAL_LB)
    here, there = EXTERNAL_IP_OF_ENDPOINT_NODE, EXTERNAL_IP_OF_BARE_NODE
    yield path_check(Path(OUTSIDE_1, here, TCP, family, EXTERNAL_IPS_LOCAL), CLIENT_IP, Level.CORE, API_ETP)
    yield silent_at_bare_node(Path(OUTSIDE_1, there, TCP, family, EXTERNAL_IPS_LOCAL), API_ETP, API_EXTERNAL_IPS)
    yield from answers_and_rewrites(Path(OUTSIDE_1, there, TCP, family, EXTERNAL_IPS_CLUSTER), API_EXTERNAL_IPS)


def from_inside(family: Family) -> Iterator[PathCheck]:
    """Yield path checks of a pod and a host process on another node: ClusterIPs, nodePorts, VIPs."""
    for client in FROM_INSIDE:
        for service in (PLAIN, NODE_PORT_LOCAL, NODE_PORT_CLUSTER, LB_LOCAL):
            path = Path(client, CLUSTER_IP, TCP, family, service)
            yield path_check(path, CLIENT_IP, Level.CORE, TUTORIAL_CLUSTER_IP)
        yield path_check(Path(client, ENDPOINT_NODE, TCP, family, NODE_PORT_LOCAL), CLIENT_IP, Level.CORE, API_ETP)
        yield silent_at_bare_node(Path(client, BARE_NODE, TCP, family, NODE_PORT_LOCAL), API_ETP)
        yield from answers_and_rewrites(Path(client, BARE_NODE, TCP, family, NODE_PORT_CLUSTER), TUTORIAL_NODE_PORT)
        yield path_check(Path(client, VIP, TCP, family, LB_LOCAL), CLIENT_IP, Level.CORE, API_ETP, DESIGN_INTEROP)
        yield from answers_and_rewrites(Path(client, VIP, TCP, family, LB_CLUSTER), TUTORIAL_LB)


def isolated(path_checks: Iterable[PathCheck]) -> Iterator[Check]:
    """Yield the same checks for the time in which other Services change policy."""
    for each in path_checks:
        of = each.subject
        client = OUTSIDE_1 if of.path.client in OUTSIDE else of.path.client  # reports show equal requirements as one
        claim = requirement(replace(of.path, client=client), of.accept, of.reported, of.spread)
        claim = claim.replace(f" over {TCP.value} and {of.path.family.value}", "")
        ours = replace(
            each,
            id=f"beside.{each.id}",
            requirement=ISOLATED.format(claim=claim),
            suite=SUITE,
            references=(DESIGN_BACKWARD, *each.references),
            fails_if=ISOLATED_FAILS_IF,
            asked=ISOLATED_ASKED,
        )
        yield ours.with_subject(Isolated(of))


def isolated_connections(path_checks: Iterable[PathCheck]) -> Iterator[Check]:
    """Yield the checks of repeated SYNs over all unchanged Services of a type, for the time of policy changes.

    Patience would hide that nodes drop the SYNs of half a second at each change of another Service.
    """
    for each in connections_checks(path_checks, (Aspect.LATE,)):
        yield replace(
            each,
            id=f"beside.{each.id}",
            requirement=ISOLATED.format(claim=each.requirement),
            suite=SUITE,
            references=(DESIGN_BACKWARD, *each.references),
            fails_if="packets to a Service are dropped at policy changes of another one, and sent again",
            asked=ISOLATED_ASKED,
        ).with_subject(IsolatedConnections(each.subject))


def isolated_health(family: Family) -> Iterator[Check]:
    """Yield health checks of the unchanged Local load balancer, on every node."""
    path = Path(OUTSIDE_1, VIP, TCP, family, LB_LOCAL)
    for place in PLACES:
        status = "200" if place is Role.ENDPOINT_NODE else "503"
        yield Check(
            id=f"beside.health.{family.value.lower()}.{place.value}",
            requirement=ISOLATED_HEALTH.format(status=status, node=NODES[place]),
            level=Level.CORE,
            suite=SUITE,
            references=(DESIGN_BACKWARD, API_ETP),
            features=needs(client=OUTSIDE_1, family=family, node=place, balancer=Balancer.DEFAULT),
            subject=IsolatedHealth(path, place, family),
            expected=status,
            fails_if=ISOLATED_HEALTH_FAILS_IF,
        )


# ------------------------------------------------------------------------------------------------- policy changes
OF_BARE_NODES = (PolicyClaim.OTHERWISE, At.BARE_NODE)
"""The claim that a node without local endpoints rewrites the source of every answer."""


def changed(
    service: ChangingService,
    claim: PolicyClaim,
    family: Family,
    said: Requirement,
    at: At | None,
    *known: KnownDifference,
    name: str = "",
) -> Check[PolicyChange]:
    """Return one check of a Service whose own policy changes."""
    words = {
        "service": SERVICES[service],
        "entry": ENTRIES[at].format(service=SERVICES[service]) if at else "",
        "new_policy": NEW_POLICY[at] if at else "",
        "never": ON_BARE if at is At.BARE_NODE else OF_NO_ACCEPTING_NODE,
    }
    where = f"{service.value}.{family.value.lower()}" + (f".{at.value}" if at else "")
    return Check(
        id=name or f"flip.{where}.{claim.value}",
        requirement=said.sentence.format(**words) + ".",
        level=said.level,
        suite=SUITE,
        references=said.references,
        features=needs(client=OUTSIDE_1, family=family, balancer=service.balancer),
        subject=PolicyChange(service, claim, family, at),
        expected=said.expected,
        fails_if=said.fails_if,
        asked=CHANGES_ASKED,
        differences=known,
    )


def at_an_entry(service: ChangingService, family: Family) -> Iterator[Check]:
    """Yield checks of new connections at each entry of the Service."""
    for at in At:
        if at is At.VIP and service.balancer is None:
            continue
        proxies = PROXIES if at is At.VIP and service is ChangingService.DEFAULT else ()
        local = (AFTER_POLICY_CHANGES,) if at is not At.BARE_NODE else POLICY_CHANGES_IN_DSR
        for claim, said in ENTRY_CLAIMS.items():
            if claim is PolicyClaim.NO_LOSS and at is not At.ENDPOINT_NODE:
                continue  # under Local other nodes must not answer, and a load balancer needs time to follow
            if claim is PolicyClaim.PROMPT and at is At.VIP:
                continue  # a load balancer follows in its own time; other checks compare that with its bound
            known = local if claim is PolicyClaim.REWRITES or (claim, at) == OF_BARE_NODES else ()
            name = f"flip.{service.value}.{family.value.lower()}.no-loss-at-endpoint-node"
            yield changed(service, claim, family, said, at, *known, *proxies, name=name if "loss" in claim else "")


def health_ports(service: ChangingService, family: Family) -> Iterator[Check]:
    """Yield checks of the health-check node port, which exists under Local only."""
    for claim, said in HEALTH_CLAIMS.items():
        name = f"flip.health-port.{service.value}.{family.value.lower()}.{claim.value}"
        yield changed(service, claim, family, said, None, name=name)
    name = f"flip.health-port.{service.value}.{family.value.lower()}.prompt"
    yield changed(service, PolicyClaim.HEALTH_PROMPT, family, HEALTH_PROMPT, None, name=name)


def open_connections(family: Family) -> Iterator[Check]:
    """Yield checks of established connections, which a policy change must not affect."""
    for at, said in KEPT_CLAIMS.items():
        yield changed(ChangingService.NODE_PORT, PolicyClaim.KEPT, family, said, at)


CHECKS: tuple[Check, ...] = (
    *(check for family in FAMILIES for check in isolated(from_outside(family))),
    *(check for family in FAMILIES for check in isolated(from_inside(family))),
    *isolated_connections(
        check for family in FAMILIES for checks in (from_outside, from_inside) for check in checks(family)
    ),
    *(check for family in FAMILIES for check in isolated_health(family)),
    *(check for service in ChangingService for family in FAMILIES for check in at_an_entry(service, family)),
    *(
        check
        for service in ChangingService
        if service.balancer
        for family in FAMILIES
        for check in health_ports(service, family)
    ),
    *(check for family in FAMILIES for check in open_connections(family)),
)
