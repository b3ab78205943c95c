"""How far a run is: counts, waits, and the time left, from what was reported to it; no test waits for anything."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from esipp.base.waiting import Budget, Reading, converge, report_to
from esipp.checks.catalog import all_checks, checks_of
from esipp.checks.check import LONG, Check, Status, is_about
from esipp.checks.path import OnPath
from esipp.judging.durations import expected, pace, phases, shares
from esipp.ledger.progress import Phase, Progress, SlowSteps, Snapshot, Wait, plain, say_left, say_seconds
from tests.unit.world import by_id

CHECKS: list[Check] = [by_id(f"nodeport.local.{p}.ipv4.outside-1-to-endpoint-node") for p in ("tcp", "udp")]


class Clock:
    """Seconds as the test says."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def progress(clock: Clock) -> Progress:
    made = Progress(clock)
    made.begin(CHECKS, samples=20, moves=5)
    return made


def paths_of(check: Check) -> list[str]:
    assert is_about(check, OnPath)
    return [path.key for path in check.subject.paths]


# --------------------------------------------------------------------------------------------------------- the checks
def test_checks_are_arranged_when_the_testbed_stands(progress: Progress) -> None:
    progress.askable(check.id for check in CHECKS)
    progress.phase_begins("set-up", "4 services")
    assert progress.snapshot().set_up == 0
    progress.phase_ends("set-up")
    assert (progress.snapshot().checks, progress.snapshot().set_up) == (2, 2)


def test_a_check_is_observed_when_all_of_its_paths_have_all_of_their_connections(progress: Progress) -> None:
    progress.askable(check.id for check in CHECKS)
    first, *others = paths_of(CHECKS[0])
    assert others, "the check has controls"
    for path in others:
        progress.completed(path, 20)
    progress.completed(first, 2)
    assert progress.snapshot().observed == 0
    progress.completed(first, 18)
    assert progress.snapshot().observed == 1
    wanted = 20 * len({path for check in CHECKS for path in paths_of(check)})
    assert progress.snapshot().connections == (20 * (1 + len(others)), wanted)


def test_checks_that_cannot_be_asked_are_neither_arranged_nor_observed_but_judged(progress: Progress) -> None:
    progress.askable([CHECKS[0].id])
    progress.phase_begins("set-up", "")
    progress.phase_ends("set-up")
    progress.judged(CHECKS[0].id, Status.PASS)
    progress.judged(CHECKS[1].id, Status.UNSUPPORTED)
    snapshot = progress.snapshot()
    assert (snapshot.impossible, snapshot.set_up, snapshot.observed, snapshot.judged) == (1, 1, 1, 2)
    assert snapshot.counts == {Status.PASS: 1, Status.UNSUPPORTED: 1}


def test_a_verdict_that_is_given_again_counts_once(progress: Progress) -> None:
    progress.judged(CHECKS[0].id, Status.PASS)
    progress.judged(CHECKS[0].id, Status.FAIL)
    assert progress.snapshot().counts == {Status.FAIL: 1}


def test_it_hears_from_many_threads(progress: Progress) -> None:
    progress.askable(check.id for check in CHECKS)
    paths = sorted({path for check in CHECKS for path in paths_of(check)})

    def complete(path: str) -> None:
        number = progress.wait_begins("answers", 5)
        for _ in range(20):
            progress.completed(path, 1)
            progress.snapshot()
        progress.wait_ends(number)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(complete, paths))
    snapshot = progress.snapshot()
    assert snapshot.observed == 2
    assert snapshot.connections == (20 * len(paths), 20 * len(paths))
    assert not snapshot.waits


# -------------------------------------------------------------------------------------------------- phases and waits
def test_phases_are_reported_with_their_seconds(progress: Progress, clock: Clock) -> None:
    progress.phase_begins("set-up", "namespace\nesipp-1")
    clock.now += 4
    progress.phase_ends("set-up")
    progress.phase_begins("clients", "3 probers")
    clock.now += 2
    snapshot = progress.snapshot()
    assert [(each.name, each.what, each.seconds) for each in snapshot.done] == [("set-up", "namespace esipp-1", 4)]
    assert snapshot.now is not None
    assert (snapshot.now.name, snapshot.now.seconds) == ("clients", 2)
    assert snapshot.seconds == 6


def test_a_phase_that_broke_off_says_so_and_ends_the_run(progress: Progress, clock: Clock) -> None:
    progress.phase_begins("set-up", "")
    clock.now += 100
    progress.phase_ends("set-up", whole=False)
    snapshot = progress.snapshot()
    assert [each.whole for each in snapshot.done] == [False]
    assert snapshot.set_up == 0
    assert snapshot.left == expected(CHECKS, 20, 5)["teardown"], "all that is left is to clear up"


