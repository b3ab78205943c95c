"""The judge of every node and every endpoint: from the results at each target to a decision. Pure.

A check holds only if it holds at every target; a verdict names those that differ, and counts all. A node that the
client does not reach without a Service leaves the check undecided.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache

from esipp.base.plural import counted
from esipp.checks.check import Status
from esipp.checks.model import AddressClass, Family, Outcome, Protocol, TrafficPolicy
from esipp.checks.power import most_unseen, say_share
from esipp.judging.controls import BY_CHANCE, HOPS, LEAST_FAULTS, MOSTLY_CONTROL, Counts, excused
from esipp.judging.frame import Decision, few, ours_failed, undecided
from esipp.judging.in_time import Timed, control_of, decide_in_time
from esipp.judging.link_owners import decide_one_node, nodes_by_link
from esipp.judging.observation import NOTHING_TRACKED, Tracked, contradicted, say_delivered, say_witnesses, untrue
from esipp.judging.scenario import Scenario, Typical
from esipp.judging.showing import tallied
from esipp.judging.statistics import binomial_p, least_share, more_lost_p
from esipp.scenarios.every_node.evidence import (
    CLUSTER,
    HEALTH,
    LISTENER,
    LOCAL,
    PROXY,
    SOME,
    Answer,
    Dialled,
    EveryNodeEvidence,
    by_pod,
    vip_service,
)
from esipp.scenarios.every_node.subject import (
    BALANCED,
    FELL_BACK,
    FROM_LINK_LOCAL,
    FURTHER,
    INSIDE,
    UNEVEN_OVER_UDP,
    Entrance,
    EveryNode,
    EveryNodeCheck,
    Requires,
)

QUIET = (Outcome.TIMEOUT, Outcome.REFUSED, Outcome.UNREACHABLE)
MOST_NAMED = 5
"""The most targets that a verdict names."""

ENOUGH = 100
"""The fewest answers from which the shares of endpoints are judged."""

ALPHA = 1e-5
"""The chance that shares which are equal look unequal, in one check. A run has at most 30 such checks."""

SURE = 0.95

Faults = Callable[[Dialled], Counter[str]]
"""The results at a target that are not as required, by their text."""


def decide(check: EveryNodeCheck, seen: EveryNodeEvidence) -> Decision:
    """The decision on a check, with the witnesses that it rests on; none can be made if these contradict each other."""
    if cut_short := seen.cut_short(check):
        return cut_short
    rows = _rows(check, seen) if check.subject.protocol else []
    controls = [control for row in rows if row.node and row.from_outside and (control := seen.listener(row))]
    for row in (*rows, *controls):
        broken = contradicted(seen.witnesses.get(row.key, ()))[1] or untrue(seen.tracked.get(row.key, NOTHING_TRACKED))
        if broken:
            return ours_failed(check, "two witnesses that contradict each other", f"{row.where}: {broken}")
    return replace(JUDGES[check.subject.requires](check, seen), witnesses=_say_witnesses(seen, rows))


def _say_witnesses(seen: EveryNodeEvidence, rows: Sequence[Dialled]) -> str:
    """The witnesses of the connections to these targets, as text; empty for runs that had the echo server only."""
    total = sum(row.total for row in rows)
    if not total or not (seen.witnesses or seen.blind):
        return ""
    tracked = [each for row in rows if (each := seen.tracked.get(row.key))]
    agreed, contradicting = sum(each.agreed for each in tracked), sum(each.contradicted for each in tracked)
    words = next((each.words for each in tracked if each.words), "")
    witnesses = [each for row in rows for each in seen.witnesses.get(row.key, ())]
    return say_witnesses(witnesses, seen.blind, total, Tracked(agreed, contradicting, words))


# --------------------------------------------------------------------------------------------------------- all targets
def _all(check: EveryNodeCheck, seen: EveryNodeEvidence, rows: Sequence[Dialled], faults: Faults) -> Decision:
    """The decision on all targets together.

    The reason names those that differ: ``1 of 4 targets differ: esipp-worker3 (172.18.0.4): …``, or another number of
    them, ``2 of 8 targets differ: esipp-control-plane (172.18.0.2): …``.
    """
    wrong: dict[str, str] = {}
    doubts = dict(seen.unasked) if any(row.node for row in rows) else {}
    found: Counter[str] = Counter()
    whole, late = False, True
    for row in rows:
        failed = next((each for each in row.answers if each.outcome is Outcome.ERROR), None)
        if failed is not None:
            return ours_failed(check, tallied(row.tally), f"the prober failed: {failed.detail}")
        amiss = faults(row)
        found["wrong" if amiss else "right"] += 1
        if doubt := _doubt(seen, row, amiss, check.subject.requires):
            doubts[row.where] = doubt
        elif amiss:
            wrong[row.where] = tallied(amiss)
            whole = whole or amiss.total() == row.total
            late = late and _late(seen, row, amiss)
    if not rows:
        return undecided(check, _obstacle(check, seen) or "there is nothing to dial on this cluster")
    least = min(row.total for row in rows)
    observed = f"{counted(len(rows), 'target')}, {least} connections each or more: {found['right']} as required"
    if wrong:
        named = "; ".join(f"{where}: {words}" for where, words in list(wrong.items())[:MOST_NAMED])
        more = f"; and {len(wrong) - MOST_NAMED} more" if len(wrong) > MOST_NAMED else ""
        reason = f"{len(wrong)} of {len(rows)} targets differ: {named}{more}"
        fell_back = check.subject.requires is Requires.SILENT and all(row.answered for row in rows)
        status = Status.FAIL if whole else Status.FLAKY
        evidence = FELL_BACK if fell_back else ""
        return Decision(status, check.expected, observed, reason, evidence, dict(found), late=late)
    if doubts:
        named = "; ".join(f"{where}: {why}" for where, why in list(doubts.items())[:MOST_NAMED])
        return undecided(check, named, observed)
    sees = f"at each target at most {say_share(most_unseen(least))} of such connections differ, with 95 % confidence"
    return Decision(Status.PASS, check.expected, observed, tally=dict(found), sees=sees)


def _obstacle(check: EveryNodeCheck, seen: EveryNodeEvidence) -> str:
    """Why a Service has no VIP of the check's family; empty if it has, or if none is dialled."""
    subject = check.subject
    if subject.entrance is not Entrance.VIP or subject.policy is None or subject.protocol is None:
        return ""
    return seen.obstacles.get(f"{vip_service(subject.policy, subject.protocol)} {subject.family}", "")


