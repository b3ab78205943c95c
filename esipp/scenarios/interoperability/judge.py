"""The judge of interoperability checks: from the evidence of the scenarios to a verdict. Pure."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial

from esipp.checks.check import Check, Level, Status
from esipp.checks.health import TWICE, Answer, Place
from esipp.checks.interoperability import NOT_REWRITTEN, Interoperability, InteroperabilityCheck, Kind
from esipp.checks.model import NO_ANSWER, AddressClass, Outcome, Role
from esipp.checks.rights import DISCOVERY, GATES, rights
from esipp.judging.answers import Unchanged, all_are, all_right, beyond_the_network, say_observed
from esipp.judging.frame import Decision, ours_failed, undecided
from esipp.judging.observation import Reading
from esipp.judging.scenario import RunThen, Scenario, Typical
from esipp.judging.schedule import PlannedEvent
from esipp.scenarios.health.evidence import Node
from esipp.scenarios.health.judge import document, doubled, our_own, tally
from esipp.scenarios.interoperability.evidence import WATCHER, InteroperabilityEvidence, Many, Names, Neighbours

CLIENT_ONLY = frozenset({AddressClass.CLIENT})
NODE_ONLY = frozenset({AddressClass.NODE})
ANSWERED = CLIENT_ONLY | NODE_ONLY
DROPPED = frozenset({AddressClass.DROPPED})


UNREACHED = f"{WATCHER} does not reach that node at all: its control listener is silent as well"
STRANGE = f"{WATCHER} must reach the node with its own address, but the node's control listener saw {{}}"
LEAST = 20
"""The fewest answers of a node that prove a steady Service while another one changed."""

CHANGES = 5
"""The fewest changes of the other Service that must have reached the nodes."""


def decide(check: InteroperabilityCheck, seen: InteroperabilityEvidence) -> Decision:
    """The decision on a check."""
    cut = seen.cut_short(check)
    if cut is not None:
        return cut
    if check.subject.scenario == "names":
        return decide_name(check, seen.names) if seen.names else _never(check)
    if check.subject.scenario == "neighbours":
        return NEIGHBOURS[check.subject.claim](check, seen.neighbours) if seen.neighbours else _never(check)
    return MANY[check.subject.claim](check, seen.many) if seen.many else _never(check)


def _never(check: InteroperabilityCheck) -> Decision:
    return ours_failed(check, "nothing", f"the scenario {check.subject.scenario} never ran")


def _node(check: InteroperabilityCheck) -> Node:
    assert check.subject.place is not None
    assert check.subject.family is not None
    return check.subject.place, check.subject.family


# ------------------------------------------------------------------------------------------------------- neighbours
def _doubt(check: InteroperabilityCheck, seen: Neighbours) -> str:
    """Why it is unproven that A was probed while B changed; empty if it is proven."""
    if len(seen.changes) < CHANGES:
        return f"only {len(seen.changes)} changes of the other Service reached the nodes"
    if check.subject.place is not None and not seen.ways.reached.get(_node(check), False):
        return UNREACHED
    return ""


def _steady(check: InteroperabilityCheck, seen: Neighbours, say: Callable[[Answer], str], wanted: str) -> Decision:
    """The decision on all answers of A's health check on a node."""
    answers = seen.answers.get(_node(check), [])
    unchanged = Unchanged(tally(answers, say), wanted, _doubt(check, seen), least=LEAST, proof=_meanwhile(seen))
    return our_own(check, answers) or unchanged.decide(check)


def _meanwhile(seen: Neighbours) -> str:
    done = ", ".join(f"{words} ({seconds:.1f} s)" for words, seconds in seen.changes)
    return f"meanwhile, the other Service changed: {done}"


def _status(check: InteroperabilityCheck, seen: Neighbours) -> Decision:
    wanted = "200" if check.subject.place is Place.ENDPOINT_NODE else "503"
    return _steady(check, seen, lambda answer: answer.words, wanted)


