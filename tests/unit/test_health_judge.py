"""Health checks that lie, one way each: the check that is about it must say so, and no other."""

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace

import pytest

from esipp.checks.check import Feature, Level, Status
from esipp.checks.health import About, Answer, Place, Question, Situation
from esipp.checks.model import OUTSIDE, Family, Outcome
from esipp.judging.controls import Counts
from esipp.judging.observation import Observation
from esipp.scenarios.health.evidence import WATCHER, Fact, Followed, HealthEvidence, Leaving, Round
from esipp.scenarios.health.judge import decide_trial, document
from esipp.scenarios.health.sections import summary
from suites.clients import OUTSIDE_1, POD_ON_OTHER_NODE
from tests.unit.health_world import (
    BY_ID,
    CHECKS,
    FEATURES,
    SILENCE,
    TRIALS,
    about,
    answering,
    dialled,
    differing,
    halved,
    healthy,
    honest,
    life,
    listeners,
    no_answer,
    played,
    say,
    served,
    verdict,
)
from tests.unit.recorded_world import summary_lines
from tests.unit.verdicts import judge_with

V4 = Family.IPV4
HERE = Question(Situation.ONE_POD, Place.ENDPOINT_NODE, OUTSIDE_1, V4)
BARE = Question(Situation.ONE_POD, Place.BARE_NODE, OUTSIDE_1, V4)
TWO = Question(Situation.SEVERAL_PODS, Place.ENDPOINT_NODE, OUTSIDE_1, V4)
PORTS = Question(Situation.SEVERAL_PORTS, Place.ENDPOINT_NODE, OUTSIDE_1, V4)
FAIL, FLAKY, INCONCLUSIVE, ERROR = Status.FAIL, Status.FLAKY, Status.INCONCLUSIVE, Status.ERROR
READ = (About.DOCUMENT, About.COUNT, About.PROXY, About.WEIGHT, About.TRUTH)
NO_HTTP = {About.STATUS: FAIL, **dict.fromkeys((*READ, About.TIME), INCONCLUSIVE)}
EMPTY = Answer(Outcome.ANSWERED, 200, {"content-length": "0"}, "", 20)
STRANGER = Answer(Outcome.ANSWERED, 200, {"content-type": "text/html"}, "<html>It works!</html>", 20)


@dataclass(frozen=True)
class Lie:
    """What is answered instead, and what the checks about it must say; all others pass."""

    name: str
    question: Question
    answers: tuple[Answer, ...]
    noticed: Mapping[About, Status]


def header(answer: Answer, name: str, value: str | None) -> Answer:
    """The same answer with another header, or without it."""
    rest = {key: each for key, each in answer.headers.items() if key != name}
    return replace(answer, headers=rest | ({name: value} if value is not None else {}))