def _doubt(seen: EveryNodeEvidence, row: Dialled, amiss: Counter[str], requires: Requires) -> str:
    """Why a target cannot be judged; empty if it can."""
    control = seen.listener(row) if row.node and row.from_outside else None
    if requires is Requires.SILENT:
        return _unproven(seen, row)
    if not amiss or not row.from_outside or not row.node:
        return ""
    if control is None:
        return "it has no control listener"
    if not control.answered:
        return f"{row.client} does not reach it without a Service: its control listener is silent as well"
    strange = [each for each in control.answered if AddressClass.CLIENT not in each.classes]
    if requires in (Requires.SOURCE, Requires.FIRST) and strange:
        return f"without a Service, its control listener saw {strange[0].source}"
    if amiss.total() == row.lost:
        return excused(Counts(row.lost, row.total), Counts(control.lost, control.total))
    return ""


def _late(seen: EveryNodeEvidence, row: Dialled, amiss: Counter[str]) -> bool:
    """Whether an overloaded machine may be the cause: few answers are missing, or as many as at the controls.

    Those of all nodes count, as chance may spare the one of this node.
    """
    silent = sum(each.count for each in row.answers if each.outcome is Outcome.TIMEOUT)
    if amiss.total() != silent:
        return False
    return few(silent, row.total) or bool(
        row.from_outside and excused(Counts(silent, row.total), seen.without_a_service(row.client))
    )