def _document(check: InteroperabilityCheck, seen: Neighbours) -> Decision:
    pods = 1 if check.subject.place is Place.ENDPOINT_NODE else 0

    def say(answer: Answer) -> str:
        if answer.outcome is not Outcome.ANSWERED:
            return answer.words
        return say_document(answer)

    service = "/".join(seen.name)
    decided = _steady(check, seen, say, f"{service}, localEndpoints {pods}")
    return doubled(decided, f"{service}, localEndpoints {2 * pods}") if pods else decided


def say_document(answer: Answer) -> str:
    """The Service that a health check's document names, and its endpoint count, as text."""
    reported = document(answer)
    service = reported.get("service")
    named = f"{service.get('namespace')}/{service.get('name')}" if isinstance(service, dict) else "no Service"
    return f"{named}, localEndpoints {reported.get('localEndpoints')}"


def _served(check: InteroperabilityCheck, seen: Neighbours) -> Decision:
    """The decision on A's nodePort: its pod answers every connection on the endpoint node, and none elsewhere."""
    readings = seen.dialled.get(_node(check), [])
    if ours := harness(check, readings):
        return ours
    if doubt := _doubt(check, seen):
        return undecided(check, doubt)
    home = check.subject.place is Place.ENDPOINT_NODE
    assert check.subject.family is not None
    made = sum(each.count for each in readings)
    if made < LEAST:
        return undecided(check, f"only {made} answers came while the other Service changed")
    if home and seen.ways.strange.get(_node(check)):
        return undecided(check, STRANGE.format(seen.ways.strange[_node(check)]))
    if not home:
        control = seen.dialled.get((Place.ENDPOINT_NODE, check.subject.family), [])
        right, wrong = held_against(control, ANSWERED)
        if not right or wrong:
            return undecided(
                check, "the endpoint node did not answer all the time, so silence elsewhere proves nothing"
            )
    right, wrong = held_against(readings, CLIENT_ONLY if home else NO_ANSWER)
    decided = all_right(check, right, wrong, _meanwhile(seen))
    if not home:
        return decided
    lost = seen.ways.lost(check.subject.family)
    return beyond_the_network(check, decided, sum(right.values()), missing(readings), lost)


def _kept(check: InteroperabilityCheck, seen: Neighbours) -> Decision:
    """The decision on A's object: nothing changed it."""
    if doubt := _doubt(check, seen):
        return undecided(check, doubt)
    if not seen.before:
        return undecided(check, "the object was not read before")
    changed = sorted(_differing(seen.before, seen.after))
    if changed:
        return Decision(Status.FAIL, check.expected, f"changed: {', '.join(changed)}", evidence="changed")
    sees = f"{len(seen.changes)} changes of one other Service"
    return Decision(Status.PASS, check.expected, "unchanged", _meanwhile(seen), sees=sees)


def _differing(before: Mapping[str, object], after: Mapping[str, object]) -> Iterable[str]:
    """The fields in which two objects differ."""
    for part in before.keys() | after.keys():
        old, new = before.get(part), after.get(part)
        if old == new:
            continue
        if isinstance(old, Mapping) and isinstance(new, Mapping):
            yield from (f"{part}.{name}" for name in _differing(old, new))
        else:
            yield part


NEIGHBOURS: dict[str, Callable[[InteroperabilityCheck, Neighbours], Decision]] = {
    "status": _status,
    "document": _document,
    "served": _served,
    "kept": _kept,
}