LIES = (
    Lie("always-200", BARE, (honest(BARE, status=200),), {About.STATUS: FAIL, About.TRUTH: FAIL}),
    Lie("always-503", HERE, (honest(HERE, status=503),), {About.STATUS: FAIL, About.TRUTH: FAIL}),
    Lie("refused", HERE, (no_answer(Outcome.REFUSED),), NO_HTTP),
    Lie("refused-at-the-bare-node", BARE, (no_answer(Outcome.REFUSED),), NO_HTTP),
    Lie("timed-out", BARE, (no_answer(Outcome.TIMEOUT),), NO_HTTP),
    Lie("no-http", BARE, (no_answer(Outcome.INVALID),), NO_HTTP),
    Lie("reset", HERE, (no_answer(Outcome.RESET),), NO_HTTP),
    Lie("our-own-prober", HERE, (no_answer(Outcome.ERROR),), dict.fromkeys((About.STATUS, *READ, About.TIME), ERROR)),
    Lie("500", HERE, (honest(HERE, status=500),), {About.STATUS: FAIL, About.TRUTH: INCONCLUSIVE}),
    Lie("404", BARE, (honest(BARE, status=404),), {About.STATUS: FAIL, About.TRUTH: INCONCLUSIVE}),
    Lie(
        "flapping",
        HERE,
        (halved(honest(HERE)), halved(honest(HERE, status=503))),
        {About.STATUS: FLAKY, About.TRUTH: INCONCLUSIVE},
    ),
    Lie(
        "refusing-now-and-then",
        HERE,
        (halved(honest(HERE)), no_answer(Outcome.REFUSED, 10)),
        {About.STATUS: FLAKY, About.TRUTH: INCONCLUSIVE, About.TIME: INCONCLUSIVE},
    ),
    Lie("empty-200", HERE, (EMPTY,), dict.fromkeys(READ[:4], FAIL)),
    Lie("empty-200-at-the-bare-node", BARE, (EMPTY,), dict.fromkeys((About.STATUS, *READ), FAIL)),
    Lie(
        "empty-200-now-and-then", HERE, (halved(honest(HERE)), replace(EMPTY, count=10)), dict.fromkeys(READ[:4], FLAKY)
    ),
    Lie("stranger", HERE, (STRANGER,), dict.fromkeys(READ[:4], FAIL)),
    Lie("wrong-count", HERE, (honest(HERE, localEndpoints=2),), {About.COUNT: FAIL}),
    Lie("counts-other-nodes", TWO, (honest(TWO, localEndpoints=3),), {About.COUNT: FAIL}),
    Lie("counts-nodes-not-pods", TWO, (honest(TWO, localEndpoints=1),), {About.COUNT: FAIL}),
    Lie("counts-families", HERE, (say(2, "health-one-pod"),), {About.COUNT: FAIL, About.WEIGHT: FAIL}),
    Lie("counts-ports", PORTS, (honest(PORTS, localEndpoints=4),), {About.COUNT: FAIL}),
    Lie("counts-a-bare-node", BARE, (honest(BARE, localEndpoints=1),), {About.COUNT: FAIL}),
    Lie("count-as-text", HERE, (honest(HERE, localEndpoints="1"),), {About.COUNT: FAIL}),
    Lie("count-as-truth-value", HERE, (honest(HERE, localEndpoints=True),), {About.COUNT: FAIL}),
    Lie(
        "counts-now-and-then",
        HERE,
        (halved(honest(HERE)), honest(HERE, localEndpoints=0, count=9)),
        {About.COUNT: FLAKY},
    ),
    Lie(
        "no-weight",
        HERE,
        (header(honest(HERE), "x-load-balancing-endpoint-weight", None),),
        {About.WEIGHT: FAIL},
    ),
    Lie(
        "weight-of-one-at-the-bare-node",
        BARE,
        (header(honest(BARE), "x-load-balancing-endpoint-weight", "1"),),
        {About.WEIGHT: FAIL},
    ),
    Lie("plain-text", HERE, (header(honest(HERE), "content-type", "text/plain"),), {About.DOCUMENT: FAIL}),
    Lie("no-type", BARE, (header(honest(BARE), "content-type", None),), {About.DOCUMENT: FAIL}),
    Lie("another-service", HERE, (say(1, "health-no-pods"),), {About.DOCUMENT: FAIL}),
    Lie(
        "another-namespace",
        HERE,
        (honest(HERE, service={"namespace": "default", "name": "health-one-pod"}),),
        {About.DOCUMENT: FAIL},
    ),
    Lie("no-service", HERE, (honest(HERE, service="health-one-pod"),), {About.DOCUMENT: FAIL}),
    Lie("proxy-unhealthy", HERE, (honest(HERE, serviceProxyHealthy=False),), {About.PROXY: FAIL}),
    Lie("proxy-says-nothing", BARE, (honest(BARE, serviceProxyHealthy=None),), {About.PROXY: FAIL}),
)


def test_the_healthy_world_is_conformant() -> None:
    assert differing(healthy()) == {}


@pytest.mark.parametrize("lie", LIES, ids=lambda lie: lie.name)
def test_a_lie_trips_the_check_about_it(lie: Lie) -> None:
    noticed = {about(lie.question, part): status for part, status in lie.noticed.items()}
    noticed = {name: status for name, status in noticed.items() if name in BY_ID}  # truth is not asked everywhere
    assert differing(answering(lie.question, *lie.answers)) == noticed


def test_a_charset_is_no_difference() -> None:
    answer = header(honest(HERE), "content-type", "application/json; charset=utf-8")
    assert differing(answering(HERE, answer)) == {}


@pytest.mark.parametrize("question", [HERE, BARE])
def test_another_proxys_document_is_known(question: Question) -> None:
    said = json.loads(honest(question).body)
    del said["serviceProxyHealthy"]
    seen = answering(question, replace(honest(question), body=json.dumps(said)))
    assert differing(seen) == {about(question, About.PROXY): Status.KNOWN}


def test_what_is_known_hides_nothing_beside_it() -> None:
    said = json.loads(honest(HERE).body)
    del said["serviceProxyHealthy"]
    silent = replace(honest(HERE), body=json.dumps(said))
    seen = answering(HERE, silent, silent, honest(HERE, serviceProxyHealthy=False))
    assert differing(seen) == {about(HERE, About.PROXY): FAIL}