def _unproven(seen: EveryNodeEvidence, row: Dialled) -> str:
    """Why silence proves nothing; empty if a Service under Cluster answers the same client there."""
    for each in seen.rows(CLUSTER, row.entrance, row.protocol, row.family):
        if (each.node, each.client) == (row.node, row.client) and each.lost <= (1 - MOSTLY_CONTROL) * each.total:
            return ""
    return "silence proves nothing: the same client gets no answer there from a Service under Cluster"


def _service(check: EveryNodeCheck) -> str:
    """The Service whose targets a check is about."""
    subject = check.subject
    assert subject.protocol is not None
    if subject.entrance in BALANCED:
        assert subject.policy is not None
        return vip_service(subject.policy, subject.protocol)
    if subject.requires is Requires.SILENT:
        return SOME
    return LOCAL if subject.policy is TrafficPolicy.LOCAL else CLUSTER


def _rows(check: EveryNodeCheck, seen: EveryNodeEvidence, service: str = "") -> list[Dialled]:
    """The targets of a check, or those of another Service like them."""
    subject = check.subject
    assert subject.protocol is not None
    rows = seen.rows(service or _service(check), subject.entrance, subject.protocol, subject.family)
    return [row for row in rows if not row.from_outside or row.client == subject.client.name]


# ------------------------------------------------------------------------------------------------------- what is wrong
def _without_answer(row: Dialled) -> Counter[str]:
    return Counter({each.words: each.count for each in row.answers if each.outcome is not Outcome.ANSWERED})


def _unanswered(seen: EveryNodeEvidence, accept: frozenset[AddressClass]) -> Faults:
    """No answer, one of another pod, or one to another source; ``accept`` is empty for any source."""

    def faults(row: Dialled) -> Counter[str]:
        found = _without_answer(row)
        for each in row.answered:
            if each.pod not in seen.endpoints or (accept and not accept.intersection(each.classes)):
                found[each.words] += each.count
        return found

    return faults


def _answers(check: EveryNodeCheck, seen: EveryNodeEvidence) -> Decision:
    """Every target answers, and the backend sees the client or a node."""
    accept = frozenset() if check.subject.entrance in INSIDE else frozenset({AddressClass.CLIENT, AddressClass.NODE})
    rows = [row for row in _rows(check, seen) if row.service == CLUSTER or seen.endpoints_on(row.node, LOCAL)]
    return _all(check, seen, _reached(check, seen, rows), _unanswered(seen, accept))


def _source(check: EveryNodeCheck, seen: EveryNodeEvidence) -> Decision:
    """Every node with an endpoint answers, and the backend sees the client."""
    rows = [row for row in _rows(check, seen) if seen.endpoints_on(row.node, LOCAL)]
    return _all(check, seen, _reached(check, seen, rows), _unanswered(seen, frozenset({AddressClass.CLIENT})))


def _first(check: EveryNodeCheck, seen: EveryNodeEvidence) -> Decision:
    """Every node with an endpoint showed the client from the beginning, where it does so in the judged window."""
    faults = _unanswered(seen, frozenset({AddressClass.CLIENT}))
    rows = [row for row in _rows(check, seen) if row.first and not faults(row)]
    if not rows:
        return undecided(check, "no node answers as required in the judged window, so there is nothing to compare with")
    return _all(check, seen, [replace(row, answers=row.first) for row in rows], faults)


def _reached(check: EveryNodeCheck, seen: EveryNodeEvidence, rows: Sequence[Dialled]) -> list[Dialled]:
    """The targets; of further addresses, those at which the client reaches the node without a Service."""
    if check.subject.entrance not in FURTHER:
        return list(rows)
    return [row for row in rows if (control := seen.listener(row)) is not None and control.answered]


