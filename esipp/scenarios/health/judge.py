"""The judge of health checks: from the evidence to a verdict, and where to look after a failure. Pure."""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from math import inf
from typing import Any

from esipp.checks.check import Check, Status, Verdict
from esipp.checks.health import (
    EACH_TARGET,
    NO_HEALTHY_FIELD,
    TWICE,
    About,
    Answer,
    HealthAnswer,
    HealthAnswerCheck,
    HealthScenario,
    HealthScenarioCheck,
    Place,
    parts_of,
)
from esipp.checks.model import Family, Outcome
from esipp.checks.rights import GATES, rights
from esipp.checks.timing import FIELD_LIMIT, PROMPT, Blur, Held, hold, say_unknown
from esipp.judging.answers import Unchanged, all_are, beyond_the_network, say_bound, say_observed
from esipp.judging.controls import Vantage
from esipp.judging.frame import Decision, few, ours_failed, undecided
from esipp.judging.in_time import NOT_RECORDED, Timed, control_of, decide_in_time
from esipp.judging.observation import Observation
from esipp.judging.scenario import RunThen, Scenario, Typical, by_subject, name_fault
from esipp.judging.schedule import PlannedEvent, Touches
from esipp.scenarios.health.evidence import WATCHER, Fact, Followed, HealthEvidence, Leaving, Node, Round

Claim = Callable[[Fact], tuple[bool, str]]


def _the_port(fact: Fact) -> int | None:
    return next(iter(fact.ports.values()), None)


def _allocated(fact: Fact) -> tuple[bool, str]:
    port = _the_port(fact)
    if port is None or fact.bounds is None:
        return False, f"port {port}"
    low, high = fact.bounds
    return low <= port <= high, f"port {port}, the range is {low}-{high}"


def _unique(fact: Fact) -> tuple[bool, str]:
    ports = [port for port in fact.ports.values() if port is not None]
    twice = sorted(port for port, count in Counter(ports).items() if count > 1)
    taken = sorted(set(ports) & fact.others)
    observed = f"{len(ports)} Services, {len(set(ports))} ports"
    observed += f"; {twice[0]} twice" if twice else ""
    observed += f"; {taken[0]} is also a nodePort" if taken else ""
    return len(ports) == len(fact.ports) >= 2 and not twice and not taken, observed


def _none(fact: Fact) -> tuple[bool, str]:
    port = _the_port(fact)
    return port is None, "none" if port is None else f"port {port}"


def _refused_as_invalid(fact: Fact) -> tuple[bool, str]:
    if fact.refused is None:
        return False, f"accepted, port {_the_port(fact)}"
    status, reason, message = fact.refused
    named = "healthchecknodeport" in message.lower()
    observed = f"refused as {reason} ({status})"
    return (status, reason) == (422, "Invalid") and named, observed if named else f"{observed}: {message}"


def _refused(fact: Fact) -> tuple[bool, str]:
    if fact.refused is None:
        return False, f"two Services have port {_the_port(fact)}"
    status, reason, message = fact.refused
    of_the_port = status in (409, 422, 500) and reason != "AlreadyExists"  # not about rights, nor the Service's name
    return of_the_port, f"refused as {reason} ({status}): {message}"


def _says_so(fact: Fact) -> tuple[bool, str]:
    message = fact.refused[2] if fact.refused else "not refused"
    return "allocat" in message.lower() or "healthchecknodeport" in message.lower(), message


def _as_wanted(fact: Fact) -> tuple[bool, str]:
    if fact.refused is not None:
        return False, f"refused as {fact.refused[1]} ({fact.refused[0]}): {fact.refused[2]}"
    port = _the_port(fact)
    return port is not None and port == fact.wanted, f"port {port}, expected {fact.wanted}"


def _listened(fact: Fact, wanted: str) -> tuple[bool, str]:
    """Whether every node gave only the expected answer at the port."""
    wrong = {node: said for node, said in fact.listeners.items() if set(said) != {wanted}}
    if not fact.listeners:
        return False, "no node was probed"
    if not wrong:
        return True, f"{wanted} on {len(fact.listeners)} node addresses"
    node, said = next(iter(wrong.items()))
    return False, f"{node}: {say_observed(said)}"