def test_another_client_is_another_question() -> None:
    asked = replace(BARE, client=POD_ON_OTHER_NODE)
    assert differing(answering(asked, honest(asked, status=200))) == {about(asked, About.STATUS): FAIL}


@pytest.mark.parametrize("outcome", [Outcome.TIMEOUT, Outcome.UNREACHABLE])
def test_silence_where_nothing_reaches_the_node_says_nothing(outcome: Outcome) -> None:
    seen = answering(BARE, no_answer(outcome))
    seen.reached[OUTSIDE_1.name, BARE.place, V4] = False
    verdicts = differing(seen)
    assert set(verdicts.values()) == {INCONCLUSIVE}
    assert about(BARE, About.STATUS) in verdicts


def test_a_refusal_tells_even_where_the_reference_listener_is_silent() -> None:
    seen = answering(BARE, no_answer(Outcome.REFUSED))
    seen.reached[OUTSIDE_1.name, BARE.place, V4] = False
    assert differing(seen)[about(BARE, About.STATUS)] is FAIL


def test_another_clients_listener_excuses_nobody() -> None:
    seen = answering(BARE, no_answer(Outcome.TIMEOUT))
    seen.reached[POD_ON_OTHER_NODE.name, BARE.place, V4] = False
    assert differing(seen)[about(BARE, About.STATUS)] is FAIL


def test_what_was_not_asked_is_our_error_and_an_obstacle_is_not() -> None:
    seen = healthy()
    del seen.answers[BARE.key]
    assert set(differing(seen).values()) == {ERROR}
    seen.obstacles[BARE.key] = "there is no bare node"
    assert set(differing(seen).values()) == {INCONCLUSIVE}


def test_a_check_whose_feature_is_missing_is_unsupported() -> None:
    check = BY_ID[about(BARE, About.STATUS)]
    without = {**FEATURES, "vantage.outside": Feature(False, "none is there", ours=True)}
    said = judge_with(check, HealthEvidence(), without, {})
    assert (said.status, said.left_out) == (Status.UNSUPPORTED, True)


def test_what_is_only_recorded_never_fails() -> None:
    recorded = [check for check in CHECKS if check.level is Level.RECORD]
    assert recorded
    for check in recorded:
        said = verdict(check, answering(check.subject.question, no_answer(Outcome.TIMEOUT)))  # type: ignore[attr-defined]  # each such check has a question
        assert (said.status, said.observed) == (Status.RECORDED, "timed out x20")


@pytest.mark.parametrize("body", ["", "[]", "7", "{", "[" * 2048, '{"localEndpoints": NaN}', "\\xff"])
def test_any_body_can_be_read(body: str) -> None:
    read = document(replace(honest(HERE), body=body))
    assert isinstance(read, dict)


# ------------------------------------------------------------------------------------------------------------ truth
@dataclass(frozen=True)
class Path:
    """What the nodePort gives beside an honest health check, and what the check about both must say."""

    name: str
    question: Question
    dialled: tuple[Observation, ...]
    status: Status
    words: str