# ------------------------------------------------------------------------------------------------------------- many
def _dialled(check: InteroperabilityCheck, seen: Many, accept: frozenset[AddressClass]) -> Decision:
    """The decision on all Services of a kind, dialled at one node, counted by Service."""
    assert check.subject.kind is not None
    assert check.subject.place is not None
    by_service = seen.dialled.get((check.subject.kind, Role(check.subject.place.value)), {})
    ours = harness(check, (each for readings in by_service.values() for each in readings))
    if ours is not None:
        return ours
    if doubt := _way(check, seen, as_itself=accept != NO_ANSWER):
        return undecided(check, doubt)
    if accept == NO_ANSWER and (doubt := _siblings_answer(check, seen)):
        return undecided(check, doubt)
    right: Counter[str] = Counter()
    wrong: Counter[str] = Counter()
    failing, silent = [], False
    for name, readings in by_service.items():
        good, bad = held_against(readings, accept)
        silent |= not good  # a Service that is never right does not lose single connections
        right, wrong = right + good, wrong + bad
        failing += [name] if bad else []
    decided = all_right(check, right, wrong, f"{len(by_service)} Services; {_seconds(seen)}")
    if accept != NO_ANSWER and not silent:
        lost = sum(missing(readings) for readings in by_service.values())
        decided = beyond_the_network(check, decided, right.total(), lost, seen.ways.lost(None))
    return decided if decided.status is Status.INCONCLUSIVE else _naming(decided, failing, len(by_service))


def _way(check: InteroperabilityCheck, seen: Many, *, as_itself: bool) -> str:
    """Why the client's results at these nodes prove nothing, in any family; or an empty string."""
    nodes = [node for node in seen.ways.reached if node[0] is check.subject.place]
    if not nodes or not all(seen.ways.reached[node] for node in nodes):
        return UNREACHED
    strange = next((words for node in nodes if (words := seen.ways.strange.get(node))), "")
    return STRANGE.format(strange) if as_itself and strange else ""


def _naming(decided: Decision, failing: list[str], of: int) -> Decision:
    """The same decision, with some of the failing Services."""
    if not failing:
        return decided
    names = ", ".join(failing[:3]) + (", …" if len(failing) > 3 else "")
    reason = f"{len(failing)} of {of} Services fail: {names}"
    return replace(decided, reason=reason)


def _seconds(seen: Many) -> str:
    total = sum(len(names) for names in seen.names.values())
    if seen.late:
        return f"not all of {total} Services were programmed: {seen.late}"
    return f"{total} Services were programmed {seen.seconds['programmed']:.1f} s after the first was created"


def _siblings_answer(check: InteroperabilityCheck, seen: Many) -> str:
    """Why silence proves nothing, by two controls: a Cluster Service here, and this kind on its pod's node."""
    assert check.subject.kind is not None
    assert check.subject.place is not None
    for kind, role, words in (
        (Kind.NODE_PORT_CLUSTER, Role(check.subject.place.value), "that node does not answer for Cluster Services"),
        (check.subject.kind, Role.ENDPOINT_NODE, "the endpoint node does not answer for these Services"),
    ):
        for readings in seen.dialled.get((kind, role), {"": []}).values():
            right, wrong = held_against(readings, ANSWERED)
            if wrong or not right:
                return words
    return ""


def _rewritten(check: InteroperabilityCheck, seen: Many) -> Decision:
    decided = _dialled(check, seen, NODE_ONLY)
    preserved = decided.status is Status.FAIL and _dialled(check, seen, CLIENT_ONLY).status is Status.PASS
    return replace(decided, evidence=NOT_REWRITTEN) if preserved else decided


def _health(
    check: InteroperabilityCheck, seen: Many, say: Callable[[Answer], str], wanted: Callable[[str], str]
) -> Decision:
    """The decision on the health checks of all Services at the nodes of one kind."""
    right: Counter[str] = Counter()
    wrong: Counter[str] = Counter()
    failing = []
    if doubt := _way(check, seen, as_itself=False):
        return undecided(check, doubt)
    for name, nodes in seen.answers.items():
        answers = [each for (place, _), those in nodes.items() if place is check.subject.place for each in those]
        ours = our_own(check, answers)
        if ours is not None:
            return ours
        for answer in answers:
            said = say(answer)
            fits = said == wanted(name)
            (right if fits else wrong)["as required" if fits else said] += answer.count
            failing += [name] if not fits and name not in failing else []
    decided = all_right(check, right, wrong, f"{len(seen.answers)} Services; {_seconds(seen)}")
    return _naming(decided, failing, len(seen.answers))