def _own_endpoint(check: EveryNodeCheck, seen: EveryNodeEvidence) -> Decision:
    """Only a node's own endpoints answer there. What is lost at a nodePort is judged with the source."""
    rows = [row for row in _rows(check, seen) if seen.endpoints_on(row.node, LOCAL)]
    inside = check.subject.entrance is Entrance.CLUSTER_IP

    def faults(row: Dialled) -> Counter[str]:
        found = _without_answer(row) if inside else Counter[str]()
        for each in row.answered:
            if seen.endpoints.get(each.pod) != row.node:
                found[f"{each.pod} on {each.node} answered"] += each.count
        return found

    if not any(row.answered for row in rows):
        return undecided(check, "no node with an endpoint answers")
    return _all(check, seen, rows, faults)


def _silent(check: EveryNodeCheck, seen: EveryNodeEvidence) -> Decision:
    """No node without an endpoint answers; else ``every-node-1 answered after 6 s x2``, of those that wait longer."""
    rows = [row for row in _rows(check, seen) if not seen.endpoints_on(row.node, SOME)]

    def faults(row: Dialled) -> Counter[str]:
        answers = Counter({each.words: each.count for each in row.answers if each.outcome not in QUIET})
        return answers or _delivered(seen, row)

    return _all(check, seen, rows, faults)


def _delivered(seen: EveryNodeEvidence, row: Dialled) -> Counter[str]:
    """The connections without any answer that reached a backend all the same; all of a target, if all followed did."""
    followed = seen.witnesses.get(row.key, ())
    number = sum(each.delivered is not None for each in followed)
    words = say_delivered(followed)
    return Counter({words: row.total if number == len(followed) else number}) if words else Counter()


def _unserved(check: EveryNodeCheck, seen: EveryNodeEvidence) -> Decision:
    """No node that the client reaches serves the port of a VIP at its own address, unless that is announced."""
    service = _service(check)
    announced = {row.address for row in seen.dialled if (row.service, row.entrance) == (service, Entrance.VIP)}
    rows = [row for row in _rows(check, seen) if row.address not in announced]
    rows = [row for row in rows if (control := seen.listener(row)) is not None and control.answered]

    def faults(row: Dialled) -> Counter[str]:
        answers = Counter({each.words: each.count for each in row.answered if each.pod in seen.endpoints})
        return answers if row.answered else _delivered(seen, row)

    return _all(check, seen, rows, faults)


def _every_address(check: EveryNodeCheck, seen: EveryNodeEvidence) -> Decision:
    """Every announced address answers, and what the backend sees is as at the first one."""
    rows = _rows(check, seen)
    first = [each for row in rows if row.address == rows[0].address for each in row.answered]
    if not first:
        return undecided(check, _obstacle(check, seen) or "the first announced address does not answer")
    usual = frozenset(kind for each in first for kind in each.classes)
    return _all(check, seen, rows, _unanswered(seen, usual))


def _status(check: EveryNodeCheck, seen: EveryNodeEvidence) -> Decision:
    """The health check of every node: of a Service, or kube-proxy's own."""
    of_proxy = check.subject.entrance is Entrance.PROXY
    rows = _asked(seen, check.subject.entrance, check.subject.family)
    if of_proxy and rows and not any(row.answered for row in rows):
        why = "no node answers at this port: kube-proxy may serve its health check elsewhere (healthzBindAddress)"
        return undecided(check, why)

    def faults(row: Dialled) -> Counter[str]:
        wanted = "200" if of_proxy or seen.endpoints_on(row.node, HEALTH) else "503"
        return Counter({words: count for words, count in row.tally.items() if words != wanted})

    return _all(check, seen, rows, faults)


def _asked(seen: EveryNodeEvidence, entrance: Entrance, family: Family) -> list[Dialled]:
    """The health checks of nodes that a client asked for."""
    return [row for row in seen.dialled if (row.entrance, row.family) == (entrance, family)]


