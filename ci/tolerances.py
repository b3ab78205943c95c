"""What judges tolerate without a known difference, and what leaves checks undecided: data for docs/excuses.md.

Figures come from the judges' own constants. ``seen`` names breaks of tests/broken that are noticed all the same.
"""

from dataclasses import dataclass

from esipp.checks.power import say_share
from esipp.checks.stream import CLEANED, RECOVERS, STEADY, TIMEOUT
from esipp.checks.timing import FIELD_LIMIT, FINE, GIVES_UP, PERIOD_OFF, PROMPT
from esipp.judging.controls import ALPHA, LEAST_FAULTS, MOSTLY_CONTROL
from esipp.judging.frame import FEW, OVERLOADED
from esipp.judging.timeline import BURST, BURST_SECONDS, LATE, LATE_ANSWER, MOST_GAP, SERIES, SLACK, STALE
from esipp.ledger.conclusion import MOST_UNDECIDED
from esipp.packets.capture import FEWEST_CORES
from esipp.scenarios.continuity.judge import OVERDUE
from esipp.scenarios.continuity.objects import FOUND
from esipp.scenarios.continuity.stream_judge import MOST_LOST
from esipp.scenarios.continuity.traffic import LASTING
from esipp.scenarios.endpoint_change import evidence
from esipp.scenarios.endpoint_change.judge import LEAST_CLEAR, ONE_OFF
from esipp.scenarios.paths import connections
from esipp.scenarios.paths.evidence import REMAIN
from esipp.scenarios.paths.judge import BY_CHANCE
from esipp.scenarios.paths.run import ANSWER_TIMEOUT, JUDGED_TIMEOUT, WAIT_TIMEOUT, WAITS
from esipp.scenarios.policy_change.evidence import SAMPLED


@dataclass(frozen=True)
class Tolerance:
    """Something that is not as required, and fails no check.

    Args:
        what: what is tolerated.
        why: the reason, or the evidence that it takes.
        hides: what it can still hide.
        seen: the breaks that are noticed all the same.
    """

    what: str
    why: str
    hides: str
    seen: tuple[str, ...] = ()