def _chosen(fact: Fact) -> tuple[bool, str]:
    held, observed = _as_wanted(fact)
    if not held:
        return False, observed
    return _listened(fact, "this service")


def _freed(fact: Fact) -> tuple[bool, str]:
    if fact.refused is not None:
        return False, f"refused as {fact.refused[1]} ({fact.refused[0]}): {fact.refused[2]}"
    if _the_port(fact) is not None:
        return False, f"still has port {_the_port(fact)}"
    return _listened(fact, "refused")


CLAIMS: dict[str, Claim] = {
    "allocated": _allocated,
    "unique": _unique,
    "not-with-cluster": _none,
    "not-for-nodeport": _none,
    "refused-with-cluster": _refused_as_invalid,
    "refused-for-nodeport": _refused_as_invalid,
    "chosen": _chosen,
    "immutable": _refused_as_invalid,
    "kept-on-update": _as_wanted,
    "kept-on-patch": _as_wanted,
    "kept-on-apply": _as_wanted,
    "kept": _chosen,
    "collision": _refused,
    "collision-words": _says_so,
    "freed-by-policy": _freed,
    "claimable": _chosen,
    "freed-by-type": _freed,
    "freed-by-deletion": _freed,
}


SILENT = (Outcome.TIMEOUT, Outcome.UNREACHABLE)
TIMED_OUT = "timed out"
SILENT_WORDS = {TIMED_OUT, Outcome.UNREACHABLE.value}
REACHES_NOTHING = "{} does not reach that node at all: its control listener is silent as well"


def tally(answers: Iterable[Answer], say: Callable[[Answer], str]) -> Counter[str]:
    """The number of answers by their text."""
    found: Counter[str] = Counter()
    for answer in answers:
        found[say(answer)] += answer.count
    return found


UNREADABLE = "there was no readable answer; see the status check"


def doubled(decided: Decision, wanted: str, seen: str = TWICE) -> Decision:
    """The same decision; marked as ``seen`` if every answer was ``wanted``, which counts each pod several times."""
    only = decided.status is Status.FAIL and set(decided.tally) == {wanted}
    return replace(decided, evidence=seen) if only else decided


def our_own(check: Check, answers: Iterable[Answer]) -> Decision | None:
    """The decision if a prober failed, which is no fault of the product."""
    answers = list(answers)
    for answer in answers:
        if answer.outcome is Outcome.ERROR:
            return ours_failed(check, say_observed(tally(answers, _words)), f"the prober failed: {answer.detail}")
    return None


# ------------------------------------------------------------------------------------------------------- questions
def decide_question(check: HealthAnswerCheck, seen: HealthEvidence) -> Decision:
    """A check about the answers to one question."""
    question = check.subject.question
    if question.key in seen.obstacles:
        return undecided(check, seen.obstacles[question.key])
    answers = seen.answers.get(question.key, ())
    if not answers:
        return ours_failed(check, "nothing", "the check was selected, but its health check was never probed")
    ours = our_own(check, answers)
    if ours is not None:
        return ours
    if check.subject.about is About.TIME:
        return _in_time(check, seen)
    at_all = tally(answers, _words)
    if check.subject.about is About.STATUS:
        silent = all(answer.outcome in SILENT for answer in answers)
        if silent and seen.unreached(question.client.name, question.place, question.family):
            return undecided(check, REACHES_NOTHING.format(question.client.name), say_observed(at_all))
        decided = all_are(check, check.expected, at_all, empty=UNREADABLE)
        missing = sum(at_all[words] for words in SILENT_WORDS)
        lost = seen.way(question.client.name, question.family)
        return beyond_the_network(check, decided, at_all[check.expected], missing, lost)
    if not any(answer.outcome is Outcome.ANSWERED for answer in answers):
        return undecided(check, "there was no readable HTTP answer; see the status check", say_observed(at_all))
    if check.subject.about is About.TRUTH:
        return _truth(check, seen, at_all)
    return _contract(check, seen, [answer for answer in answers if answer.outcome is Outcome.ANSWERED])


