"""Texts of the continuity suite: requirements and references."""

from esipp.checks.continuity import CHECKED, NODEPORT, ONE_NODE_WITHIN, PROXIES, Event, Phase, Way, What, keeps_its_pod
from esipp.checks.disruption import Disruption
from esipp.checks.model import Protocol
from esipp.checks.stream import MTU, RECOVERS, STEADY, Reuse, StreamKind
from esipp.checks.timing import AT_ONCE, FIELD_LIMIT, PROMPT
from suites.continuity.events import SERVES_ON
from suites.references import *
from suites.streams import client_does

SUITE = "continuity"

BY_PERIOD = "no gap longer than (N+1) x period"
EXPECTED = {
    What.NO_LOSS: "no request is lost",
    What.NO_DELAY: f"no time of more than {AT_ONCE:g} s in which answers are late",
    What.GAP: BY_PERIOD,
    What.LOSSES: "no gap longer than the load balancer's bound; recorded if there is none",
    What.FAIL_OVER: "an answer within the load balancer's time for a fail-over; recorded if there is none",
    What.ONE_NODE: f"one node at a time, at the latest {ONE_NODE_WITHIN:.0f} s after the event",
    What.SOURCE: "the correct source in every answer",
    What.PROMPT: f"the correct source in every answer from {PROMPT:.0f} s after the return to Local",
    What.PLACE: "no answer from a pod that must not serve",
    What.LASTING: "no connection breaks while its pod still serves",
    What.TERMINATING: "an answer while the node says 503",
    What.JOINED_NODE: f"answers within {FIELD_LIMIT:.0f} s after the first 200, and then every time",
}

FAILS_IF = {
    What.NO_LOSS: "a node drops a connection because its pod terminates, or because it removes old rules before it "
    "adds new ones, or a load balancer sends requests to a node that cannot serve them",
    What.NO_DELAY: "a node drops all SYNs of a moment, as while its rules change, and clients send them again",
    What.GAP: "the load balancer needs more failed health checks, or probes less often, than it reports",
    What.LOSSES: "the cluster's own load balancer still sends requests to a node that cannot serve them",
    What.FAIL_OVER: "the VIP stays for too long at a node that is gone: nobody answers there",
    What.ONE_NODE: "two nodes go on to answer for one VIP: a node keeps a VIP that it has lost",
    What.SOURCE: "a node or the load balancer masquerades even one connection while pods or rules change",
    What.PROMPT: "nodes still rewrite the source for seconds after the policy is Local again",
    What.PLACE: "a node without local endpoints forwards to another node, or a node uses a pod that must not serve",
    What.LASTING: "a node flushes connection tracking, or changed rules apply to established connections",
    What.JOINED_NODE: "a node that joins says that it can serve, and does not, or loses connections once it serves",
    What.TERMINATING: "a node drops requests while its last pod terminates, although the pod still serves (KEP-1669)",
}

ASKED = (
    "one client outside opens a new connection every 100 ms on every way, and keeps three others open with an exchange "
    "every 300 ms; meanwhile the changes take place one after the other"
)

ASKED_LINK = (
    "three times a second, one client outside asks all hosts of its link who has the VIP; control: who has the "
    "addresses of the nodes"
)

BALANCERS = {
    "default": "the VIP of the cluster's own load balancer",
    "reference-ecmp": "the VIP of the reference ECMP forwarder",
    "reference-proxy": "the VIP of the reference proxy",
}


def destination(way: Way) -> str:
    """Return where requests go."""
    if way.by == NODEPORT:
        node = "the endpoint node" if way.local else "a node without local endpoints"
        return f"the nodePort of a {way.policy.value} Service on {node}"
    return f"{BALANCERS[way.by]} for a {way.policy.value} Service"


def requirement(event: Event, way: Way, what: What) -> str:
    """Return the requirement of a check."""
    return with_grace(event, _sentences(event, way, what))


def with_grace(event: Event, said: str) -> str:
    """Return a text with how long deleted pods serve, if the event deletes them with grace."""
    return f"{said.removesuffix('.')}. {SERVES_ON}" if event.graceful else said