PASSES = (
    Tolerance(
        f"On a path that answered before, an answer may take {ANSWER_TIMEOUT:.0f} s.",
        "TCP sends a lost SYN again after 1, 3 and 7 s; a busy machine answers late. Another check compares how many "
        "answers are late with controls without a Service.",
        f"Lost SYNs and lost data, if fewer than {LEAST_FAULTS} connections or "
        f"{say_share(connections.LEAST_SHARE)} of them are late, or all in {connections.LEAST_SECONDS - 1} seconds.",
        ("three-in-a-hundred-syns-lost", "late-at-one-node", "first-data-lost-at-one-node"),
    ),
    Tolerance(
        f"A node that must be silent is asked for {JUDGED_TIMEOUT:.0f} s each time, and {WAITS} times for "
        f"{WAIT_TIMEOUT:.0f} s.",
        "Longer waits for each of hundreds of paths would take hours.",
        f"A node that answers after more than {WAIT_TIMEOUT:.0f} s.",
        ("serves-after-six-seconds", "one-worker-serves-after-six-seconds"),
    ),
    Tolerance(
        f"At a node without a role, which suite nodes alone asks, an answer may take {ANSWER_TIMEOUT:.0f} s.",
        "Its connections are too few to tell a slow node from a busy machine. Repeated SYNs are compared with those of "
        "control listeners.",
        "Answers that one such node delays after it accepted the connection, or over UDP and SCTP.",
        ("one-worker-loses-syns",),
    ),
    Tolerance(
        f"A path's control may lose {1 - MOSTLY_CONTROL:.0%} of its connections.",
        "One lost connection disproves no address. The control's own check is flaky; if there is none, all "
        "connections count.",
        "Nothing where the control has a check of its own; the verdict names the losses.",
        ("three-in-a-hundred-syns-lost",),
    ),
    Tolerance(
        f"{1 - REMAIN:.0%} of a path's connections may be set aside.",
        "The prober failed, a source port came twice, or echo server and packets contradict each other once. While "
        "policies change, only the last sets a connection aside.",
        "A fault of these connections alone.",
    ),
    Tolerance(
        f"While a policy changes, packets follow the first and the last {SAMPLED} connections of an entry between two "
        f"changes; none where the nodes are containers of a machine with fewer than {FEWEST_CORES} cores.",
        "The ledger has the packets of each, or says why there are none. All others rest on the echo server.",
        "An echo server that lies only in between, and requests that reach a backend in silence only then.",
    ),
    Tolerance(
        f"A change may take {FIELD_LIMIT:.0f} s in core checks, and {PROMPT:.0f} s in extended ones.",
        "Kubernetes' own tests wait as long for endpoints; kube-proxy needs a second or two.",
        f"A service proxy that is late by less than {PROMPT:.0f} s each time.",
        ("proxy-syncs-every-8-s", "source-rewritten-for-9-s-after-each-flip"),
    ),
    Tolerance(
        f"A health port may take as long to answer as the load balancer waits by its profile, {GIVES_UP:.0f} s if that "
        "says nothing. One answer of a port in a window may take longer.",
        "Kubernetes bounds no answer; a load balancer gives up then. A network may lose a packet at any time.",
        "A health port that hangs for less than that, or less often.",
        ("health-hangs-now-and-then", "one-worker-s-health-checks-hang"),
    ),
    Tolerance(
        f"While a policy changes, the source of either policy is right until it settles. A UDP or SCTP Service has "
        f"{RECOVERS:.0f} s from the return to Local.",
        "Services of several protocols are several objects, and nodes may write their rules in several syncs.",
        f"Datagrams that are rewritten for less than {RECOVERS:.0f} s after a policy change.",
        ("udp-rewritten-for-9-s-after-a-flip", "flip-another-address-for-a-moment"),
    ),
    Tolerance(
        f"A removed pod may answer for {SLACK} s after its node's 503, for {LATE:.0f} s after it left the "
        f"EndpointSlices, and for {STALE:.0f} s if the node never says 503.",
        "Requests in flight, and the service proxy's own lag.",
        "A stale endpoint that is used for less than that.",
        ("proxy-frozen", "health-stuck-after-the-pod-left"),
    ),
    Tolerance(
        f"While something changes, an answer may take {TIMEOUT:.0f} s; from {LATE_ANSWER} s on it counts as late.",
        "A busy machine delays two SYNs that are sent again.",
        f"Outages below {TIMEOUT:.0f} s that let a repeated SYN through.",
        ("one-connection-lost", "balancer-gap-at-each-change"),
    ),
    Tolerance(
        f"While TCP connections are answered, a stream of datagrams may be silent for {CLEANED:.0f} s after a change "
        f"(SCTP: {RECOVERS:.0f} s), or after its EndpointSlice no longer lists the pod. "
        f"While nothing changes, it may be silent for {STEADY:.0f} s and lose {MOST_LOST:.0%}.",
        "Nobody sends datagrams again. kube-proxy cleans connection tracking in the sync that changes its rules, and "
        "no node knows that a pod has gone before its EndpointSlice says so.",
        "Shorter silences, and rarer losses; a kubelet that reports the end of its pods late.",
        ("udp-ports-tied-to-a-pod-that-is-gone", "one-datagram-in-five-lost"),
    ),
    Tolerance(
        f"On each way, {LASTING} connections stay open.",
        "More would be traffic of their own.",
        "A node that breaks only some of many open connections.",
        ("connections-forgotten-after-seconds", "balancer-wanders-at-rest"),
    ),
    Tolerance(
        f"Single requests lost after a load balancer has followed are *stray*: fewer than {BURST} in {BURST_SECONDS} s "
        f"and than {SERIES} in a series. They belong to the losses between changes.",
        "A network may lose a packet at any time.",
        "A longer black hole that loses few requests.",
        ("balancer-one-in-fifty-to-a-removed-node", "balancer-slow"),
    ),
    Tolerance(
        f"Between changes, fewer than {evidence.LEAST_LOST} requests may be lost, or as many as explain the losses of "
        f"a control at nodePorts (p of {evidence.REST_P:g} or more).",
        "The control has the same client at the same time. The verdict states which loss it would detect.",
        "A smaller loss than the verdict states.",
        ("balancer-one-in-fifty-to-a-removed-node", "balancer-keeps-one"),
    ),
    Tolerance(
        f"A split of connections between nodes passes if chance explains it (p of {evidence.LEAST_P:g} or more).",
        f"Enough connections are made to detect {evidence.UNEVEN:.0%} to {1 - evidence.UNEVEN:.0%} with a power of "
        f"{evidence.LEAST_POWER}; with fewer, the check is undecided.",
        "A smaller skew.",
        ("balancer-uneven-by-a-little", "balancer-unequal"),
    ),
    Tolerance(
        f"A load balancer's health-check period may differ from its profile's by {PERIOD_OFF:.0%}.",
        "Probers share the work, and captures have gaps.",
        "A period that is wrong by less.",
        ("balancer-probes-less-often-than-its-profile-says",),
    ),
    Tolerance(
        f"A rolling update replaces the next pod when the new one has been ready for {FOUND} s (`minReadySeconds`).",
        "Under load, an old node said 503 half a second after the new pod was ready; the reference proxy had no node "
        "for 0.7 s, and closed 7 of 317 requests (docs/soak.md, run 105).",
        f"A node that serves a new pod up to {FOUND} s late, in `rolling-update`: convergence and health checks see "
        "it.",
        ("proxy-syncs-every-8-s",),
    ),
    Tolerance(
        f"A load balancer may leave nodes after {ONE_OFF} failed health check more or less than its profile says. The "
        "median of all removals counts.",
        "A health check may reach a node just as its answer changes, or as it is left; packets are lost.",
        "A threshold that is wrong by one.",
        ("balancer-needs-more-failed-checks-than-its-profile-says",),
    ),
    Tolerance(
        f"{MOST_UNDECIDED:.0%} of the extended checks may stay undecided.",
        "A machine may be busy for a moment. The result counts them.",
        "A defect that leaves few extended checks undecided and fails none.",
        ("node-cuts-host-traffic-too",),
    ),
)

