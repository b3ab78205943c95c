"""Diagnosis of failures on paths: where to look first, by the evidence. A hint, not a proof. Pure."""

from collections.abc import Callable
from dataclasses import dataclass

from esipp.checks.check import Verdict
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
        on: the checks that it applies to.
    """

    expected: frozenset[AddressClass]
    shown: frozenset[AddressClass]
    look: str
    on: Callable[[PathCheck], bool] = _anywhere


CLIENT, NODE = frozenset({AddressClass.CLIENT}), frozenset({AddressClass.NODE})
BALANCER, HAIRPIN = frozenset({AddressClass.LOAD_BALANCER}), frozenset({AddressClass.HAIRPIN})
ANSWERED = frozenset(AddressClass) - NO_ANSWER


def _service(path_check: PathCheck) -> Service | None:
    return path_check.subject.path.service


def _local(path_check: PathCheck) -> bool:
    service = _service(path_check)
    return service is not None and service.policy is TrafficPolicy.LOCAL and not _cluster_ip(path_check)


def _cluster_ip(path_check: PathCheck) -> bool:
    return path_check.subject.path.entry.kind is EntryKind.CLUSTER_IP


def _from_a_host(path_check: PathCheck) -> bool:
    return path_check.subject.path.client.vantage is Vantage.NODE


def _short_circuit(path_check: PathCheck) -> bool:
    """Whether a client's own node without local endpoints must serve it in spite of Local."""
    entry, role = path_check.subject.path.entry, path_check.subject.path.client.role
    own = entry.kind in (EntryKind.VIP, EntryKind.EXTERNAL_IP) or entry.role is role
    return _local(path_check) and own and role not in (None, Role.ENDPOINT_NODE)


def _trait(test: Callable[[Service], object]) -> Callable[[PathCheck], bool]:
    return lambda path_check: (
        path_check.subject.path.service is not None and bool(test(path_check.subject.path.service))
    )


ANOTHER_CLIENT = (
    "it is the address of another client of this run: something rewrites sources to one fixed address (an SNAT rule), "
    "or connection tracking mixes up two connections"
)

REACHED_ITSELF = "the backend reached itself, but its own node did not masquerade the packets"

ASIDE = (
    (
        "packets reached a backend",
        "the node without local endpoints forwards the traffic; the client has no answer only because the reply takes "
        "another route: look on that node for a forwarding rule other than the service proxy's, or for stale rules",
    ),
    (
        ", the client is ",
        "the load balancer trusts an address that the client claims, or reports another one: it must append the "
        "address of its own peer to the header, and must not pass on a header that it did not write",
    ),
    (
        "backends (",
        "sessionAffinity ClientIP does not hold: is it in the service proxy's rules, and does the source reach them?",
    ),
)
"""Where to look, by a part of the verdict's reason, if something other than the address class is wrong."""

BROKEN = (
    (
        "from another address",
        "the reply takes another route than the request: it bypasses the node that was dialled, or connection tracking "
        "on that node lost the flow",
    ),
    (
        "accepted, then no data",
        "a proxy on the way, or a load balancer, accepts the connection and then finds no backend",
    ),
    ("established, then reset", "a proxy on the way finds no backend, or connection tracking lost the flow"),
    ("other than the echo server", "another listener has that address and port: the answer may show which one"),
    ("not a backend of", "the traffic goes to a pod that does not belong to this Service: are the rules stale?"),
)
"""The same for a check that expects an answer: where to look if the answer itself is wrong."""