PATHS = (
    Path("200-and-silent", HERE, (SILENCE,), FAIL, "says 200, but the node does not serve"),
    Path("200-and-refused", HERE, (dialled(Outcome.REFUSED),), FAIL, "says 200, but the node does not serve"),
    Path(
        "200-and-half-served", HERE, (dialled(Outcome.ANSWERED, 10), dialled(Outcome.TIMEOUT, 10)), FLAKY, "only some"
    ),
    Path(
        "200-and-accepted",
        HERE,
        (dialled(Outcome.TIMEOUT, connected=1.0),),
        FAIL,
        "says 200, but the node does not serve",
    ),
    Path("200-and-a-stranger", HERE, (dialled(Outcome.INVALID),), FAIL, "says 200, but the node does not serve"),
    Path("200-and-handed-on", HERE, (served(BARE.place),), FAIL, "forwards to another node"),
    Path("200-and-half-handed-on", HERE, (served(HERE.place, 9), served(BARE.place, 9)), FLAKY, "forwards"),
    Path("503-and-served", BARE, (served(BARE.place),), FAIL, "says 503, but the node serves"),
    Path("503-and-handed-on", BARE, (served(HERE.place),), FAIL, "says 503, but the node serves"),
    Path("503-and-half-served", BARE, (dialled(Outcome.ANSWERED, 1), dialled(Outcome.TIMEOUT, 19)), FLAKY, "only some"),
    Path("503-and-accepted", BARE, (dialled(Outcome.TIMEOUT, connected=1.0),), FAIL, "says 503, but the node accepts"),
    Path("503-and-reset", BARE, (dialled(Outcome.RESET),), FAIL, "says 503, but the node accepts"),
    Path("503-and-a-stranger", BARE, (dialled(Outcome.INVALID),), FAIL, "says 503, but the node accepts"),
    Path("our-own-prober", BARE, (dialled(Outcome.ERROR),), ERROR, "the prober"),
    Path("half-our-own-prober", HERE, (dialled(Outcome.ANSWERED, 10), dialled(Outcome.ERROR, 10)), ERROR, "the prober"),
    Path("never-dialled", BARE, (), ERROR, "never dialled"),
)


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.name)
def test_the_data_path_is_held_against_the_health_check(path: Path) -> None:
    seen = healthy()
    seen.served[path.question.key] = path.dialled
    verdicts = differing(seen)
    check = about(path.question, About.TRUTH)
    assert verdicts.pop(check) is path.status
    assert path.words in verdict(BY_ID[check], seen).reason
    answered = any(each.outcome is Outcome.ANSWERED for each in path.dialled)
    controls = path.question == HERE and not answered  # silence elsewhere proves nothing then
    assert set(verdicts.values()) == ({INCONCLUSIVE} if controls else set())


@pytest.mark.parametrize("outcome", [Outcome.REFUSED, Outcome.TIMEOUT, Outcome.UNREACHABLE])
def test_503_may_be_silent_or_refuse(outcome: Outcome) -> None:
    seen = healthy()
    seen.served[BARE.key] = (dialled(outcome),)
    assert differing(seen) == {}


def test_silence_needs_the_same_client_to_be_answered_elsewhere() -> None:
    seen = healthy()
    del seen.served[HERE.key]
    verdicts = differing(seen)
    assert verdicts.pop(about(HERE, About.TRUTH)) is ERROR
    assert verdicts[about(BARE, About.TRUTH)] is INCONCLUSIVE
    assert all(".ipv4." in name and name.endswith(".truth") for name in verdicts)


def test_silence_needs_the_node_to_be_reached() -> None:
    seen = healthy()
    seen.reached[OUTSIDE_1.name, BARE.place, V4] = False
    verdicts = differing(seen)
    assert set(verdicts.values()) == {INCONCLUSIVE}
    assert all(name.endswith("bare-node.truth") for name in verdicts)


# ----------------------------------------------------------------------------------------------------------- trials
def test_the_watcher_of_trials_is_the_client_outside() -> None:
    assert OUTSIDE.name == WATCHER


STABLE = "healthcheck.stable.never-wrong.ipv4.bare-node"


@pytest.mark.parametrize(
    ("answers", "status"),
    [
        ((say(0, "x", count=499), say(1, "x", count=1)), FLAKY),
        ((say(0, "x", count=499), no_answer(Outcome.TIMEOUT, 1)), FLAKY),
        ((say(1, "x", count=500),), FAIL),
        ((no_answer(Outcome.TIMEOUT, 500),), FAIL),
        ((say(0, "x", count=499), no_answer(Outcome.ERROR, 1)), ERROR),
        ((), ERROR),
    ],
)
def test_one_wrong_answer_of_many_is_not_stable(answers: tuple[Answer, ...], status: Status) -> None:
    seen = healthy()
    seen.stable[Place.BARE_NODE, V4] = answers
    assert differing(seen) == {STABLE: status}


def test_nothing_is_stable_while_nothing_changes() -> None:
    seen = healthy()
    seen.changes = 0
    verdicts = differing(seen)
    assert set(verdicts.values()) == {INCONCLUSIVE}
    assert set(verdicts) == {check.id for check in TRIALS if check.subject.scenario == "stable"}


@pytest.mark.parametrize(
    ("answers", "status"),
    [
        ((say(0, "x"),), FAIL),
        ((say(1, "x"), say(0, "x")), FLAKY),
        ((), INCONCLUSIVE),
        ((no_answer(Outcome.ERROR),), ERROR),
    ],
)
def test_cordoned_nodes_say_the_same(answers: tuple[Answer, ...], status: Status) -> None:
    seen = healthy()
    seen.cordoned[Place.ENDPOINT_NODE, V4] = answers
    assert differing(seen) == {"healthcheck.cordoned.status.ipv4.endpoint-node": status}