def _sentences(event: Event, way: Way, what: What) -> str:
    meanwhile, through = event.meanwhile, destination(way)
    if what is What.NO_LOSS:
        return f"{meanwhile}, {through} loses no request."
    if what is What.NO_DELAY:
        at_once = f"answers new connections, and is late for at most {AT_ONCE:g} s at a time"
        return f"{meanwhile}, {through} {at_once}. Single SYNs may be lost and sent again."
    if what is What.GAP and event.may_lose_new:
        why = (
            "A kube-proxy that starts in another mode removes the rules of the earlier one before it writes its own: "
            "connections that are opened meanwhile may be lost."
            if event.rewrites
            else "Cilium's guide expects minimal to no impact on new connections; reports have the actual gaps."
        )
        return f"{meanwhile}, {through} has no gap longer than {FIELD_LIMIT:.0f} s. {why}"
    if what is What.GAP and event.refuses:
        return (
            f"{meanwhile}, {through} has no gap longer than N x timeout + period of health checks. The "
            "load balancer reports these values."
        )
    if what is What.GAP:
        return (
            f"{meanwhile}, {through} has no gap longer than (N+1) x health check period. The load balancer reports N "
            "and the period."
        )
    if what is What.LOSSES and by_bound(event, way):
        return (
            f"{meanwhile}, {through} has no gap longer than its bound, (N+1) x health check period. The bound "
            "comes from --bound or the profile; without one, the check only records gaps."
        )
    if what is What.LOSSES:
        return f"{meanwhile}: records lost and late requests through {through}, and the longest gap."
    if what is What.FAIL_OVER:
        return (
            f"{meanwhile}, requests through {through} are answered again within the time that the load balancer's "
            "profile promises for a fail-over. The check only records if no outage shows that "
            "the VIP was there, or if no profile promises a time."
        )
    if what is What.ONE_NODE and event.is_quiet:
        return f"Before anything changes, one node at a time answers on the link (ARP, NDP) that it has {through}."
    if what is What.ONE_NODE:
        return (
            f"{meanwhile}: at the latest {ONE_NODE_WITHIN:.0f} s after that, one node at a time answers on the link "
            f"(ARP, NDP) that it has {through}."
        )
    if what is What.PROMPT:
        return (
            f"{meanwhile}, every answer through {through} shows {expected_source(way)} from {PROMPT:.0f} s after the "
            "API server accepted the return to Local."
        )
    if what is What.LASTING and event.forgets:
        return f"{meanwhile}: records the established connections through {through} that break."
    if what is What.LASTING and event.cuts:
        return (
            f"{meanwhile}, no established connection through {through} breaks, except those through the node that is "
            f"{event.loses}, or to its pods."
        )
    if what is What.LASTING:
        return (
            f"{meanwhile}, no established connection through {through} breaks. Exception: a connection whose pod was "
            "deleted and has served for its remaining time."
        )
    if what is What.TERMINATING:
        return f"{meanwhile}, the terminating pod answers at {through} while the node's health check says 503."
    if what is What.JOINED_NODE and way.local:
        return (
            f"{meanwhile}, the nodePort of a Local Service on that node never answers. Its health check node port "
            "never says 200, and says 503 in the end."
        )
    if what is What.JOINED_NODE:
        return (
            f"{meanwhile}, the nodePort of a Cluster Service on that node answers within {FIELD_LIMIT:.0f} s after "
            "/healthz at its port 10256 first says 200. From its first answer on it answers every time until the "
            "node is taken away, and pods see a node's address."
        )
    if what is What.PLACE:
        local, changes = way.by == NODEPORT and way.local, event.changes_policy
        pod = "a local pod" if local and not changes else "a pod"
        serving = f"{pod} that is ready, or terminating and still serving"
        under_local = " Under Local, the pod is a local one." if local and changes else ""
        return f"{meanwhile}, every answer through {through} comes from {serving}.{under_local}"
    if event.changes_policy and way.local:
        return (
            f"{meanwhile}, every answer through {through} shows the source of one of the two policies. It shows "
            f"{expected_source(way)} before the change, and again once sources are stable: at the latest "
            f"{FIELD_LIMIT:.0f} s after the return to Local."
        )
    return f"{meanwhile}, every answer through {through} shows that the pod saw {expected_source(way)}."