def _in_time(check: HealthAnswerCheck, seen: HealthEvidence) -> Decision:
    """How soon the health checks of all Services at the node answered the client."""
    question = check.subject.question
    here = (question.family.value.lower(), question.client.name, question.place.value)
    asked = {key: f"{of.situation} at {seen.nodes.get(question.place)}" for key in (*seen.answers, *seen.obstacles)
             if ((of := parts_of(key)).family, of.client, of.place) == here}  # fmt: skip
    ports: dict[str, list[Answer]] = {}
    for key, answers in seen.answers.items():
        if key in asked and key not in seen.obstacles:
            ports.setdefault(asked[key], []).extend(answers)
    failed = our_own(check, (answer for answers in ports.values() for answer in answers))
    listeners = [
        took
        for (client, _, family), took in seen.listened.items()
        if (client, family) == (question.client.name, question.family)
    ]
    times = {port: Timed.of((each.outcome, each.took) for each in answers) for port, answers in ports.items()}
    unasked = {asked[key]: why for key, why in seen.obstacles.items() if key in asked}
    return failed or decide_in_time(check, times, seen.gives_up, control_of(listeners), unasked)


def _words(answer: Answer) -> str:
    return answer.words


NEEDED = 3
"""Looks in which a node must be right to have followed (``FOLLOWS`` in placement.py)."""


def document(answer: Answer) -> Mapping[str, Any]:
    """The body as a JSON object; empty if it is none."""
    try:
        read = json.loads(answer.body)
    except (ValueError, RecursionError):
        return {}
    return read if isinstance(read, dict) else {}


def say_count(answer: Answer) -> str:
    """The number of endpoints in an answer as text; distinguishes a JSON number from a string or a boolean."""
    if answer.outcome is not Outcome.ANSWERED:
        return answer.words
    return f"localEndpoints {json.dumps(document(answer).get('localEndpoints'))}"


def _contract(check: HealthAnswerCheck, seen: HealthEvidence, answers: list[Answer]) -> Decision:
    """The decision on an answer's headers and body."""
    pods = check.subject.question.local_pods

    def weight(answer: Answer) -> str:
        reported = answer.headers.get("x-load-balancing-endpoint-weight")
        return "no weight header" if reported is None else f"weight {reported}"

    def healthy(answer: Answer) -> str:
        reported = document(answer)
        if "service" in reported and "serviceProxyHealthy" not in reported:
            return NO_HEALTHY_FIELD
        return f"serviceProxyHealthy {json.dumps(reported.get('serviceProxyHealthy'))}"

    def names(answer: Answer) -> str:
        kind = answer.headers.get("content-type", "no Content-Type").partition(";")[0].strip()
        service = document(answer).get("service")
        if not isinstance(service, dict):
            return f"{kind}, no service"
        return f"{kind}, {service.get('namespace')}/{service.get('name')}"

    say, wanted = {
        About.COUNT: (say_count, f"localEndpoints {pods}"),
        About.WEIGHT: (weight, f"weight {pods}"),
        About.PROXY: (healthy, "serviceProxyHealthy true"),
        About.DOCUMENT: (names, "application/json, " + "/".join(seen.services[check.subject.question.situation])),
    }[check.subject.about]
    decided = all_are(check, wanted, tally(answers, say), empty=UNREADABLE)
    backends = 2 * pods * check.subject.question.targets
    counted = {About.COUNT: f"localEndpoints {backends}", About.WEIGHT: f"weight {backends}"}.get(check.subject.about)
    seen_as = TWICE if check.subject.question.targets == 1 else EACH_TARGET
    return doubled(decided, counted, seen_as) if counted and pods else decided