@pytest.mark.parametrize(
    ("followed", "status", "words"),
    [
        (Followed(None, "503"), FAIL, "still 503 at the time limit"),
        (Followed(None, "timed out"), FAIL, "still timed out"),
        (Followed(0.2, "503", {"right": 9, "503": 1}), FLAKY, "right after 0.20 s, then right x9, 503 x1"),
        (Followed(0.2, "503", {"503": 10}), FLAKY, "then 503 x10"),
        (Followed(0.2, "503", {"right": 9, "error": 1}), ERROR, "the prober failed"),
        (Followed(None, "error"), ERROR, "the prober failed"),
    ],
)
def test_placement_says_how_a_node_was_wrong(followed: Followed, status: Status, words: str) -> None:
    seen = healthy()
    seen.rounds[4] = played(5, bare_node=followed)
    verdicts = differing(seen)
    checks = {
        check.id for check in TRIALS if check.subject.scenario == "placement" and check.subject.place is Place.BARE_NODE
    }
    assert verdicts == dict.fromkeys((check for check in checks if ".prompt." not in check), status)
    said = verdict(BY_ID["healthcheck.placement.status.ipv4.bare-node"], seen)
    assert words in said.reason
    assert said.observed.startswith("19 of 20 rounds right")


def test_status_and_count_are_followed_apart() -> None:
    seen = healthy()
    late = {node: Followed(None, "localEndpoints 7") for node in seen.rounds[0].count}
    seen.rounds[0] = replace(seen.rounds[0], count=late)
    assert differing(seen) == {
        check.id: FAIL for check in TRIALS if check.subject.scenario == "placement" and check.subject.claim == "count"
    }


def test_placement_says_nothing_of_nodes_that_nobody_reaches() -> None:
    seen = healthy()
    seen.rounds = [played(number, bare_node=Followed(None, "timed out", {"timed out": 10})) for number in range(1, 4)]
    prompt = {name: status for name, status in differing(seen).items() if ".prompt." in name}
    assert set(prompt.values()) == {INCONCLUSIVE}
    assert {status for name, status in differing(seen).items() if name not in prompt} == {FAIL}
    for family in Family:
        seen.reached[WATCHER, Place.BARE_NODE, family] = False
    verdicts = differing(seen)
    assert {status for name, status in verdicts.items() if "placement" in name} == {INCONCLUSIVE}


SILENT_ONCE = Followed(0.2, "503", {"right": 9, "timed out": 1})
PLACED = {f"healthcheck.placement.{claim}.{of}.bare-node" for claim in ("status", "count") for of in ("ipv4", "ipv6")}


def test_a_late_answer_while_all_machines_are_slow_says_nothing_of_a_node() -> None:
    seen = healthy()
    seen.rounds[4] = played(5, bare_node=SILENT_ONCE)
    assert differing(seen) == dict.fromkeys(PLACED, FLAKY), "the listeners of all nodes answered in time"
    seen.controls = listeners(late_at=22.0)
    assert differing(seen) == dict.fromkeys(PLACED, INCONCLUSIVE)
    said = verdict(BY_ID["healthcheck.placement.status.ipv4.bare-node"], seen)
    assert "round 5" in said.reason
    assert "lost or delayed requests at that time" in said.reason
    seen.rounds[14] = played(15, bare_node=SILENT_ONCE)
    assert differing(seen) == dict.fromkeys(PLACED, FLAKY), "another round was lost while nothing was slow"


@pytest.mark.parametrize(
    ("followed", "late"),
    [
        (SILENT_ONCE, True),
        (Followed(0.2, "503", {"right": 9, "503": 1}), False),
        (Followed(0.2, "503", {"right": 8, "503": 1, "timed out": 1}), False),
        (Followed(None, "timed out"), False),
    ],
)
def test_a_node_is_late_if_it_followed_and_then_was_silent_for_a_while(followed: Followed, late: bool) -> None:
    seen = healthy()
    seen.rounds[4] = played(5, bare_node=followed)
    decided = decide_trial(BY_ID["healthcheck.placement.status.ipv4.bare-node"], seen)
    assert decided.status in (FAIL, FLAKY)
    assert decided.late is late
    seen.rounds[9] = played(10, bare_node=followed)
    assert not decide_trial(BY_ID["healthcheck.placement.status.ipv4.bare-node"], seen).late, "two of twenty"


def test_a_wrong_answer_is_the_nodes_however_slow_machines_are() -> None:
    seen = healthy()
    seen.controls = listeners(late_at=22.0)
    seen.rounds[4] = played(5, bare_node=Followed(0.2, "503", {"right": 9, "503": 1}))
    assert differing(seen) == dict.fromkeys(PLACED, FLAKY)