SYMPTOMS = (
    # ------------------------------------------------------------------------------------ silence that was broken
    Symptom(
        NO_ANSWER,
        ANSWERED,
        "the ClusterIP leaks to an endpoint on another node: the service proxy of the client's node ignores "
        "internalTrafficPolicy Local, or its rules are stale",
        _cluster_ip,
    ),
    Symptom(
        NO_ANSWER,
        ANSWERED,
        "neither the load balancer nor the node's service proxy applies loadBalancerSourceRanges, or the source was "
        "rewritten before they apply",
        _trait(lambda service: service.ranges),
    ),
    Symptom(
        NO_ANSWER,
        ANSWERED,
        "traffic goes to a pod that is not ready: is the EndpointSlice right (conditions.serving), and is the node's "
        "service proxy up to date?",
        _trait(lambda service: service.backends is Backends.NOT_READY and not service.publish_not_ready),
    ),
    Symptom(
        NO_ANSWER,
        ANSWERED,
        "something answers in an IP family that the Service does not have: another listener at that nodePort, or a "
        "rule that is not the service proxy's",
        _trait(lambda service: service.families),
    ),
    Symptom(
        NO_ANSWER,
        ANSWERED,
        "the node without local endpoints forwards the traffic: its service proxy ignores externalTrafficPolicy, some "
        "other rule forwards the nodePort, or the node's rules are stale (is kube-proxy alive there?)",
    ),
    # ----------------------------------------------------------------------------------------- hairpin and proxies
    Symptom(
        HAIRPIN,
        NO_ANSWER,
        "a backend cannot reach itself through its Service: hairpin mode of its bridge port is off, or nothing "
        "masquerades such packets, so the pod drops packets that carry its own address as source",
    ),
    Symptom(HAIRPIN, ANSWERED, REACHED_ITSELF),
    Symptom(
        BALANCER,
        CLIENT,
        "the proxy is bypassed: the load balancer forwards packets, or the node answers in its place (ipMode VIP)",
    ),
    Symptom(BALANCER, ANSWERED, "a node behind the load balancer rewrites the source once more: check its NAT rules"),
    # ------------------------------------------------------------------------------------------ a rewritten source
    Symptom(
        CLIENT,
        frozenset({AddressClass.OTHER}),  # the address that it forges belongs to no one in the run
        "a header that the client sends changes the address that the backend sees: something on the way, or the echo "
        "server itself, trusts it",
        lambda path_check: path_check.subject.path.claim is not Claim.NOTHING,
    ),
    Symptom(
        CLIENT,
        NODE,
        "that node masquerades: look there for a MASQUERADE or SNAT rule other than kube-proxy's "
        "(iptables-save -t nat, nft list ruleset), or for one of the network add-on for traffic into the pod network",
        lambda path_check: (
            _local(path_check) or _from_a_host(path_check)
        ),  # what its own node rewrites keeps an address of that node
    ),
    Symptom(
        CLIENT,
        NODE,
        "kube-proxy may run with masqueradeAll, or without the cluster's pod CIDR; or the network add-on masquerades "
        "traffic between pods",
    ),
    Symptom(
        CLIENT,
        NO_ANSWER,
        "the client's own node has no local endpoint and drops traffic of its own pods and processes, which it should "
        "forward: its service proxy has no short circuit for Local Services (kube-proxy's nftables mode before 1.33.6, "
        "kubernetes/kubernetes#131765), or takes them for clients outside (does it know the cluster's pod CIDR?)",
        _short_circuit,
    ),
    Symptom(
        ANSWERED,
        NO_ANSWER,
        "the node that was dialled has no rule for this Service (is its kube-proxy alive and up to date?), a packet "
        "filter or NetworkPolicy drops the traffic, or the reply takes another route",
    ),
    Symptom(NODE, CLIENT, "the data plane keeps the source under Cluster, as some eBPF ones do; the API allows that"),
    Symptom(ANSWERED, BALANCER, "the load balancer is a proxy, or it masquerades"),
    Symptom(
        ANSWERED,
        frozenset({AddressClass.POD}),
        "it is another pod's address: a proxy or gateway in a pod is on the way, or two pods have the same address",
    ),
    Symptom(ANSWERED, frozenset({AddressClass.OTHER}), "the address is unknown to this run: a NAT device on the way?"),
)


def diagnose(path_check: PathCheck, verdict: Verdict) -> str:
    """Where to look first after a failure on a path; empty if there is nothing to say."""
    if path_check.subject.accept == HAIRPIN and "from another address" in verdict.reason:
        return REACHED_ITSELF
    for words, look in ASIDE + (() if path_check.subject.is_negative else BROKEN):
        if words in verdict.reason:
            return look
    wrong = frozenset(verdict.shown) - path_check.subject.accept
    if AddressClass.OTHER in wrong and any(_of_another_client(words, path_check) for words in verdict.tally):
        return ANOTHER_CLIENT
    for symptom in SYMPTOMS:
        if symptom.expected & path_check.subject.accept and symptom.shown & wrong and symptom.on(path_check):
            return symptom.look
    return ""


def _of_another_client(words: str, path_check: PathCheck) -> bool:
    """Whether an answer showed the address of another client outside."""
    return "= client " in words and f"= client {path_check.subject.path.client.name}" not in words