UNDECIDED = (
    Tolerance(
        "Lost connections, and nothing else wrong",
        f"The same client lost as many without a Service: on a path with a chance of {BY_CHANCE:.0%} or more, in "
        f"streams of {ALPHA:g}. A node whose listener fails while others answer excuses nothing.",
        "A data plane that loses packets with and without Services.",
        ("node-cuts-host-traffic-too",),
    ),
    Tolerance(
        "Losses and late effects while a machine stands still",
        "The listeners of all nodes lost or delayed requests of the same client at that time.",
        "An outage of all nodes' host traffic and of a Service at once.",
        ("node-cuts-host-traffic-too",),
    ),
    Tolerance(
        "Late answers of Services while a machine stands still",
        f"Within {connections.NEAR:g} s the client's machine paused, or an answer without a Service was late. Late "
        "answers at other times fail if they are enough.",
        "A fault that delays Services only at those times.",
        ("first-data-lost-at-one-node",),
    ),
    Tolerance(
        "Late answers of health ports",
        f"The control listeners of all nodes took more than {FINE:.1%} of the bound, and without as much delay the "
        "answers would be within it. Or there are no control listeners.",
        "A health port that hangs only while the client's machine is busy.",
        ("one-worker-s-health-checks-hang",),
    ),
    Tolerance(
        "A time near its bound",
        f"The longest gap between two probes, or the machine's delay, exceeds {FINE:.1%} of the bound. Times far from "
        f"the bound decide all the same; a stream that pauses for {MOST_GAP:.0f} s decides nothing.",
        "Nothing: the verdict states the resolution that it reached and needs.",
        ("balancer-slow",),
    ),
    Tolerance(
        "Lateness on an overloaded machine, and nothing else wrong",
        f"For a tenth of the scenario's time, each core of the nodes' machine had {OVERLOADED:.0f} tasks or more. "
        "esipp counts them, and only where the nodes are containers of its own machine. Late are: connections without "
        f"an answer, at most {FEW:.0%} of those on a path, of one health check or of one stream; at one node of suite "
        f"`nodes` also more, if the control listeners of all nodes lost as many (p of {ALPHA:g} or more); as few "
        "requests that a node refused whose health check said 503 too late; an entry of a changed Service that gives "
        "only right answers in the end, and sometimes none; answers of a removed pod up to "
        f"{OVERDUE:.0f} s after all nodes should have known; late answers to at most {connections.BARELY:.0%} of the "
        "connections through Services, unless SYNs were sent again; unequal shares of a load balancer, as nodes answer "
        "it late; another threshold than its profile's; late answers of health ports. More silence fails, and so does "
        "any other wrong answer.",
        "A service proxy that is slow, or loses single connections, by its own fault on such a machine; the verdict "
        "states the number of tasks.",
        ("proxy-syncs-every-8-s", "source-rewritten-one-in-fifty", "source-rewritten-on-an-overloaded-machine"),
    ),
    Tolerance(
        "An unknown source at a VIP",
        "The client's address is not proven there, and every wrong source is unknown: NAT before the cluster explains "
        "it. A node's, a pod's or another client's address fails all the same.",
        "A load balancer that shows an address of its own to a client behind NAT.",
        ("private-client-masqueraded-at-a-public-vip",),
    ),
    Tolerance(
        "Silence of paths between pods",
        "Pods do not reach each other directly either, and a NetworkPolicy may deny it.",
        "A service proxy that fails exactly where the network is closed.",
    ),
    Tolerance(
        "Failures of paths through a pod with a sidecar",
        "Another container was injected into our pod. Checks that pass, pass.",
        "A fault behind the sidecar.",
    ),
    Tolerance(
        "Checks of a pod, agent or node that was replaced during the run",
        "The pod has another UID, or its node is gone. All other checks are judged.",
        "A data plane that fails only while pods or nodes are replaced, outside of the scenarios that do so.",
    ),
    Tolerance(
        "A load balancer's reaction to a wrong health check",
        "The node's own health check did not follow; it fails in a check of its own. At least "
        f"{LEAST_CLEAR:.0%} of the changes must be clear, or the whole check is undecided.",
        "A load balancer that is wrong only then.",
        ("balancer-slow-beside-a-health-check-that-lies-once",),
    ),
    Tolerance(
        "A connection that breaks where a move of the VIP does not show",
        "Something was done that may move a VIP, and the client's neighbour table has no node for it, as behind a "
        "router or a cloud's load balancer. Either pods of several nodes see the client's own address by turns. Or the "
        "speaker restarts, and may claim the VIP for a moment: too short for new connections to show it.",
        "A node that breaks open connections at that moment.",
    ),
    Tolerance(
        "Load balancers that a quota does not admit",
        "The API server refuses the Service with the name of the quota.",
        "Nothing: the reason names the quota.",
    ),
)
