"""What is dialled, what must answer before the window, and how much is under way at once."""

import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future
from types import SimpleNamespace
from typing import cast

import pytest

from esipp.base.errors import HarnessError
from esipp.base.waiting import Budget
from esipp.checks.check import Level
from esipp.checks.model import AddressClass, Client, EntryKind, Outcome, Path, Protocol
from esipp.judging.observation import Observation
from esipp.probing.prober import Job, Prober, ProberLostError
from esipp.scenarios.paths import run as observe
from esipp.scenarios.paths.run import (
    ANSWER_TIMEOUT,
    JOBS_AT_ONCE,
    JUDGED_TIMEOUT,
    PARALLEL,
    PATIENT_TIMEOUT,
    QUICK_LOOKS,
    SETTLING_TIMEOUT,
    WAIT_TIMEOUT,
    Plan,
    Settling,
    fly,
    must_answer,
    plan,
    sampled_of,
    wait_longer,
)
from tests.unit.world import CHECKS, by_id, show

OUTSIDE = [by_id(f"nodeport.local.{p}.ipv4.outside-1-to-endpoint-node") for p in ("tcp", "udp", "sctp")]

SHORT = Budget("every path that must answer", 0.2, need=2, spacing=0.01)


class Answering:
    """A prober that answers all but some paths at once, and keeps the jobs it was given."""

    def __init__(self, *silent: str) -> None:
        self.silent: tuple[str, ...] = silent
        self.jobs: list[Job] = []

    def submit(self, job: Job) -> "Future[list[Observation]]":
        self.jobs.append(job)
        future: Future[list[Observation]] = Future()
        outcome = Outcome.TIMEOUT if job.key in self.silent else Outcome.ANSWERED
        future.set_result([Observation(job.key, seq, outcome) for seq in range(job.count)])
        return future


def probers(*silent: str) -> tuple[Answering, dict[str, Prober]]:
    made = Answering(*silent)
    return made, {path_check.subject.path.client.name: cast(Prober, made) for path_check in CHECKS}


def a_plan(*paths: Path) -> Plan:
    return Plan(dict.fromkeys(paths, ("192.0.2.1", 80)))


# --------------------------------------------------------------------------------------------------------------- plan
def test_a_plan_has_every_path_once_controls_included() -> None:
    asked: list[Path] = []

    def address(path: Path) -> tuple[str, int] | str:
        asked.append(path)
        return "no way" if path.protocol is Protocol.SCTP else ("192.0.2.1", 80)

    made = plan(OUTSIDE, address)
    wanted = {path for path_check in OUTSIDE for path in path_check.subject.paths}
    assert set(asked) == wanted
    assert len(asked) == len(wanted)
    assert set(made.targets) == {path for path in wanted if path.protocol is not Protocol.SCTP}
    assert made.obstacles == {path.key: "no way" for path in wanted if path.protocol is Protocol.SCTP}


def test_paths_without_a_service_are_dialled_all_the_time() -> None:
    paths = list(plan(CHECKS, lambda _path: ("192.0.2.1", 80)).targets)
    tenth = len(paths) // 10
    for first in range(0, 10 * tenth, tenth):
        kinds = {path.entry.kind for path in paths[first : first + tenth] if path.service is None}
        assert kinds == {EntryKind.POD_IP, EntryKind.NODE_LISTENER}
    assert list(plan(reversed(CHECKS), lambda _path: ("192.0.2.1", 80)).targets) == paths


def test_what_must_answer_is_positive_or_a_control() -> None:
    expected = must_answer(CHECKS, {})
    controls = {control.path for path_check in CHECKS for control in path_check.subject.controls}
    assert controls <= expected
    for path_check in CHECKS:
        binding = not path_check.subject.is_negative and path_check.level is not Level.RECORD
        assert (path_check.subject.path in expected) == (binding or path_check.subject.path in controls), path_check.id