def _as_globally(check: EveryNodeCheck, seen: EveryNodeEvidence) -> Decision:
    """Every node answers a health check from the client's link-local address as from its global one."""
    family, usual = check.subject.family, FROM_LINK_LOCAL[check.subject.entrance]
    globally = {row.address: row for row in _asked(seen, usual, family) if row.answered}
    rows = [row for row in _asked(seen, check.subject.entrance, family) if row.address in globally]
    if not rows:
        return undecided(check, "no node answers at this port when the client asks from its global address")

    def faults(row: Dialled) -> Counter[str]:
        right = {each.words for each in globally[row.address].answered}
        return Counter({words: count for words, count in row.tally.items() if words not in right})

    return _all(check, seen, rows, faults)


def _one_node(check: EveryNodeCheck, seen: EveryNodeEvidence) -> Decision:
    """One node at a time answers on the client's link for each announced address of the Service."""
    addresses = dict.fromkeys(row.address for row in _rows(check, seen))
    if not addresses:
        return undecided(check, _obstacle(check, seen) or "the Service has no VIP")
    own = nodes_by_link(seen.has_own)
    return decide_one_node(check, {each: seen.has_vip.get(each, ()) for each in addresses}, own)


def _in_time(check: EveryNodeCheck, seen: EveryNodeEvidence) -> Decision:
    """How soon the health check of every node answered: of a Service, or kube-proxy's own."""
    service, family = PROXY if check.subject.entrance is Entrance.PROXY else HEALTH, check.subject.family
    ports: dict[str, Timed] = {}
    for row in _asked(seen, check.subject.entrance, family):
        if failed := next((each for each in row.answers if each.outcome is Outcome.ERROR), None):
            return ours_failed(check, tallied(row.tally), f"the prober failed: {failed.detail}")
        ports[row.where] = Timed.of((each.outcome, each.took) for each in row.answers)
    listeners = [
        [took for each in row.answers if each.outcome is not Outcome.ERROR for took in each.took]
        for row in seen.rows(LISTENER, Entrance.NODE_PORT, Protocol.TCP, family)
        if row.client == check.subject.client.name
    ]
    return decide_in_time(check, ports, seen.gives_up.get(service), control_of(listeners), seen.unasked)


def _family(check: EveryNodeCheck, seen: EveryNodeEvidence) -> Decision:
    """Every node has an InternalIP of the family."""
    lacking = [node for node, families in seen.nodes.items() if check.subject.family not in families]
    having = len(seen.nodes) - len(lacking)
    observed = f"{having} of {counted(len(seen.nodes), 'node')} that can run pods have one"
    if not lacking:
        return Decision(Status.PASS, check.expected, observed)
    return Decision(Status.FAIL, check.expected, observed, f"not {', '.join(lacking[:MOST_NAMED])}")


# -------------------------------------------------------------------------------------------------------- all endpoints
def _groups(check: EveryNodeCheck, seen: EveryNodeEvidence) -> Mapping[str, Counter[str]]:
    """The connections that each endpoint answered, by the node that chose among them; empty for all nodes."""
    subject, rows = check.subject, _rows(check, seen)
    if subject.policy is TrafficPolicy.LOCAL and subject.entrance is not Entrance.VIP:
        found = {}
        for row in rows:
            own = seen.endpoints_on(row.node, LOCAL)
            if len(own) > 1:
                found[row.node] = _shares(own, [row])
        return found
    return {"": _shares(seen.endpoints, rows)}


def _shares(pods: Iterable[str], rows: Iterable[Dialled]) -> Counter[str]:
    answered = by_pod(rows)
    return Counter({pod: answered[pod] for pod in pods})


def _say(seen: EveryNodeEvidence, shares: Counter[str]) -> str:
    return ", ".join(f"{pod} on {seen.endpoints[pod]} {count}" for pod, count in sorted(shares.items()))


def _few(check: EveryNodeCheck, seen: EveryNodeEvidence, groups: Mapping[str, Counter[str]]) -> Decision | None:
    least = min((shares.total() for shares in groups.values()), default=0)
    if least >= ENOUGH:
        return None
    observed = "; ".join(_say(seen, shares) for shares in groups.values())
    why = _obstacle(check, seen) or f"only {least} connections were answered"
    return undecided(check, why, observed or "nothing")


