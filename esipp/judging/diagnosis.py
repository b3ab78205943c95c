"""What a failure most likely means, by what was seen and by what its siblings show: where to look, not a proof."""

from collections.abc import Callable
from dataclasses import dataclass

from esipp.checks.check import Check, Status
from esipp.checks.health import About, HealthAnswerCheck
from esipp.checks.model import (
    NO_ANSWER,
    AddressClass,
    Backends,
    Claim,
    EntryKind,
    Role,
    Service,
    TrafficPolicy,
    Vantage,
)
from esipp.checks.observation import Outcome, Verdict
from esipp.checks.path import PathCheck


def _anywhere(_: PathCheck) -> bool:
    return True


@dataclass(frozen=True)
class Symptom:
    """A symptom and where to look.

    Args:
        expected: classes of which the check must accept one.
        shown: classes of which one must be among the wrong ones that were seen.
        look: where to look.
        on: the checks it is a symptom of.
    """

    expected: frozenset[AddressClass]
    shown: frozenset[AddressClass]
    look: str
    on: Callable[[PathCheck], bool] = _anywhere


CLIENT, NODE = frozenset({AddressClass.CLIENT}), frozenset({AddressClass.NODE})
BALANCER, HAIRPIN = frozenset({AddressClass.LOAD_BALANCER}), frozenset({AddressClass.HAIRPIN})
ANSWERED = frozenset(AddressClass) - NO_ANSWER


def _service(path_check: PathCheck) -> Service | None:
    return path_check.path.service


def _local(path_check: PathCheck) -> bool:
    service = _service(path_check)
    return service is not None and service.policy is TrafficPolicy.LOCAL and not _cluster_ip(path_check)


def _cluster_ip(path_check: PathCheck) -> bool:
    return path_check.path.entry.kind is EntryKind.CLUSTER_IP


def _from_a_host(path_check: PathCheck) -> bool:
    return path_check.path.client.vantage is Vantage.NODE


def _short_circuit(path_check: PathCheck) -> bool:
    """Whether a client's own node, which has no endpoint, is to serve it in spite of Local."""
    entry, role = path_check.path.entry, path_check.path.client.role
    own = entry.kind in (EntryKind.VIP, EntryKind.EXTERNAL_IP) or entry.role is role
    return _local(path_check) and own and role not in (None, Role.ENDPOINT_NODE)


def _trait(test: Callable[[Service], object]) -> Callable[[PathCheck], bool]:
    return lambda path_check: path_check.path.service is not None and bool(test(path_check.path.service))


ANOTHER_CLIENT = (
    "it is the address of another client of this run: something rewrites sources to one fixed address (an SNAT rule), "
    "or connection tracking mixes up two connections"
)

REACHED_ITSELF = "the backend reached itself, but no rule of its own node masqueraded that"

ASIDE = (
    (
        "packets went to a backend",
        "the bare node hands the traffic on, and only because the answer takes another way back is the client left "
        "without one: look there for a rule beside the service proxy's that forwards the port, or stale ones of it",
    ),
    (
        "was told",
        "the load balancer believes what a client claims of itself, or tells something else: it must put the address "
        "of its own peer last into the header, and must not pass on a header that it did not make",
    ),
    (
        "backends (",
        "sessionAffinity ClientIP does not hold: is it in the service proxy's rules, and does the source reach them?",
    ),
)
"""By words of a verdict's reason: what is wrong besides the address class, and where to look."""

BROKEN = (
    (
        "from another address",
        "the answer does not come back by the way it was asked: the backend's reply by-passes the node that was "
        "dialled, or its connection tracking lost the flow",
    ),
    (
        "accepted, and nothing",
        "a proxy on the way, or a load balancer, accepts the connection and then finds no backend",
    ),
    ("made and then reset", "a proxy on the way that finds no backend, or connection tracking that lost the flow"),
    ("is not our echo server", "another listener has that address and port: see the answer, and who owns it"),
    ("which is no backend", "the traffic goes to a pod that is none of this service's: are its rules stale?"),
)
"""The same for a check that must be answered: what was wrong with the answer itself."""