def test_a_path_that_must_be_silent_is_no_control_of_another_check() -> None:
    assert [
        path_check.id
        for path_check in CHECKS
        if path_check.subject.is_negative and path_check.subject.path in must_answer(CHECKS, {})
    ] == []


@pytest.mark.parametrize(
    ("paths", "samples", "idle", "sampled"),
    [
        (823, 20, 1.7, 5),
        (1400, 40, 2.0, 4),
        (1400, 40, 0.0, 4),
        (1400, 200, 3.9, 6),
        (1400, 200, 64.0, 14),
        (5000, 40, 2.0, 4),
        (100, 40, 2.0, 40),
        (100, 200, 2.0, 50),
        (3, 2, 2.0, 2),
        (0, 9, 2.0, 9),
    ],
)
def test_packets_witness_some_connections_of_each_path_and_more_where_there_are_few_paths(
    paths: int, samples: int, idle: float, sampled: int
) -> None:
    assert sampled_of(paths, samples, idle) == sampled


def test_the_first_answers_of_a_path_are_kept_equal_ones_together() -> None:
    path = OUTSIDE[0].subject.path
    settling = Settling({}, a_plan(path))
    answers = [show(path, AddressClass.NODE), show(path, AddressClass.DROPPED), *[show(path, AddressClass.CLIENT)] * 2]
    for each in answers:
        settling._take({path: [each]})
    assert [answer.count for answer in settling.first[path.key]] == [1, 2]
    assert [answer.seen for answer in settling.first[path.key]] == [each.seen[0] for each in answers[::2] if each.seen]


def test_paths_that_must_be_silent_are_asked_with_patience_unless_they_answer() -> None:
    prober, all_of_them = probers()
    silent = [by_id(f"nodeport.local.{p}.ipv4.outside-1-to-bare-node") for p in ("tcp", "udp")]
    answering, checks = {silent[0].subject.path}, [*OUTSIDE, *silent]
    seen = wait_longer(all_of_them, a_plan(*(check.subject.path for check in checks)), checks, answering)
    assert set(seen) == {check.subject.path for check in silent} - answering
    assert {job.timeout for job in prober.jobs} == {WAIT_TIMEOUT}


# ------------------------------------------------------------------------------------------------------------- flying
def test_paths_that_answer_are_bounded_by_their_protocol_and_silent_ones_are_not() -> None:
    paths = [path_check.subject.path for path_check in OUTSIDE]
    prober, all_of_them = probers()
    seen = fly(all_of_them, a_plan(*paths), paths, 7, brief=True, answering=set(paths[:2]))
    assert {path: len(made) for path, made in seen.items()} == dict.fromkeys(paths, 7)
    jobs = {job.key: job for job in prober.jobs}
    assert [jobs[path.key].parallel for path in paths] == [PARALLEL[Protocol.TCP], PARALLEL[Protocol.UDP], 0]
    assert [jobs[path.key].timeout for path in paths] == [ANSWER_TIMEOUT, ANSWER_TIMEOUT, JUDGED_TIMEOUT]
    assert all(job.brief and job.count == 7 for job in prober.jobs)


def test_without_knowledge_all_start_at_once() -> None:
    paths = [path_check.subject.path for path_check in OUTSIDE]
    prober, all_of_them = probers()
    fly(all_of_them, a_plan(*paths), paths, 1)
    assert {job.parallel for job in prober.jobs} == {0}


def test_each_path_that_has_landed_is_reported_once() -> None:
    paths = [path_check.subject.path for path_check in OUTSIDE]
    landed: list[tuple[str, int]] = []
    _, all_of_them = probers()
    fly(all_of_them, a_plan(*paths), paths, 7, answering=set(paths[:2]), tell=lambda key, n: landed.append((key, n)))
    assert sorted(landed) == sorted((path.key, 7) for path in paths)


def test_many_more_paths_than_jobs_at_once_all_land() -> None:
    paths = [path_check.subject.path for path_check in CHECKS if path_check.subject.path.client.name == "outside-1"]
    paths = list(dict.fromkeys(paths))
    assert len(paths) > 3 * JOBS_AT_ONCE
    _, all_of_them = probers()
    assert set(fly(all_of_them, a_plan(*paths), paths, 1, answering=set(paths))) == set(paths)