def _health_status(check: InteroperabilityCheck, seen: Many) -> Decision:
    wanted = "200" if check.subject.place is Place.ENDPOINT_NODE else "503"
    return _health(check, seen, lambda answer: answer.words, lambda _: wanted)


def _health_document(check: InteroperabilityCheck, seen: Many) -> Decision:
    pods = 1 if check.subject.place is Place.ENDPOINT_NODE else 0

    def all_say(count: int) -> Callable[[str], str]:
        return lambda name: f"{seen.namespace}/{name}, localEndpoints {count}"

    decided = _health(check, seen, say_document, all_say(pods))
    twice = pods and decided.status is Status.FAIL and _health(check, seen, say_document, all_say(2 * pods))
    return replace(decided, evidence=TWICE) if twice and twice.status is Status.PASS else decided


def _distinct(check: InteroperabilityCheck, seen: Many) -> Decision:
    """The decision on ports: each Service has its nodePort and health-check node port, and none is used twice."""
    if not seen.ports:
        return undecided(check, "there were no Services")
    held = Counter(port for ports in seen.ports.values() for port in ports)
    twice = sorted(port for port, count in held.items() if count > 1)
    kinds = {name: kind for kind, names in seen.names.items() for name in names}
    short = [name for name, ports in seen.ports.items() if len(ports) < 1 + (kinds[name] is Kind.BALANCER_LOCAL)]
    observed = f"{len(seen.ports)} Services, {len(held)} ports"
    if twice or short:
        observed += f"; {twice[0]} twice" if twice else ""
        observed += f"; {short[0]} lacks one" if short else ""
        return Decision(Status.FAIL, check.expected, observed, evidence="twice" if twice else "missing")
    return Decision(Status.PASS, check.expected, observed, sees=f"{len(seen.ports)} Services, created once")


def _gone(check: InteroperabilityCheck, seen: Many) -> Decision:
    """The decision on deleted Services: no node listens for their health checks any more."""
    before = {name for name, nodes in seen.answers.items() if _listened(nodes)}
    right: Counter[str] = Counter()
    wrong: Counter[str] = Counter()
    failing = []
    for name in before & seen.gone.keys():
        for words, count in seen.gone[name].items():
            (right if words == Outcome.REFUSED.value else wrong)[words] += count
        failing += [name] if set(seen.gone[name]) != {Outcome.REFUSED.value} else []
    if Outcome.ERROR.value in wrong:
        return ours_failed(check, say_observed(wrong), "the prober failed")
    if not before:
        return undecided(check, "no node listened before the deletion")
    return _naming(
        all_right(check, right, wrong, f"{len(before)} ports were open before"), sorted(failing), len(before)
    )


def _listened(nodes: Mapping[Node, list[Answer]]) -> bool:
    return all(each.outcome is Outcome.ANSWERED for answers in nodes.values() for each in answers) and bool(nodes)


def _programmed(check: InteroperabilityCheck, seen: Many) -> Decision:
    assert check.level is Level.RECORD
    return Decision(Status.PASS, check.expected, _seconds(seen), "recorded")


MANY: dict[str, Callable[[InteroperabilityCheck, Many], Decision]] = {
    "preserved": partial(_dialled, accept=CLIENT_ONLY),
    "silent": partial(_dialled, accept=NO_ANSWER),
    "answers": partial(_dialled, accept=ANSWERED),
    "rewritten": _rewritten,
    "status": _health_status,
    "document": _health_document,
    "distinct": _distinct,
    "gone": _gone,
    "programmed": _programmed,
}