SYMPTOMS = (
    # ------------------------------------------------------------------------------------ silence that was broken
    Symptom(
        NO_ANSWER,
        ANSWERED,
        "the ClusterIP leaks to another node's endpoint: the service proxy of the client's node ignores "
        "internalTrafficPolicy Local, or its rules are stale",
        _cluster_ip,
    ),
    Symptom(
        NO_ANSWER,
        ANSWERED,
        "loadBalancerSourceRanges are not applied: neither by the load balancer nor by the service proxy of the node; "
        "or the source was rewritten before they were asked",
        _trait(lambda service: service.ranges),
    ),
    Symptom(
        NO_ANSWER,
        ANSWERED,
        "traffic goes to a pod that is not ready: is the EndpointSlice right (conditions.serving), and the node's "
        "service proxy up to date?",
        _trait(lambda service: service.backends is Backends.NOT_READY and not service.publish_not_ready),
    ),
    Symptom(
        NO_ANSWER,
        ANSWERED,
        "something answers in a family that the service does not have: another listener at that nodePort, or a rule "
        "that is not the service proxy's",
        _trait(lambda service: service.families),
    ),
    Symptom(
        NO_ANSWER,
        ANSWERED,
        "the bare node hands the traffic on: its service proxy ignores externalTrafficPolicy, or a rule beside it "
        "forwards the nodePort; the node's rules may also be stale (is kube-proxy there alive?)",
    ),
    # ----------------------------------------------------------------------------------------- hairpin and proxies
    Symptom(
        HAIRPIN,
        NO_ANSWER,
        "a backend cannot reach itself through its service: hairpin mode of its bridge port is off, or nothing "
        "masquerades such packets, so that the pod drops what seems to come from itself",
    ),
    Symptom(HAIRPIN, ANSWERED, REACHED_ITSELF),
    Symptom(
        BALANCER,
        CLIENT,
        "the load balancer forwards, or the node answers in its stead (ipMode VIP): the proxy is by-passed",
    ),
    Symptom(BALANCER, ANSWERED, "behind the load balancer a node rewrites the source once more: see its NAT rules"),
    # ------------------------------------------------------------------------------------------ a rewritten source
    Symptom(
        CLIENT,
        frozenset({AddressClass.OTHER}),  # what it claims is nobody's address
        "what the client claims in a header changes the address that the backend sees: something on the way, or our "
        "own echo server, believes it",
        lambda path_check: path_check.path.claim is not Claim.NOTHING,
    ),
    Symptom(
        CLIENT,
        NODE,
        "that node masquerades: look there for a MASQUERADE or SNAT rule that is not kube-proxy's "
        "(iptables-save -t nat, nft list ruleset), or one of the network add-on's for traffic into the pod network",
        lambda path_check: (
            _local(path_check) or _from_a_host(path_check)
        ),  # what its own node rewrites keeps an address of that node
    ),
    Symptom(
        CLIENT,
        NODE,
        "kube-proxy may run with masqueradeAll, or without knowing the cluster's pod CIDR; or the network add-on "
        "masquerades between pods",
    ),
    Symptom(
        CLIENT,
        NO_ANSWER,
        "the client's own node has no endpoint, and drops what it should send on for its own pods and processes: its "
        "service proxy has no short circuit for a Local service (kube-proxy's nftables mode before 1.34, "
        "kubernetes/kubernetes#131765), or takes them for clients outside (does it know the cluster's pod CIDR?)",
        _short_circuit,
    ),
    Symptom(
        ANSWERED,
        NO_ANSWER,
        "the node dialled has no rule for this service (is its kube-proxy alive and up to date?), a packet filter or "
        "NetworkPolicy drops it, or the answer takes another way back",
    ),
    Symptom(
        NODE, CLIENT, "the data plane does not rewrite under Cluster, as some eBPF ones; the API does not demand it"
    ),
    Symptom(ANSWERED, BALANCER, "the load balancer is a proxy, or masquerades"),
    Symptom(
        ANSWERED,
        frozenset({AddressClass.POD}),
        "another pod's address: a proxy or gateway in a pod is on the way, or an address was given to two pods",
    ),
    Symptom(ANSWERED, frozenset({AddressClass.OTHER}), "an address of nobody in this run: a NAT device on the way?"),
)


NO_STATUS = {
    Outcome.REFUSED.value: "nobody listens at the health-check node port there, or not in this family: is the node's "
    "service proxy alive, and does it listen on all addresses of both families?",
    "timed out": "the health check is not answered in time: a packet filter drops what is sent to its port, or its "
    "listener hangs (is the node overloaded?)",
}
"""By how there was no status at all: where to look."""

STATUSES = ("200", "503")
SOMETHING_ELSE = "something else answers at the health-check node port: who listens there?"


def where_to_look(check: Check, verdict: Verdict) -> str:
    """Where to look first: by what was seen of a path; of another check, by what trips it. Empty where it is fine."""
    if isinstance(check, PathCheck):
        return diagnose(check, verdict)
    if verdict.status not in (Status.FAIL, Status.FLAKY):
        return ""
    if isinstance(check, HealthAnswerCheck) and check.about is About.STATUS:
        return _of_a_status(verdict) or check.fails_if
    return check.fails_if


def _of_a_status(verdict: Verdict) -> str:
    """Where to look if a health check has another status than the two that it may have, or none."""
    for words in verdict.tally:
        if words in NO_STATUS:
            return NO_STATUS[words]
        if words.isdigit() and words not in STATUSES:
            return SOMETHING_ELSE
    return ""


def diagnose(path_check: PathCheck, verdict: Verdict) -> str:
    """Where to look first; empty where there is nothing to say."""
    if verdict.status not in (Status.FAIL, Status.FLAKY):
        return ""
    if path_check.accept == HAIRPIN and "from another address" in verdict.reason:
        return REACHED_ITSELF
    for words, look in ASIDE + (() if path_check.is_negative else BROKEN):
        if words in verdict.reason:
            return look
    wrong = frozenset(verdict.shown) - path_check.accept
    if AddressClass.OTHER in wrong and any(_of_another_client(words, path_check) for words in verdict.tally):
        return ANOTHER_CLIENT
    for symptom in SYMPTOMS:
        if symptom.expected & path_check.accept and symptom.shown & wrong and symptom.on(path_check):
            return symptom.look
    return ""


def _of_another_client(words: str, path_check: PathCheck) -> bool:
    """Whether an answer showed the address of a client outside that did not ask."""
    return "= client " in words and f"= client {path_check.path.client.name}" not in words