def test_waits_of_all_threads_are_known_the_longest_first(progress: Progress, clock: Clock) -> None:
    first = progress.wait_begins("load balancers to get their VIPs", 180)
    clock.now += 8
    second = progress.wait_begins("the run's pods to be ready", 50)
    progress.wait_goes_on(first, "3 of 12 are left")
    clock.now += 4
    assert [wait.sentence for wait in progress.snapshot().waits] == [
        "12 s of 180 s for load balancers to get their VIPs: 3 of 12 are left",
        "4 s of 50 s for the run's pods to be ready",
    ]
    progress.wait_ends(first)
    progress.wait_ends(second)
    progress.wait_goes_on(first, "too late")
    assert not progress.snapshot().waits


def test_short_waits_are_not_worth_a_line(progress: Progress, clock: Clock) -> None:
    progress.wait_begins("a move being followed", 30)
    clock.now += 1
    assert not progress.snapshot().waits


def test_a_converging_wait_tells_its_state(progress: Progress, clock: Clock) -> None:
    seen: list[str] = []

    def look() -> Reading:
        clock.now += 2
        seen.extend(wait.sentence for wait in progress.snapshot().waits)
        return Reading(len(seen) >= 2, "1 of 3 paths is silent")

    with report_to(progress):
        converge(look, Budget("every path", 30, need=1, spacing=0))
    assert seen == ["2 s of 30 s for every path", "4 s of 30 s for every path: 1 of 3 paths is silent"]
    assert not progress.snapshot().waits


def test_what_is_said_of_the_phase_is_kept_until_the_next(progress: Progress) -> None:
    progress.said("cluster: before any phase")
    assert progress.snapshot().said == ""
    progress.phase_begins("continuity", "quiet, drain")
    progress.said("continuity: drain")
    progress.said("something else: not of it")
    assert progress.snapshot().said == "drain"
    progress.phase_begins("teardown", "")
    assert progress.snapshot().said == ""


def test_what_a_cluster_says_is_one_line_that_moves_no_cursor() -> None:
    assert plain("a\x1b[2Jb\r\nc\u202ed\x9b1m") == "a [2Jb  c d 1m"


# ------------------------------------------------------------------------------------------------------ the time left
def test_every_kind_of_check_makes_some_phase_longer() -> None:
    short = set(expected([], 200, 30)) | {"set-up", "clients", "teardown", "preflight"}
    for check in all_checks():
        assert set(expected([check], 200, 30)) - short, f"nothing is known of how long {check.id} takes"


def test_every_part_that_the_table_names_is_some_check_s() -> None:
    parts = {check.subject.part for check in all_checks()}
    for typical in phases():
        assert all(parts.issuperset(event.parts) for event in typical.events), typical.phase
        assert all(any(isinstance(check.subject, kind) for check in all_checks()) for kind in typical.of), typical.phase


def test_more_samples_checks_and_moves_take_longer() -> None:
    checks = all_checks()
    few, many = expected(checks, 20, 10), expected(checks, 200, 30)
    assert few["observe"] < many["observe"]
    assert few["endpoint changes"] < many["endpoint changes"]
    assert expected(checks[:100], 200, 30)["set-up"] < many["set-up"]


def test_the_seconds_of_a_run_are_shared_out_among_the_checks_that_needed_them() -> None:
    checks = [*checks_of("health_checks"), *checks_of("nodes")]
    seconds = {"set-up": 10.0, "health scenarios": 60.0, "every node": 8.0, "endpoint changes": 100.0}
    found = shares(checks, seconds, {("health scenarios", "placement"): 60.0, ("health scenarios", "lifecycle"): 20.0})
    assert found.keys() == {check.id for check in checks}
    assert sum(found.values()) == pytest.approx(78.0), "no check needed the moves"
    set_up = 10.0 / len(checks)
    assert sum(found[check.id] - set_up for check in checks_of("nodes")) == pytest.approx(8.0)
    by_part = {part: [found[c.id] for c in checks if c.subject.part == part] for part in ("placement", "lifecycle")}
    assert min(by_part["placement"]) > max(by_part["lifecycle"]) > set_up


LEFT_OUT = {"nodes.shell", "control-plane.several", "rights.kube-proxy", "rights.network-agent"}


def test_a_whole_run_takes_what_it_took() -> None:
    checks = [check for check in all_checks() if not check.features & {*LEFT_OUT, LONG}]
    whole = sum(expected(checks, 40, 5).values())
    assert 700 < whole < 1030, (
        "860 s were measured for 40 samples and 5 moves, without what is done on nodes and to agents"
    )