def _truth(check: HealthAnswerCheck, seen: HealthEvidence, answers: Counter[str]) -> Decision:
    """Whether the health check and the data path of the same node agree."""
    question = check.subject.question
    dialled = seen.served.get(question.key, ())
    found: Counter[str] = Counter()
    for each in dialled:
        found[_say_dialled(each, seen.nodes.get(question.place))] += each.count
    observed = f"health check {say_observed(answers)}; nodePort {say_observed(found)}"
    if not dialled:
        return ours_failed(check, observed, "the nodePort was never dialled")
    ours = next((each for each in dialled if each.outcome is Outcome.ERROR), None)
    if ours is not None:
        return ours_failed(check, observed, f"the prober failed: {ours.detail}")
    if set(answers) not in ({"200"}, {"503"}):
        return undecided(check, "the health check gives neither only 200 nor only 503; see the status check", observed)
    quiet = sum(found[words] for words in _QUIET)
    if quiet and quiet != found.total():
        reason = "the nodePort answers only sometimes"
        return Decision(Status.FLAKY, check.expected, observed, reason, "sometimes", found)
    if set(answers) == {"200"}:
        if set(found) == {"served"}:
            return Decision(Status.PASS, check.expected, observed, "", "", found, sees=say_bound(answers.total()))
        status = Status.FLAKY if found["served"] else Status.FAIL
        lie = "the health check says 200, but "
        lie += "the node forwards to another node" if found[_ELSEWHERE] else "the node does not serve"
        return Decision(status, check.expected, observed, lie, lie, found)
    if not quiet:
        serves = found["served"] or found[_ELSEWHERE]
        lie = f"the health check says 503, but the node {'serves' if serves else 'accepts connections'}"
        return Decision(Status.FAIL, check.expected, observed, lie, lie, found)
    if seen.unreached(question.client.name, question.place, question.family):
        return undecided(check, REACHES_NOTHING.format(question.client.name), observed)
    if not any(each.outcome is Outcome.ANSWERED for each in seen.served.get(question.control.key, ())):
        why = "silence proves nothing: the same client gets no answer from the node with one pod either"
        return undecided(check, why, observed)
    return Decision(Status.PASS, check.expected, observed, "", "", found, sees=say_bound(answers.total()))


_QUIET = ("no answer", Outcome.UNREACHABLE.value, Outcome.REFUSED.value)


_ELSEWHERE = "served by another node"


def _say_dialled(each: Observation, node: str | None) -> str:
    """The result of dialling; a connection that is accepted and then silent counts as an answer."""
    if each.outcome is Outcome.ANSWERED:
        return "served" if None in (node, each.node) or each.node == node else _ELSEWHERE
    if each.outcome is Outcome.TIMEOUT:
        return "no answer" if each.connected is None else "accepted, then silence"
    return each.outcome.value


# ---------------------------------------------------------------------------------------------------------- trials
def decide_trial(check: HealthScenarioCheck, seen: HealthEvidence) -> Decision:
    """The decision on a check of a scenario."""
    cut_short = seen.cut_short(check)
    if cut_short:
        return cut_short
    if check.subject.scenario == "lifecycle" and check.subject.claim == "prompt":
        return _ports_prompt(check, seen)
    if check.subject.scenario == "lifecycle":
        fact = seen.life.get(check.subject.claim)
        if fact is None:
            return undecided(check, "the scenario ended before this step")
        if fact.trouble:
            return undecided(check, fact.trouble, fact.words)
        holds, observed = CLAIMS[check.subject.claim](fact)
        sees = "one Service of its kind, tried once" if holds else ""
        return Decision(Status.PASS if holds else Status.FAIL, check.expected, observed, "", observed, sees=sees)
    assert check.subject.family is not None
    assert check.subject.place is not None
    node = (check.subject.place, check.subject.family)
    if check.subject.scenario == "stable":
        return _stable(check, seen, node)
    if check.subject.scenario == "placement":
        return (
            _placement_prompt(check, seen, node) if check.subject.claim == "prompt" else _placement(check, seen, node)
        )
    if check.subject.scenario == "cordoned":
        answers = seen.cordoned.get(node, ())
        wanted = "200" if check.subject.place is Place.ENDPOINT_NODE else "503"
        if not answers:
            return undecided(check, "no node could be cordoned")
        return our_own(check, answers) or all_are(check, wanted, tally(answers, _words), empty=UNREADABLE)
    return _leaving(check, seen.leaving.get(check.subject.family), check.subject.family)