def test_a_prober_that_never_ends_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(observe, "BOUND", 0.05)

    class Mute(Answering):
        def submit(self, job: Job) -> "Future[list[Observation]]":
            return Future()

    path = OUTSIDE[0].subject.path
    for answering in (None, {path}):
        with pytest.raises(HarnessError, match="Timed out after"):
            fly({path.client.name: cast(Prober, Mute())}, a_plan(path), [path], 1, answering=answering)


# ----------------------------------------------------------------------------------------------------------- settling
def test_settling_knows_which_paths_answer() -> None:
    paths = [path_check.subject.path for path_check in OUTSIDE]
    _, all_of_them = probers(paths[1].key)
    settling = Settling(all_of_them, a_plan(*paths), budget=SHORT)
    ended = settling.wait(set(paths))
    assert not ended.held
    assert f"1 of 3 paths do not answer, among them {paths[1].key}" in ended.state
    assert settling.answering == {paths[0], paths[2]}


def test_a_path_that_answered_once_is_known_to_answer_however_late_it_is_next() -> None:
    paths = [path_check.subject.path for path_check in OUTSIDE]

    class Tiring(Answering):
        def submit(self, job: Job) -> "Future[list[Observation]]":
            self.silent = () if len(self.jobs) < len(paths) else (paths[1].key,)
            return super().submit(job)

    settling = Settling({path.client.name: cast(Prober, Tiring()) for path in paths}, a_plan(*paths), budget=SHORT)
    assert not settling.wait(set(paths)).held
    assert settling.answering == set(paths)


def test_who_is_still_silent_after_a_few_looks_may_be_busy_and_gets_more_time(monkeypatch: pytest.MonkeyPatch) -> None:
    looks = QUICK_LOOKS + 2
    path = OUTSIDE[0].subject.path
    prober, all_of_them = probers(path.key)

    def look_on(look: Callable[[], object], _budget: object) -> None:
        for _ in range(looks):
            look()

    monkeypatch.setattr(observe, "converge", look_on)
    Settling(all_of_them, a_plan(path)).wait({path})
    patient = [PATIENT_TIMEOUT] * 2
    assert [job.timeout for job in prober.jobs][:-1] == [SETTLING_TIMEOUT] * QUICK_LOOKS + patient


def test_only_what_is_expected_is_waited_for_and_the_others_are_dialled_once() -> None:
    paths = [path_check.subject.path for path_check in OUTSIDE]
    prober, all_of_them = probers(paths[1].key)
    settling = Settling(all_of_them, a_plan(*paths))
    ended = settling.wait({paths[0]})
    assert ended.held
    asked = Counter(job.key for job in prober.jobs)
    assert prober.jobs[0].key == paths[0].key
    assert asked == {paths[0].key: settling.budget.need, paths[1].key: 1, paths[2].key: 1}
    assert settling.answering == {paths[0], paths[2]}, "what answers though nobody waits for it is known to answer"


def test_the_silence_of_the_others_passes_beside_the_looks() -> None:
    """Otherwise each run waits for it in addition."""
    paths = [path_check.subject.path for path_check in OUTSIDE]
    looked = threading.Event()

    class Patient(Answering):
        def submit(self, job: Job) -> "Future[list[Observation]]":
            made = super().submit(job)
            if job.key == paths[1].key:
                assert looked.wait(5.0), "no further look until the others have landed"
            elif sum(each.key == paths[0].key for each in self.jobs) == 2:
                looked.set()
            return made

    prober = Patient(paths[1].key)
    settling = Settling({path.client.name: cast(Prober, prober) for path in paths}, a_plan(*paths[:2]))
    assert settling.wait({paths[0]}).held
    assert settling.answering == {paths[0]}