def test_a_round_in_which_our_own_pods_changed_by_themselves_says_nothing() -> None:
    seen = healthy()
    wrong = played(5, bare_node=Followed(0.2, "503", {"right": 9, "503": 1}))
    seen.rounds[4] = replace(wrong, trouble="placed-bare-node-0 did not stay as it was after the change")
    assert differing(seen) == dict.fromkeys(PLACED, INCONCLUSIVE)
    seen.rounds[6] = played(7, bare_node=Followed(None, "503"))
    assert differing(seen) == dict.fromkeys(PLACED, FAIL)


def test_a_node_is_not_late_where_nobody_looked() -> None:
    seen = healthy()
    seen.rounds[4] = played(5, bare_node=Followed(None, "503", gap=12.0))
    assert differing(seen) == dict.fromkeys(PLACED, INCONCLUSIVE)
    seen.rounds[4] = played(5, bare_node=Followed(None, "503", gap=2.0))
    assert differing(seen) == dict.fromkeys(PLACED, FAIL)


def test_placement_without_a_round_is_inconclusive() -> None:
    seen = healthy()
    seen.rounds = []
    assert differing(seen) == {check.id: INCONCLUSIVE for check in TRIALS if check.subject.scenario == "placement"}


@pytest.mark.parametrize("trial", ["placement", "lifecycle", "terminating"])
def test_a_trial_that_breaks_off_leaves_its_own_checks_open(trial: str) -> None:
    seen = healthy()
    seen.trouble[trial] = "our own pods did not come to be as wanted"
    assert differing(seen) == {check.id: INCONCLUSIVE for check in TRIALS if check.subject.scenario == trial}
    seen.broken[trial] = "KeyError: 'ports'"
    assert differing(seen) == {check.id: ERROR for check in TRIALS if check.subject.scenario == trial}


# ------------------------------------------------------------------------------------------------------ terminating
LEFT = say(0, "health-terminating", count=60)
BY_LEAVING = "served by the leaving pod"


@pytest.mark.parametrize(
    ("window", "expected"),
    [
        (Leaving((say(1, "x", count=60),), {BY_LEAVING: 60}, 0), {"status": FAIL, "count": FAIL}),
        (Leaving((say(0, "x", status=200, count=60),), {BY_LEAVING: 60}, 0), {"status": FAIL}),
        (Leaving((say(1, "x", status=503, count=60),), {BY_LEAVING: 60}, 0), {"count": FAIL}),
        (Leaving((say(0, "x", localEndpoints="0"),), {BY_LEAVING: 60}, 0), {"count": FAIL}),
        (Leaving((LEFT, say(1, "x", count=1)), {BY_LEAVING: 60}, 0), {"status": FLAKY, "count": FLAKY}),
        (Leaving((no_answer(Outcome.REFUSED),), {BY_LEAVING: 60}, 0), {"status": FAIL, "count": INCONCLUSIVE}),
        (Leaving((), {BY_LEAVING: 60}, 0), {"status": INCONCLUSIVE, "count": INCONCLUSIVE}),
        (Leaving((no_answer(Outcome.ERROR),), {BY_LEAVING: 60}, 0), {"status": ERROR, "count": ERROR}),
        (Leaving((LEFT,), {"timeout": 60}, 0), {"serves": FAIL, "source": INCONCLUSIVE}),
        (Leaving((LEFT,), {"refused": 60}, 0), {"serves": FAIL, "source": INCONCLUSIVE}),
        (Leaving((LEFT,), {}, 0), {"serves": INCONCLUSIVE, "source": INCONCLUSIVE}),
        (Leaving((LEFT,), {BY_LEAVING: 59, "timeout": 1}, 0), {"serves": FLAKY}),
        (Leaving((LEFT,), {"served by staying": 60}, 0), {"serves": FAIL, "source": INCONCLUSIVE}),
        (Leaving((LEFT,), {BY_LEAVING: 60, "error": 1}, 0), {"serves": ERROR, "source": ERROR}),
        (Leaving((LEFT,), {BY_LEAVING: 60}, 60), {"source": FAIL}),
        (Leaving((LEFT,), {BY_LEAVING: 60}, 1), {"source": FLAKY}),
        (Leaving((LEFT,), {BY_LEAVING: 60}, 60, "", "masqueraded on the way"), {"source": INCONCLUSIVE}),
        (
            Leaving((LEFT,), {BY_LEAVING: 60}, 0, "the pod had ended before the window did"),
            dict.fromkeys(("status", "count", "serves", "source"), INCONCLUSIVE),
        ),
    ],
)
def test_a_terminating_pod_serves_while_its_node_says_503(window: Leaving, expected: dict[str, Status]) -> None:
    seen = healthy()
    seen.leaving[V4] = window
    checks = {f"healthcheck.terminating.{claim}.ipv4.endpoint-node": status for claim, status in expected.items()}
    assert differing(seen) == checks