def _stable(check: HealthScenarioCheck, seen: HealthEvidence, node: Node) -> Decision:
    answers = seen.stable.get(node, ())
    if not answers:
        return ours_failed(check, "nothing", "the health check was never probed")
    found = tally(answers, _words)
    unchanged = Unchanged(
        found,
        wanted="200" if check.subject.place is Place.ENDPOINT_NODE else "503",
        doubt="" if seen.changes else "no pod of another Service was added or removed meanwhile",
        silence=REACHES_NOTHING.format(WATCHER) if seen.unreached(WATCHER, *node) else "",
        silent=SILENT_WORDS,
        control=seen.vantage(node[1]).counts([(-inf, inf)]),
        proof=f"{found.total()} answers in a row during {seen.changes} changes of another Service's pods",
    )
    return our_own(check, answers) or unchanged.decide(check)


Lag = tuple[str, float, float, float]
"""A followed change: its text, its begin, its seconds, and our own longest time between two looks."""


def _soon(check: HealthScenarioCheck, lags: Sequence[Lag], vantages: Sequence[Vantage]) -> Decision:
    """Whether all changes were followed promptly, if that was measured well enough."""
    took = sorted(seconds for _, _, seconds, _ in lags)
    observed = f"{len(lags)} changes, median {took[len(took) // 2]:.2f} s, max {took[-1]:.2f} s"
    observed += f"; bound {PROMPT:.0f} s"
    unknown, worst = list[tuple[str, Blur]](), Blur()
    for words, began, seconds, gap in lags:
        slow = min((vantage.slow(began, began + seconds) for vantage in vantages), default=0.0)
        blur = Blur(gap, slow)
        worst = max(worst, blur, key=lambda each: each.seconds)
        held = hold(seconds, PROMPT, blur)
        if held is Held.OVER:
            reason = f"{words}: {seconds:.2f} s; {blur.words}"
            return Decision(Status.FAIL, check.expected, observed, reason, "late", late=True)
        unknown += [(words, blur)] if held is Held.UNKNOWN else []
    if unknown:
        words, blur = max(unknown, key=lambda each: each[1].seconds)
        return undecided(check, f"{words}: {say_unknown(PROMPT, blur)}", observed)
    sees = f"{len(lags)} changes; {worst.words}; a node that is late less often is missed"
    return Decision(Status.PASS, check.expected, observed, sees=sees)


def _ports_prompt(check: HealthScenarioCheck, seen: HealthEvidence) -> Decision:
    """How soon every node opened or closed the ports in the completed steps."""
    made = [(fact.words, fact.began, fact.seconds, fact.gap) for fact in seen.life.values() if fact.seconds is not None]
    if not made:
        return undecided(check, "no port change was followed by every node; see the checks for that")
    return _soon(check, made, [seen.vantage(family) for family in Family])


def _placement_prompt(check: HealthScenarioCheck, seen: HealthEvidence, node: Node) -> Decision:
    """How soon a node's status followed each round."""
    made = [
        (f"round {each.number} ({each.done})", each.began, status.seconds, status.gap)
        for each in seen.rounds
        if (status := each.status.get(node)) is not None and status.seconds is not None
    ]
    if not made:
        return undecided(check, "no round was followed; see the check for that")
    return _soon(check, made, [seen.vantage(node[1])])