def expected(event: Event, way: Way, what: What) -> str:
    """Return what is expected, in short."""
    if what is What.GAP and event.may_lose_new:
        return f"no gap longer than {FIELD_LIMIT:.0f} s"
    if what is What.ONE_NODE and event.is_quiet:
        return "one node at a time"
    if what is What.JOINED_NODE and way.local:
        return "no answer, and 503 at its health check node port"
    return "no gap longer than N x timeout + period" if what is What.GAP and event.refuses else EXPECTED[what]


def fails_if(event: Event, way: Way, what: What) -> str:
    """Return what makes a check fail."""
    if what is What.GAP and event.rewrites:
        return "kube-proxy does not serve in the other mode, or rules of the earlier one stay in its way"
    if what is What.JOINED_NODE and way.local:
        return "a node that joins forwards to another node, or says that it has endpoints"
    if what is What.GAP and event.restarts_data_plane:
        return "a node serves nothing while its agent starts, or no longer once the other agent has started"
    return FAILS_IF[what]


def by_bound(event: Event, way: Way) -> bool:
    """Return whether the load balancer's bound limits losses.

    It does not for a restart of its own agent, for nodes whose health checks nothing brings back in time, for a node
    that forgets connections, or is taken away with the VIP, or where pods that nobody reaches stay endpoints. It is
    that of a node that says 503: checks of one that does not answer end by their timeout.
    """
    own = event.disruption is Disruption.SPEAKER
    unbounded = own or event.forgets or event.refuses or event.joins or event.restarts_data_plane
    return way.by not in (NODEPORT, *CHECKED) and not unbounded


def expected_source(way: Way) -> str:
    """Return the address that the pod must see."""
    if not way.local:
        return "a node's address"
    return "the proxy's own address" if way.by in PROXIES else "the client's own address"


def references(event: Event, way: Way, what: What) -> tuple[Reference, ...]:
    """Return the references of a check."""
    about: dict[What, tuple[Reference, ...]] = {
        What.NO_LOSS: (DESIGN_BLACKHOLE,) if way.local else (API_ETP,),
        What.NO_DELAY: (API_ETP, RETRANSMISSION),
        What.GAP: (E2E_LAG,) if event.may_lose_new else (DESIGN_BOUND,),
        What.LOSSES: (DESIGN_BOUND,) if by_bound(event, way) else (DESIGN_BLACKHOLE,),
        What.PROMPT: (API_ETP, DESIGN_BACKWARD),
        What.FAIL_OVER: (METALLB_LAYER_2,),
        What.ONE_NODE: (METALLB_LAYER_2, METALLB_JOINS, KUBE_VIP_TWICE),
        What.SOURCE: (
            API_IP_MODE,
            KEP_1860,
        )
        if way.by in PROXIES
        else (API_ETP, _tutorial(way)),
        What.PLACE: (API_ETP, DESIGN_BLACKHOLE),
        What.LASTING: (CONNTRACK,),
        What.TERMINATING: (KEP_1669,),
        What.JOINED_NODE: (API_ETP,) if way.local else (E2E_LAG,),
    }
    return tuple(dict.fromkeys((*about[what], *event.references)))


def allowed(event: Event, stream: StreamKind) -> float:
    """Return for how many seconds a stream may be silent while new TCP connections on the same way are answered.

    If its pod has gone, they count from when its EndpointSlice no longer lists that pod.
    """
    return STEADY if event.is_quiet else stream.recovers


def stream_requirement(event: Event, way: Way, stream: StreamKind) -> str:
    """Return the requirement of a check of a stream."""
    return with_grace(event, _stream_sentences(event, way, stream))