AT_VIP = [by_id(f"loadbalancer.local.tcp.ipv4.{client}-to-vip").subject.path for client in ("outside-1", "outside-2")]


def took(monkeypatch: pytest.MonkeyPatch, *paths: Path, begins: float, follows: float | None) -> tuple[bool, float]:
    """Whether all paths answered, and after how long; the second begins that many seconds after the others."""
    clock = [0.0]

    class Slow(Answering):
        def submit(self, job: Job) -> "Future[list[Observation]]":
            clock[0] += 0.5
            self.silent = () if clock[0] > begins else (paths[1].key,)
            return super().submit(job)

    monkeypatch.setattr(observe, "time", SimpleNamespace(monotonic=lambda: clock[0]))
    budget = Budget("made up", 2.0, need=2, spacing=0.0)
    slow, todo = cast(Prober, Slow()), Plan({path: (path.entry.kind.value, 80) for path in paths})
    settling = Settling({path.client.name: slow for path in paths}, todo, budget=budget, follows=follows)
    return settling.wait(set(paths)).held, clock[0]


def test_a_path_to_a_vip_that_answers_another_client_has_no_minutes(monkeypatch: pytest.MonkeyPatch) -> None:
    held, seconds = took(monkeypatch, *AT_VIP, begins=10**9, follows=60.0)
    assert not held
    assert 60 < seconds < 65


def test_a_path_that_follows_just_in_time_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    assert took(monkeypatch, *AT_VIP, begins=58.0, follows=60.0)[0]


def test_a_vip_that_answers_nobody_has_the_whole_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    other, vip = OUTSIDE[0].subject.path, AT_VIP[0]
    assert took(monkeypatch, other, vip, begins=300.0, follows=60.0)[0]


def test_with_an_unknown_load_balancer_every_path_has_the_whole_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    assert took(monkeypatch, *AT_VIP, begins=300.0, follows=None)[0]


# ------------------------------------------------------------------------------------------- a prober that is gone
class Lost(Answering):
    """A prober that is gone."""

    def submit(self, job: Job) -> "Future[list[Observation]]":
        future: Future[list[Observation]] = Future()
        future.set_exception(ProberLostError(f"The prober of {job.key} is gone: it ended."))
        return future


OF_ONE = by_id("nodeport.local.tcp.ipv4.outside-1-to-endpoint-node").subject.path
OF_ANOTHER = by_id("nodeport.local.tcp.ipv4.outside-2-to-endpoint-node").subject.path


def one_lost() -> dict[str, Prober]:
    return {"outside-1": cast(Prober, Lost()), "outside-2": cast(Prober, Answering())}


@pytest.mark.parametrize("answering", [None, {OF_ONE, OF_ANOTHER}])
def test_a_prober_that_is_gone_costs_its_own_paths(answering: set[Path] | None) -> None:
    lost: dict[Client, str] = {}
    todo = a_plan(OF_ONE, OF_ANOTHER)
    seen = fly(one_lost(), todo, list(todo.targets), 2, answering=answering, lost=lost)
    assert {path.key for path in seen} == {OF_ANOTHER.key}
    assert lost == {OF_ONE.client: f"The prober of {OF_ONE.key} is gone: it ended"}


def test_where_nobody_reckons_with_that_it_is_an_error() -> None:
    with pytest.raises(ProberLostError):
        fly(one_lost(), a_plan(OF_ONE), [OF_ONE], 1)


def test_nobody_waits_for_the_paths_of_a_prober_that_is_gone() -> None:
    settling = Settling(one_lost(), a_plan(OF_ONE, OF_ANOTHER), budget=SHORT)
    assert settling.wait({OF_ONE, OF_ANOTHER}).held
    assert settling.answering == {OF_ANOTHER}
    assert set(settling.lost) == {OF_ONE.client}


def test_paths_that_are_no_checks_are_dialled_too() -> None:
    made = plan((), lambda _path: ("192.0.2.1", 80), [OF_ONE])
    assert set(made.targets) == {OF_ONE}