def test_a_slow_run_is_slow_to_its_end_but_one_odd_phase_is_not_believed() -> None:
    assert pace({"set-up": 10, "observe": 100}, {}) == 1
    assert pace({"set-up": 10, "observe": 100}, {"set-up": 20}) == pytest.approx(40 / 30)
    assert pace({"set-up": 10, "observe": 100}, {"set-up": 20, "observe": 200}) > 1.8
    assert pace({"set-up": 10}, {"set-up": 10_000}) == 4
    assert pace({"observe": 1000}, {"observe": 0}) == 0.4
    assert pace({"set-up": 10}, {"artefacts": 500}) == 1


def test_the_time_left_shrinks_and_is_never_negative(progress: Progress, clock: Clock) -> None:
    lefts = []
    for name in expected(CHECKS, 20, 5):
        progress.phase_begins(name, "")
        for _ in range(50):
            clock.now += 1
            left = progress.snapshot().left
            assert left is not None
            assert left >= 0
            assert 0 <= progress.snapshot().share <= 1
            lefts.append(left)
        progress.phase_ends(name)
    assert lefts[-1] == 0
    assert lefts[0] > 10


def test_phases_that_were_passed_over_are_not_waited_for(progress: Progress) -> None:
    progress.phase_begins("preflight", "")
    before = progress.snapshot().left or 0
    progress.phase_ends("preflight")
    progress.phase_begins("teardown", "")
    after = progress.snapshot().left or 0
    assert after < before / 2


def test_the_window_s_own_pace_is_believed_more_than_the_table(progress: Progress, clock: Clock) -> None:
    progress.askable(check.id for check in CHECKS)
    progress.phase_begins("observe", "")
    clock.now += 300
    paths = sorted({path for check in CHECKS for path in paths_of(check)})
    for path in paths:
        progress.completed(path, 10)
    assert (progress.snapshot().left or 0) > 250, "as much again as the first half took"


def test_before_anything_is_known_there_is_no_estimate() -> None:
    snapshot = Progress().snapshot()
    assert (snapshot.left, snapshot.checks, snapshot.share, snapshot.now) == (None, 0, 0.0, None)


@pytest.mark.parametrize(
    ("seconds", "said"), [(-5, "0 s"), (8.4, "8 s"), (60, "1 min"), (125, "2 min 5 s"), (3840, "1 h 4 min")]
)
def test_durations_in_words(seconds: float, said: str) -> None:
    assert say_seconds(seconds) == said


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (None, ""),
        (0, "nearly done"),
        (9.9, "nearly done"),
        (44, "about 40 s left"),
        (128, "about 2 min left"),
        (611, "about 10 min left"),
    ],
)
def test_what_is_left_in_words(seconds: float | None, said: str) -> None:
    assert say_left(seconds) == said


# ------------------------------------------------------------------------------------------------------- slow steps
def at(seconds: float, phase: Phase | None, *waits: Wait, said: str = "", observed: int = 0) -> Snapshot:
    return Snapshot(9, 0, 9, observed, {}, seconds, [], phase, waits, (30, 120), 120.0, said)


def test_a_log_says_what_is_waited_for_but_not_too_often() -> None:
    slow = SlowSteps(every=15)
    phase = Phase("set-up", "", 45)

    def said(seconds: float, waited: float) -> list[str]:
        return slow.lines(at(seconds, phase, Wait("VIPs", waited, 180, "3 of 12 are left")))

    assert said(14, 14) == []
    assert said(45, 45) == ["set-up: still waiting, 45 s of 180 s for VIPs: 3 of 12 are left"]
    assert said(59, 59) == []
    assert said(60, 60) == ["set-up: still waiting, 60 s of 180 s for VIPs: 3 of 12 are left"]
    late = "195 s for VIPs (limit 180 s; the last look is not over): 3 of 12 are left"
    assert said(195, 195) == [f"set-up: still waiting, {late}"]


def test_a_wait_that_has_just_begun_is_not_reported() -> None:
    assert SlowSteps(15).lines(at(100, Phase("moves", "", 20), Wait("a move", 3, 30, ""))) == []


def test_what_was_just_said_is_a_sign_of_life() -> None:
    slow = SlowSteps(15)
    slow.quiet(at(50, None))
    wait = Wait("VIPs", 40, 180, "")
    assert slow.lines(at(60, Phase("set-up", "", 60), wait)) == []
    assert slow.lines(at(65, Phase("set-up", "", 65), wait)) != []


def test_a_long_phase_says_how_far_it_is() -> None:
    slow = SlowSteps(15)
    assert slow.lines(at(29, Phase("observe", "", 29))) == []
    assert slow.lines(at(31, Phase("observe", "", 31), observed=4)) == [
        "observe: 31 s so far, 30 of 120 connections, 4 checks observed; whole run: about 2 min left"
    ]
    assert slow.lines(at(60, Phase("continuity", "", 40), said="drain")) == [
        "continuity: 40 s so far, drain; whole run: about 2 min left"
    ]


def test_between_phases_nothing_is_slow() -> None:
    assert SlowSteps(15).lines(at(500, None)) == []