def _placement(check: HealthScenarioCheck, seen: HealthEvidence, node: Node) -> Decision:
    rounds = [
        (each, (each.status if check.subject.claim == "status" else each.count).get(node)) for each in seen.rounds
    ]
    asked = [(each, followed) for each, followed in rounds if followed is not None]
    if not asked:
        return undecided(check, "no round took place")
    late = [f"round {each.number} ({each.done}): {_say(followed)}" for each, followed in asked if not _right(followed)]
    took = sorted(followed.seconds for _, followed in asked if followed.seconds is not None)
    figures = f"after {took[len(took) // 2]:.2f} s (median), {took[-1]:.2f} s (max)" if took else "never"
    observed = f"{len(asked) - len(late)} of {len(asked)} rounds right, {figures}"
    if not late:
        sees = f"{len(asked)} changes by one seed, each observed for one more second"
        return Decision(Status.PASS, check.expected, observed, sees=sees)
    said = {words for _, followed in asked for words in (followed.last, *followed.after)}
    if Outcome.ERROR.value in said:
        return ours_failed(check, observed, f"the prober failed: {late[0]}")
    if not took and said <= {"", *SILENT_WORDS} and seen.unreached(WATCHER, *node):
        return undecided(check, REACHES_NOTHING.format(WATCHER), observed)
    if why := _not_the_nodes(seen, node, asked):
        return undecided(check, why, observed)
    status = Status.FAIL if len(took) < len(asked) else Status.FLAKY
    twice = check.subject.claim == "count" and all(
        _right(followed) or _is_twice(followed, each.truth.get(node[0], 0)) for each, followed in asked
    )
    # On an overloaded machine, kube-proxy was silent for seven questions in a row, in both families, after it had
    # followed one change of twenty, while other processes of its node answered (docs/soak.md, run 81).
    silent = all(each.seconds is not None and set(each.after) <= {"right", TIMED_OUT} for _, each in asked)
    evidence = TWICE if twice else "wrong"
    is_late = silent and few(len(late), len(asked))
    return Decision(status, check.expected, observed, "; ".join(late[:3]), evidence, late=is_late)


def _not_the_nodes(seen: HealthEvidence, node: Node, asked: Sequence[tuple[Round, Followed]]) -> str:
    """Why no wrong round says anything of the node; empty if one does, or none is wrong."""
    vantage, found = seen.vantage(node[1]), ""
    begins = [*(each.began for each in seen.rounds), inf]
    for each, followed in asked:
        if _right(followed):
            continue
        until = next(began for began in begins if began > each.began)
        missing = {followed.last if followed.seconds is None else "", *followed.after} - {"", "right"} <= SILENT_WORDS
        found = each.trouble or (vantage.ours(each.began, until) if missing else "")
        if not found and followed.seconds is None and NEEDED * followed.gap >= FIELD_LIMIT:
            found = f"esipp itself did not look for {followed.gap:.1f} s"
        if not found:
            return ""
        found = f"round {each.number} ({each.done}): {found}"
    return found


def _is_twice(followed: Followed, pods: int) -> bool:
    """Whether a node settled at twice the true count, and nothing else.

    Before that it may have looked right: if one pod became two, twice the old count is the new one.
    """
    said = {words for words in (followed.last, *followed.after) if words not in ("", "right")}
    return pods > 0 and said == {f"localEndpoints {2 * pods}"}


def _right(followed: Followed) -> bool:
    return followed.seconds is not None and set(followed.after) <= {"right"}


def _say(followed: Followed) -> str:
    if followed.seconds is None:
        return f"still {followed.last} at the time limit"
    return f"right after {followed.seconds:.2f} s, then {say_observed(followed.after)}"


def _leaving(check: HealthScenarioCheck, window: Leaving | None, family: Family) -> Decision:
    if window is None:
        return undecided(check, f"the scenario did not run over {family.value}")
    if window.trouble:
        return undecided(check, window.trouble)
    ours = our_own(check, window.answers)
    if check.subject.claim == "status":
        return ours or all_are(check, "503", tally(window.answers, _words), empty=UNREADABLE)
    if check.subject.claim == "count":
        answered = [answer for answer in window.answers if answer.outcome is Outcome.ANSWERED]
        return ours or all_are(check, "localEndpoints 0", tally(answered, say_count), empty=UNREADABLE)
    dialled = Counter(dict(window.dialled))
    if dialled[Outcome.ERROR.value]:
        return ours_failed(check, say_observed(dialled), "the prober failed")
    if check.subject.claim == "serves":
        return all_are(check, "served by the leaving pod", dialled, empty=UNREADABLE)
    served = dialled["served by the leaving pod"]
    if not served:
        return undecided(check, "no request was served; see the check for that", say_observed(dialled))
    if window.disbelieved:
        return undecided(check, window.disbelieved, say_observed(dialled))
    sources = Counter({"the client's own address": served - window.foreign, "another address": window.foreign})
    return all_are(check, "the client's own address", +sources, empty=UNREADABLE)


