"""What a failure most likely means, by what was seen: a first place to look, not a proof."""

from dataclasses import dataclass

from esipp.model import NO_ANSWER, AddressClass, Cell, Status, TrafficPolicy
from esipp.observation import Verdict


@dataclass(frozen=True)
class Symptom:
    """A symptom and where to look: ``expected`` and ``shown`` are classes of which one must be among the row's."""

    expected: frozenset[AddressClass]
    shown: frozenset[AddressClass]
    look: str
    policy: TrafficPolicy | None = None


CLIENT, NODE = frozenset({AddressClass.CLIENT}), frozenset({AddressClass.NODE})
ANSWERED = frozenset(AddressClass) - NO_ANSWER

SYMPTOMS = (
    Symptom(
        CLIENT,
        NODE,
        "that node masquerades: look there for a MASQUERADE or SNAT rule that is not kube-proxy's "
        "(iptables-save -t nat, nft list ruleset), or one of the network add-on's for traffic into the pod network",
        TrafficPolicy.LOCAL,
    ),
    Symptom(
        CLIENT,
        NODE,
        "kube-proxy may run with masqueradeAll, or without knowing the cluster's pod CIDR; or the network add-on "
        "masquerades between pods",
    ),
    Symptom(
        NO_ANSWER,
        ANSWERED,
        "the bare node hands the traffic on: its service proxy ignores externalTrafficPolicy, or a rule beside it "
        "forwards the nodePort; the node's rules may also be stale (is kube-proxy there alive?)",
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
    Symptom(ANSWERED, frozenset({AddressClass.LOAD_BALANCER}), "the load balancer is a proxy, or masquerades"),
    Symptom(ANSWERED, frozenset({AddressClass.OTHER}), "an address of nobody in this run: a NAT device on the way?"),
)


def diagnose(cell: Cell, verdict: Verdict) -> str:
    """Where to look first; empty where there is nothing to say."""
    if verdict.status not in (Status.FAIL, Status.FLAKY):
        return ""
    policy = cell.path.service.policy if cell.path.service else None
    wrong = frozenset(verdict.shown) - cell.accept
    for symptom in SYMPTOMS:
        if symptom.policy in (None, policy) and symptom.expected & cell.accept and symptom.shown & wrong:
            return symptom.look
    return ""