def test_a_family_that_was_not_played_is_open() -> None:
    seen = healthy()
    del seen.leaving[V4]
    assert set(differing(seen).values()) == {INCONCLUSIVE}


# -------------------------------------------------------------------------------------------------------- life cycle
REFUSED = (422, "Invalid", "Service is invalid: spec.healthCheckNodePort: Invalid value: 30123: field is immutable")
WRONG: dict[str, list[Fact]] = {
    "allocated": [
        Fact("", {"life-1": None}, bounds=(30000, 32767)),
        Fact("", {"life-1": 29999}, bounds=(30000, 32767)),
        Fact("", {"life-1": 32768}, bounds=(30000, 32767)),
        Fact("", {"life-1": None}),
    ],
    "unique": [
        Fact("", {"a": 30001, "b": 30001}),
        Fact("", {"a": 30001, "b": None}),
        Fact("", {"a": 30001, "b": 30002}, others=frozenset({30002})),
        Fact("", {}),
        Fact("", {"a": 30001}),
    ],
    "not-with-cluster": [Fact("", {"life-cluster": 30001})],
    "not-for-nodeport": [Fact("", {"life-nodeport": 30001})],
    "refused-with-cluster": [
        Fact("", {"life-no-1": 30001}),
        Fact("", {"life-no-1": None}),
        Fact("", refused=(500, "InternalError", "spec.healthCheckNodePort: x")),
        Fact("", refused=(422, "Invalid", "spec.loadBalancerClass: Invalid value")),
    ],
    "chosen": [
        Fact("", {"life-chosen": 30002}, wanted=30001, listeners=life()["chosen"].listeners),
        Fact("", {"life-chosen": None}, wanted=30001),
        Fact("", {"life-chosen": 30001}, wanted=30001),
        Fact("", refused=REFUSED, wanted=30001),
        Fact("", {"life-chosen": 30001}, wanted=30001, listeners={"a": Counter({"refused": 1})}),
        Fact("", {"life-chosen": 30001}, wanted=30001, listeners={"a": Counter({"this service": 1, "503": 1})}),
    ],
    "kept-on-update": [
        Fact("", {"life-1": 30002}, wanted=30001),
        Fact("", {"life-1": None}, wanted=30001),
        Fact("", refused=REFUSED, wanted=30001),
    ],
    "collision": [
        Fact("", {"life-taken": 30001}),
        Fact("", refused=(403, "Forbidden", "exceeded quota")),
        Fact("", refused=(409, "AlreadyExists", "life-taken already exists")),
    ],
    "collision-words": [Fact("", {"life-taken": 30001}), Fact("", refused=(500, "InternalError", "something broke"))],
    "freed-by-policy": [
        Fact("", {"life-chosen": 30001}, listeners=life()["freed-by-policy"].listeners),
        Fact("", {"life-chosen": None}),
        Fact("", {"life-chosen": None}, listeners={"a": Counter({"refused": 1}), "b": Counter({"503": 1})}),
        Fact("", {"life-chosen": None}, listeners={"a": Counter({"timed out": 1})}),
        Fact("", refused=REFUSED, listeners=life()["freed-by-policy"].listeners),
    ],
}
for also, like in (
    ("refused-for-nodeport", "refused-with-cluster"),
    ("immutable", "refused-with-cluster"),
    ("kept-on-patch", "kept-on-update"),
    ("kept-on-apply", "kept-on-update"),
    ("claimable", "chosen"),
    ("kept", "chosen"),
    ("freed-by-type", "freed-by-policy"),
    ("freed-by-deletion", "freed-by-policy"),
):
    WRONG[also] = WRONG[like]