# -------------------------------------------------------------------------------------------------- where to look first
NO_STATUS = {
    Outcome.REFUSED.value: "nothing listens at the node's health-check node port in this IP family: is its service "
    "proxy alive, and does it listen on all addresses of both families?",
    TIMED_OUT: "the health check does not answer in time: a packet filter drops packets to its port, or its "
    "listener hangs (is the node overloaded?)",
}
"""Where to look if a health check gives no HTTP status, by the way in which it fails."""

STATUSES = ("200", "503")
SOMETHING_ELSE = "another process answers at the health-check node port: which one listens there?"


def diagnose_answer(check: HealthAnswerCheck, verdict: Verdict) -> str:
    """Where to look first after a failure: by the status, else by what makes the check fail."""
    of_status = check.subject.about is About.STATUS
    return (_of_a_status(verdict) if of_status else "") or check.fails_if


def _of_a_status(verdict: Verdict) -> str:
    """Where to look if a health check gives neither 200 nor 503."""
    for words in verdict.tally:
        if words in NO_STATUS:
            return NO_STATUS[words]
        if words.isdigit() and words not in STATUSES:
            return SOMETHING_ELSE
    return ""


# -------------------------------------------------------------------------------------------------------- registration
def _lacks_answer(check: HealthAnswerCheck, seen: HealthEvidence, then: RunThen) -> str:
    key, of_truth = check.subject.question.key, check.subject.about is About.TRUTH
    if check.subject.about is About.TIME and seen.gives_up is None:
        return NOT_RECORDED
    probed = key in seen.obstacles or (key in seen.answers and (not of_truth or key in seen.served))
    return "" if then.asked(check) or probed else f"the health check {key} was not probed"


def _lacks_scenario(check: HealthScenarioCheck, seen: HealthEvidence, then: RunThen) -> str:
    shown: Mapping[str, object] = {
        "lifecycle": seen.life, "terminating": seen.leaving, "placement": seen.rounds, "stable": seen.stable,
        "cordoned": seen.cordoned,
    }  # fmt: skip
    name = check.subject.scenario
    tried = name in seen.trouble or name in seen.broken or shown.get(name)
    return "" if then.asked(check) or tried else f"the scenario {name} did not run"


SCENARIO = Scenario(
    name="health",
    suite="health_checks",
    record="health_checks",
    subjects=(HealthAnswer, HealthScenario),
    evidence=HealthEvidence,
    decide=by_subject({HealthAnswer: decide_question, HealthScenario: decide_trial}),
    diagnose=by_subject({HealthAnswer: diagnose_answer, HealthScenario: name_fault}),
    lacks=by_subject({HealthAnswer: _lacks_answer, HealthScenario: _lacks_scenario}),
    phases=(
        Typical("settle health checks", (HealthAnswer,), base=1),
        Typical("ask health checks", (HealthAnswer,), base=2, check=0.006),
        Typical(
            "health scenarios",
            (HealthScenario,),
            events=(
                PlannedEvent("lifecycle", 18),
                PlannedEvent("terminating", 8, measures=True),
                PlannedEvent("placement", 82, measures=True, of=("placement", "stable")),
            ),
        ),
        Typical("cordon", (HealthScenario,), events=(PlannedEvent("cordoned", 3, Touches.NODE),)),
    ),
    beside=True,
    rights=(*GATES, *rights("get patch update", "services")),
)