def _stream_sentences(event: Event, way: Way, stream: StreamKind) -> str:
    there = destination(way)
    sent = f"{event.meanwhile}, a client outside {client_does(stream)}. {there[0].upper()}{there[1:]}"
    if stream.size and stream.protocol is Protocol.TCP:
        return f"{sent} completes every transfer, and every byte comes back as it was sent."
    seen = f"Pods see {expected_source(way)}"
    if stream.protocol is Protocol.TCP:
        return f"{sent} answers every time. {seen}."
    if stream.reuse is not Reuse.ONE_WAY:
        seen += f". No pod answers {stream.recovers:.0f} s after it became unready in all EndpointSlices"
    answers = "passes them on to a pod" if stream.reuse is Reuse.ONE_WAY else "answers"
    if keeps_its_pod(event, way, stream):
        seen += ". No endpoint changes, so all these datagrams reach one pod"
    if event.is_quiet:
        return f"{sent} {answers}, is never silent for {STEADY:.0f} s and loses at most one in twenty. {seen}."
    most = f"{allowed(event, stream):.0f} s"
    sent += f" {answers}, without a gap of more than {most} while it answers new TCP connections"
    counted = ", counted from when the EndpointSlice no longer lists the pod, if that has gone"
    sent += f"{counted}." if stream.keeps_port else "."
    if event.changes_policy and way.local:
        return (
            f"{sent} {seen}. While the policy is Cluster they may see a node's: until {RECOVERS:.0f} s after the "
            "return to Local or until TCP shows that it is Local again, whichever is later."
        )
    return f"{sent} {seen}."


def stream_expected(event: Event, stream: StreamKind) -> str:
    """Return what is expected, in short."""
    if stream.protocol is Protocol.TCP:
        return "every transfer complete and unchanged" if stream.size else "every answer, with the correct source"
    what = "counted by a pod" if stream.reuse is Reuse.ONE_WAY else "answered"
    return f"{what}, with the correct source, and without a gap of more than {allowed(event, stream):.0f} s"


def stream_fails_if(stream: StreamKind) -> str:
    """Return what makes a check of a stream fail."""
    if stream.ports == 1:
        return "a node confuses connections to several Services that have the same source port and pod"
    if stream.ports:
        return "connection tracking refuses a port that was used a moment ago, or a node drops connections under load"
    if stream.protocol is Protocol.TCP:
        return "large segments are dropped, reset or changed on the way: a wrong MTU, or offloads that a tunnel breaks"
    if stream.size:
        return "packets of this size are dropped: a wrong MTU, or fragments that a node does not follow"
    if stream.keeps_port:
        return "connection tracking sends this port's packets to a pod that is gone, drops them or forgets their pod"
    return "a node drops packets of new sockets although it accepts new TCP connections, or masquerades them"


def stream_references(event: Event, way: Way, stream: StreamKind) -> tuple[Reference, ...]:
    """Return the references of a check of a stream."""
    if stream.ports:
        return (API_ETP, RFC_9293)
    if stream.protocol is Protocol.TCP:
        return (API_ETP, RFC_9293, RFC_1191, RFC_8201)
    if stream.size:
        return (API_ETP, RFC_4787, *((RFC_1191, RFC_8201) if stream.size == MTU else ()))
    own = (E2E_CONNTRACK, CONNTRACK) if stream.keeps_port else (E2E_CONNTRACK,)
    own += (UDP_FLOWS_LOST,) if keeps_its_pod(event, way, stream) else ()
    return tuple(dict.fromkeys((API_ETP, *own, *event.references)))


def _tutorial(way: Way) -> Reference:
    return TUTORIAL_NODE_PORT if way.by == NODEPORT else TUTORIAL_LB


__all__ = [
    "ASKED",
    "ASKED_LINK",
    "CHECKED",
    "EXPECTED",
    "NODEPORT",
    "PROXIES",
    "SUITE",
    "Event",
    "Phase",
    "Way",
    "What",
    "by_bound",
    "expected",
    "fails_if",
    "references",
    "requirement",
    "stream_expected",
    "stream_fails_if",
    "stream_references",
    "stream_requirement",
    "with_grace",
]