@pytest.mark.parametrize(
    "claim",
    [
        check.subject.claim
        for check in TRIALS
        if check.subject.scenario == "lifecycle" and check.subject.claim != "prompt"
    ],
)
def test_every_claim_of_the_life_cycle_can_fail(claim: str) -> None:
    for fact in WRONG[claim]:
        seen = healthy()
        seen.life[claim] = fact
        assert differing(seen) == {f"healthcheck.lifecycle.{claim}": FAIL}, fact
        seen.life[claim] = replace(fact, trouble="no client outside the cluster can ask the nodes")
        assert differing(seen) == {f"healthcheck.lifecycle.{claim}": INCONCLUSIVE}
    del seen.life[claim]
    assert differing(seen) == {f"healthcheck.lifecycle.{claim}": INCONCLUSIVE}


# ------------------------------------------------------------------------------------------------ promptly, or not
PROMPT_CHECK = "healthcheck.placement.prompt.ipv4.bare-node"
LATE = Followed(8.0, "503", {"right": 12}, gap=0.1)


def bare_node_late(number: int = 5) -> Round:
    """A round that the bare node follows late in one family."""
    fine = played(number)
    return replace(fine, status={**fine.status, (Place.BARE_NODE, V4): LATE})


def test_a_node_that_is_late_everywhere_is_found_and_nothing_else_is() -> None:
    seen = healthy()
    seen.rounds[4] = bare_node_late()
    assert differing(seen) == {PROMPT_CHECK: FAIL}
    assert "8.00 s; our longest time between two probes was 0.10 s" in verdict(BY_ID[PROMPT_CHECK], seen).reason


def test_a_node_that_is_late_while_all_machines_are_slow_says_nothing() -> None:
    seen = healthy()
    seen.rounds[4], seen.controls = bare_node_late(), listeners(late_at=22.0)
    assert differing(seen) == {PROMPT_CHECK: INCONCLUSIVE}
    assert "0.33 s are needed to judge 5.00 s" in verdict(BY_ID[PROMPT_CHECK], seen).reason
    one = {node: stream for node, stream in listeners(late_at=22.0).items() if node[0] is Place.BARE_NODE}
    seen.controls = healthy().controls | one
    assert differing(seen) == {PROMPT_CHECK: FAIL}, "a machine that is slow alone is that node's"


def test_a_port_that_nodes_open_late_is_found() -> None:
    seen = healthy()
    seen.life["chosen"] = replace(seen.life["chosen"], seconds=8.0, gap=0.1)
    assert differing(seen) == {"healthcheck.lifecycle.prompt": FAIL}
    seen.controls = listeners(late_at=8.0)
    assert differing(seen) == {"healthcheck.lifecycle.prompt": INCONCLUSIVE}


# ----------------------------------------------------------------------------------- what the client's own way loses
def test_answers_that_are_missing_are_held_against_what_the_clients_own_way_loses() -> None:
    lost = (halved(honest(HERE)), no_answer(Outcome.TIMEOUT, 1))
    seen = answering(HERE, *lost)
    own = {(OUTSIDE_1.name, place, V4): Counts(1, 20) for place in (Place.ENDPOINT_NODE, Place.BARE_NODE)}
    check = about(HERE, About.STATUS)
    assert differing(seen)[check] is FLAKY, "where the way lost nothing every loss counts"
    seen.ways = {key: replace(counts, lost=0) for key, counts in own.items()}
    assert differing(seen)[check] is FLAKY
    seen.ways = dict(own)
    assert differing(seen)[check] is INCONCLUSIVE
    assert "lost 2 of 40 requests" in verdict(BY_ID[check], seen).reason
    wrong = answering(HERE, halved(honest(HERE)), honest(HERE, status=503, count=1))
    wrong.ways = dict(own)
    assert differing(wrong)[check] is FLAKY, "a wrong answer is no lost one"


def test_every_check_that_passes_says_what_it_can_see() -> None:
    verdicts = [verdict(check, healthy()) for check in CHECKS]
    assert [each.check_id for each in verdicts if each.status is Status.PASS and not each.sees] == []


def test_the_edges_of_the_range_are_in_it() -> None:
    for port in (30000, 32767):
        seen = healthy()
        seen.life["allocated"] = Fact("", {"life-1": port}, bounds=(30000, 32767))
        assert differing(seen) == {}


# --------------------------------------------------------------------------------------------------------- the table
def test_the_table_marks_what_differs() -> None:
    lines = summary_lines(summary, healthy())
    assert not any("!" in line for line in lines)
    assert any("20 rounds" in line and "seed 7" in line for line in lines)
    lied = summary_lines(summary, answering(BARE, honest(BARE, status=200)))
    assert sum("200 (0 local) !" in line for line in lied) == 1
    assert summary_lines(summary, HealthEvidence()) == []