def _every_endpoint(check: EveryNodeCheck, seen: EveryNodeEvidence) -> Decision:
    """Every endpoint gets connections."""
    groups = _groups(check, seen)
    if few := _few(check, seen, groups):
        return few
    (shares,) = groups.values()
    observed = f"{shares.total()} connections: {_say(seen, shares)}"
    none = [f"{pod} on {seen.endpoints[pod]}" for pod, count in sorted(shares.items()) if not count]
    if none:
        return Decision(Status.FAIL, check.expected, observed, f"no connection reached {', '.join(none)}")
    sees = (
        f"an endpoint with {say_share(most_unseen(shares.total()))} of connections or more is seen with 95 % confidence"
    )
    return Decision(Status.PASS, check.expected, observed, sees=sees)


def _even(check: EveryNodeCheck, seen: EveryNodeEvidence) -> Decision:
    """Endpoints get equal shares, within what chance allows; else ``every-node-1 on a got 120 of 200 (p = 1e-38)``.

    Of endpoints inside one node: ``every-node-1 on a got 120 of 200 at a (p = 1e-38)``.
    """
    groups = _groups(check, seen)
    if few := _few(check, seen, groups):
        return few
    alpha = ALPHA / sum(map(len, groups.values()))
    uneven, sees = [], []
    for node, shares in groups.items():
        total, fair = shares.total(), 1 / len(shares)
        at = f" at {node}" if node else ""
        for pod, count in sorted(shares.items()):
            chance = binomial_p(count, total, fair)
            if chance < alpha:
                uneven.append(f"{pod} on {seen.endpoints[pod]} got {count} of {total}{at} (p = {chance:.1g})")
        small = _noticed(total, fair, alpha)
        sees.append(
            f"of {total} connections{at}, {small} instead of {100 * fair:.2g} % is noticed with 95 % probability"
        )
    observed = "; ".join(_say(seen, shares) for shares in groups.values())
    if uneven:
        shown = UNEVEN_OVER_UDP if _only_over_udp(check, seen, groups) else ""
        return Decision(Status.FAIL, check.expected, observed, "; ".join(uneven), shown, sees="; ".join(sees))
    return Decision(Status.PASS, check.expected, observed, sees="; ".join(sees))


def _only_over_udp(check: EveryNodeCheck, seen: EveryNodeEvidence, groups: Mapping[str, Counter[str]]) -> bool:
    """Whether each endpoint got datagrams of host processes, and the same addresses got enough TCP connections, whose
    shares differ by chance alone.
    """
    subject = check.subject
    if (subject.entrance, subject.protocol) != (Entrance.CLUSTER_IP, Protocol.UDP):
        return False
    tcp = _groups(replace(check, subject=replace(subject, protocol=Protocol.TCP)), seen).values()
    alpha = ALPHA / max(1, sum(map(len, tcp)))
    enough = bool(tcp) and all(shares.total() >= ENOUGH for shares in tcp)
    chances = (binomial_p(count, shares.total(), 1 / len(shares)) for shares in tcp for count in shares.values())
    return enough and min(chances) >= alpha and all(all(shares.values()) for shares in groups.values())


@cache
def _noticed(total: int, fair: float, alpha: float) -> str:
    """The largest share below the fair one that the test notices with ``SURE``, as text."""
    counts = range(int(total * fair))
    few = bisect_left(counts, True, key=lambda count: binomial_p(count, total, fair) >= alpha)
    return f"{100 * least_share(few, total, 1 - SURE):.2g} % or less" if few else "no smaller share"


# --------------------------------------------------------------------------------------- faults beside correct answers
def _resent(each: Answer) -> Counts:
    return Counts(each.resent, each.count)


def _copies(each: Answer) -> Counts:
    return Counts(min(each.copies, each.count), each.count)


def _ports(each: Answer) -> Counts:
    return Counts(each.moved, each.paired) if AddressClass.CLIENT in each.classes else Counts()