# ------------------------------------------------------------------------------------------------------- names
def decide_name(check: InteroperabilityCheck, seen: Names) -> Decision:
    """The decision on a name: each lookup gives the API server's addresses, and the address works."""
    assert check.subject.client is not None
    assert check.subject.family is not None
    key = (check.subject.claim, check.subject.client.name, check.subject.family)
    if key in seen.trouble:
        return ours_failed(check, "nothing", f"the prober failed: {seen.trouble[key]}")
    resolved, wanted = (
        seen.resolved.get(key, Counter()),
        seen.wanted.get((check.subject.claim, check.subject.family), ""),
    )
    if not wanted:
        return undecided(check, f"the API server has no {check.subject.family} address for it")
    if check.subject.claim == "dialled":
        return _decide_dialled(check, seen, resolved, wanted)
    if check.subject.claim == "balancer" and check.subject.family not in seen.vips:
        return undecided(check, "the load balancer has no VIP of that family to confuse the name with")
    return all_are(check, wanted, resolved, f"the API server says {wanted}")


def _decide_dialled(check: InteroperabilityCheck, seen: Names, resolved: Mapping[str, int], wanted: str) -> Decision:
    assert check.subject.client is not None
    assert check.subject.family is not None
    if set(resolved) != {wanted}:
        return undecided(check, f"its name did not resolve to {wanted}; see the check for that")
    readings = seen.dialled.get((check.subject.client.name, check.subject.family), [])
    direct = seen.direct.get((check.subject.client.name, check.subject.family), [])
    ours = harness(check, [*readings, *direct])
    if ours is not None:
        return ours
    own, other = held_against(direct, CLIENT_ONLY)
    if other or not own:
        shown = say_observed(own + other) if direct else "nothing"
        return undecided(check, f"without a Service the pod must see the client's own address, but saw {shown}")
    return all_right(check, *held_against(readings, CLIENT_ONLY))


# ------------------------------------------------------------------------------------------- counting of results
def missing(readings: Iterable[Reading]) -> int:
    """How many requests got no answer."""
    return sum(each.count for each in readings if each.classes == DROPPED and not each.product_fault)


def held_against(readings: Iterable[Reading], accept: frozenset[AddressClass]) -> tuple[Counter[str], Counter[str]]:
    """Readings counted by their text: the right ones, and the wrong ones."""
    right: Counter[str] = Counter()
    wrong: Counter[str] = Counter()
    for each in readings:
        fits = not each.product_fault and each.classes & accept
        (right if fits else wrong)[each.words] += each.count
    return right, wrong


def harness(check: Check, readings: Iterable[Reading]) -> Decision | None:
    """The decision if a prober or our own echo server failed."""
    fault = next((each.harness_fault for each in readings if each.harness_fault), "")
    return ours_failed(check, "nothing usable", fault) if fault else None


# -------------------------------------------------------------------------------------------------------- registration
def _lacks(check: InteroperabilityCheck, seen: InteroperabilityEvidence, then: RunThen) -> str:
    name = check.subject.scenario
    tried = name in seen.trouble or name in seen.broken or getattr(seen, name, None)
    return "" if tried or then.asked(check) else f"the scenario {name} did not run"


CREATION = "creation of many Services"

SCENARIO = Scenario(
    name="interoperability",
    suite="interoperability",
    record="interoperability",
    subjects=(Interoperability,),
    evidence=InteroperabilityEvidence,
    decide=decide,
    lacks=_lacks,
    phases=(
        Typical(
            "interoperability",
            events=(
                PlannedEvent("neighbours", 25),
                PlannedEvent("names", 15),
                PlannedEvent(CREATION, 15, loads=True, of=("many",)),
            ),
        ),
        Typical("many Services", events=(PlannedEvent("many", 10, measures=True, loads=True),)),
    ),
    rights=(*GATES, *rights("get patch", "services"), *rights("list", "endpointslices", DISCOVERY)),
)