FAULTS: Mapping[Requires, tuple[Callable[[Answer], Counts], str]] = {
    Requires.RESENT: (_resent, "after a repeated SYN"),
    Requires.COPIES: (_copies, "answered more than once"),
    Requires.PORTS: (_ports, "with another source port"),
}
"""How connections with a fault are counted, and what they are called."""


def _beside(check: EveryNodeCheck, seen: EveryNodeEvidence) -> Decision:
    """No node has more connections with the fault than the listeners have, which are reached without a Service."""
    count, called = FAULTS[check.subject.requires]

    def counted_at(rows: Iterable[Dialled]) -> Counts:
        every = [count(each) for row in rows for each in row.answered]
        return Counts(sum(each.lost for each in every), sum(each.requests for each in every))

    nodes: dict[str, list[Dialled]] = {}
    for row in _rows(check, seen):
        nodes.setdefault(row.node, []).append(row)
    listeners = {node: [row for row in _rows(check, seen, LISTENER) if row.node == node] for node in nodes}
    without = counted_at(row for rows in listeners.values() for row in rows)
    total = counted_at(row for rows in nodes.values() for row in rows)
    observed = f"{total.words} {called}; without a Service {without.words}"
    if not without.requests or not total.requests:
        return undecided(check, "no connection was answered that shows it, or none without a Service", observed)
    wrong = []
    for node, rows in nodes.items():
        own, control = counted_at(rows), counted_at(listeners[node])
        more = own.lost * control.requests > HOPS * control.lost * own.requests
        expected = min(HOPS * without.lost, without.requests)
        chance = more_lost_p(own.lost, own.requests, expected, without.requests)
        if own.lost >= LEAST_FAULTS and more and chance < BY_CHANCE:
            wrong.append(f"{node}: {own.words} {called}")
    tally = {"as required": total.requests - total.lost, called: total.lost}
    if wrong:
        reason = f"{'; '.join(wrong[:MOST_NAMED])}; without a Service {without.words}"
        return Decision(Status.FAIL, check.expected, observed, reason, tally=tally)
    sees = f"{LEAST_FAULTS} connections or more at one node, if chance does not explain them"
    return Decision(Status.PASS, check.expected, observed, tally=tally, sees=sees)


def _recorded(check: EveryNodeCheck, seen: EveryNodeEvidence) -> Decision:
    """The shares as they are, by node."""
    (shares,) = _groups(check, seen).values()
    nodes: Counter[str] = Counter()
    for pod, count in shares.items():
        nodes[seen.endpoints[pod]] += count
    if not nodes.total():
        return undecided(check, "no connection was answered")
    by_node = ", ".join(f"{node} {count}" for node, count in sorted(nodes.items()))
    return Decision(Status.PASS, check.expected, f"by node: {by_node}; {_say(seen, shares)}")


JUDGES: Mapping[Requires, Callable[[EveryNodeCheck, EveryNodeEvidence], Decision]] = {
    Requires.ANSWERS: _answers,
    Requires.SOURCE: _source,
    Requires.OWN_ENDPOINT: _own_endpoint,
    Requires.SILENT: _silent,
    Requires.UNSERVED: _unserved,
    Requires.EVERY_ADDRESS: _every_address,
    Requires.STATUS: _status,
    Requires.AS_GLOBALLY: _as_globally,
    Requires.ONE_NODE: _one_node,
    Requires.IN_TIME: _in_time,
    Requires.FAMILY: _family,
    Requires.EVERY_ENDPOINT: _every_endpoint,
    Requires.EVEN: _even,
    Requires.SHARES: _recorded,
    Requires.FIRST: _first,
    **dict.fromkeys(FAULTS, _beside),
}


# -------------------------------------------------------------------------------------------------------- registration
SCENARIO = Scenario(
    name="every_node",
    suite="nodes",
    record="every_node",
    subjects=(EveryNode,),
    evidence=EveryNodeEvidence,
    decide=decide,
    phases=(Typical("every node", base=22),),
)
