"""The table of broken data planes, and how a run is held against one."""

import fcntl
import threading
from collections import Counter
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ci import records
from esipp.checks.catalog import all_checks
from esipp.checks.check import Check, Level
from esipp.checks.timing import GIVES_UP
from esipp.scenarios.paths.run import ANSWER_TIMEOUT
from tests.broken import lying_proxy, score
from tests.broken.breakage import (
    CILIUM,
    DISRUPTIVE,
    KUBE_PROXY,
    Break,
    Group,
    RunOptions,
    Score,
    hold,
    no_check,
    not_counted,
)
from tests.broken.breaks import BREAKS, UNNOTICED
from tests.broken.conftest import write_page
from tests.broken.nodes import Nodes, Placed, Result
from tests.broken.turns import once, turn

CHECKS = all_checks()[:6]
SAMPLE = Break(
    "sample",
    Group.SOURCE,
    "a sample",
    RunOptions(("source_ip",)),
    lambda nodes: nullcontext(Placed(1.0)),
    lambda check: check.id in (CHECKS[0].id, CHECKS[1].id),
    names="veth",
    opens=lambda check: check.id == CHECKS[2].id,
    may=lambda check: check.id == CHECKS[3].id,
)
HEALTHY = {check.id: "pass" for check in CHECKS[:5]} | {CHECKS[5].id: "unsupported"}


def held(*statuses: str, broken: Break = SAMPLE, exit_code: int = 1, diagnosis: str = "at veth1") -> Score:
    said = dict(zip((check.id for check in CHECKS), statuses, strict=True))
    return hold(broken, CHECKS, HEALTHY, Result(exit_code, said, 2.0, "", dict.fromkeys(said, diagnosis), {}))


ABOUT = {"date": "2026-11-21", "cluster": "kind-iptables", "cores": 4}
AS_IT_MUST_BE = ("fail", "fail", "inconclusive", "pass", "pass", "unsupported")


def test_the_right_checks_and_no_other() -> None:
    score = held(*AS_IT_MUST_BE)
    assert (score.must, score.right, score.named, score.wrong, score.missed) == (2, 2, 2, {}, {})
    assert score.good


@pytest.mark.parametrize(
    ("at", "status"),
    [(0, "pass"), (1, "error"), (2, "pass"), (4, "fail"), (4, "inconclusive"), (5, "pass")],
)
def test_another_verdict_is_not_as_it_must_be(at: int, status: str) -> None:
    statuses = [*AS_IT_MUST_BE]
    statuses[at] = status
    assert not held(*statuses).good


def test_a_run_counts_unless_it_judged_nothing_or_is_not_good_next_to_another() -> None:
    def again(*statuses: str, alone: bool = False) -> str:
        said = dict(zip((check.id for check in CHECKS), statuses, strict=False))
        result = Result(1, said, 2.0, "esipp: a pod was not ready\n", {}, {})
        return not_counted(result, hold(SAMPLE, CHECKS, HEALTHY, result), alone=alone)

    late = (*AS_IT_MUST_BE[:4], "fail", "unsupported")
    assert again(alone=True) == "esipp: a pod was not ready"
    assert again(*late).startswith("it ran next to another break, and ")
    assert again(*late).endswith(f"wrong {CHECKS[4].id}: pass -> fail")
    for unknown in ("inconclusive", "error"):
        assert again(unknown, *AS_IT_MUST_BE[1:]).endswith(f"missed {CHECKS[0].id}: {unknown}")
    assert again("pass", *AS_IT_MUST_BE[1:]) == "", "no neighbour makes a check pass"
    assert again("pass", *late[1:]) == ""
    assert again(*AS_IT_MUST_BE) == ""
    assert again(*late, alone=True) == ""


@pytest.mark.parametrize(("said", "wrong"), [("pass", 0), ("inconclusive", 0), ("fail", 1), ("flaky", 1)])
def test_what_the_healthy_cluster_left_undecided_is_wrong_only_if_it_is_red(said: str, wrong: int) -> None:
    undecided = HEALTHY | {CHECKS[4].id: "inconclusive"}
    diagnoses = {CHECKS[4].id: said}
    assert len(hold(SAMPLE, CHECKS, undecided, Result(1, diagnoses, 2.0, "", {}, {})).wrong) == wrong


def test_what_follows_now_and_then_may_say_anything() -> None:
    statuses = [*AS_IT_MUST_BE]
    statuses[3] = "flaky"
    assert held(*statuses).good


def test_the_cause_must_be_named_and_the_run_must_fail() -> None:
    assert not held(*AS_IT_MUST_BE, diagnosis="something is wrong").good
    assert not held(*AS_IT_MUST_BE, exit_code=0).good


def test_a_break_that_no_check_must_notice_proves_nothing() -> None:
    nothing = replace(SAMPLE, notices=lambda check: False, opens=lambda check: False)
    assert not held(*("pass",) * 5, "unsupported", broken=nothing).good


def test_a_harmless_difference_must_leave_the_run_conformant() -> None:
    harmless = replace(SAMPLE, group=Group.HARMLESS, says=frozenset({"known"}), opens=lambda check: False, names="")
    statuses = ("known", "known", "pass", "pass", "pass", "unsupported")
    assert held(*statuses, broken=harmless, exit_code=0).good
    assert not held(*statuses, broken=harmless, exit_code=1).good


def test_how_many_checks_the_run_judged_is_reported() -> None:
    assert held(*AS_IT_MUST_BE).asked == 5, "one was not asked"
    page = score.page([SAMPLE], [], score.as_records([SAMPLE], [held(*AS_IT_MUST_BE)], ABOUT))
    assert f"of the catalogue's {len(CHECKS_OF_ALL):,}." in page
    assert "| 2 of 2 | 0 | 5 | named | kind-iptables |" in page


def test_a_break_is_judged_by_the_default_command(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    ran: list[list[str]] = []

    def run(command: list[str], **_: object) -> object:
        ran.append(command)
        (tmp_path / "ledger.jsonl").write_text("")
        return SimpleNamespace(returncode=0, stdout="", stderr="")

    monkeypatch.setattr("tests.broken.nodes.subprocess.run", run)
    monkeypatch.setattr("tests.broken.nodes.shutil.rmtree", lambda *_, **__: None)
    monkeypatch.setattr("tests.broken.nodes.ClusterAccess.load", lambda _: None)
    monkeypatch.setattr("tests.broken.nodes.read_ledger", lambda _: [])
    cluster: Any = SimpleNamespace(context="kind-esipp")
    Nodes(cluster, None, (), {}, {}, {}).qualify(tmp_path, suites=("continuity",), checks=("quiet",), options=("--x",))
    (command,) = ran
    assert "--fail-on" not in command
    assert {"--suite=continuity", "quiet", "--x"} <= {*command}


def test_those_for_another_data_plane_are_distinguished() -> None:
    assert {plane for each in BREAKS for plane in each.data_planes} == {KUBE_PROXY, CILIUM}
    page = score.page([replace(SAMPLE, data_planes=(CILIUM,))], [], [])
    assert "| with cilium |" in page


def test_a_health_check_that_lies_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lying_proxy, "TRUE_BEFORE", 2)
    true, where = b"HTTP/1.1 200 OK\r\n\r\n{}", ("192.0.2.1", 30000)
    true_answers = [lying_proxy.once(true, where) == true for _ in range(6)]
    assert true_answers == [True, True, False, True, True, True]
    assert lying_proxy.other_status(b"HTTP/1.1 503 Service Unavailable\r\n\r\n{}").startswith(b"HTTP/1.1 200 OK")


def test_a_health_check_that_hangs_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    monkeypatch.setattr(lying_proxy.time, "sleep", slept.append)
    true, where = b"HTTP/1.1 200 OK\r\n\r\n{}", ("192.0.2.1", 30001)
    assert {lying_proxy.hangs(true, where) for _ in range(8)} == {true}
    assert slept == [lying_proxy.HANGS] * 2
    assert GIVES_UP < lying_proxy.HANGS < ANSWER_TIMEOUT


def test_names_are_names_of_one() -> None:
    names = Counter([each.name for each in BREAKS] + [each.name for each in UNNOTICED])
    assert [name for name, count in names.items() if count > 1] == []


@pytest.mark.parametrize("broken", BREAKS, ids=lambda each: each.name)
def test_a_break_is_about_checks_that_it_asks(broken: Break) -> None:
    chosen = broken.run
    asked = [check for check in CHECKS_OF_ALL if check.suite in chosen.suites and _asked(check, chosen)]
    notice = [check for check in asked if broken.notices(check)]
    assert len(notice) < len(asked), "no neighbour is asked"
    for part in chosen.checks:
        assert any(part in check.id for check in asked), f"{part} is in no id"
    assert not any(option.startswith(("--fail-on", "--accept")) for option in chosen.options), "it chooses what binds"
    torn = [check.id for check in notice if broken.opens(check) and _possible(check, chosen)]
    assert torn == [], "a check cannot both notice and be undecided"
    for about in (broken.opens, broken.may, broken.unsure):
        found = any(about(check) and _possible(check, chosen) for check in asked)
        assert about is no_check or found, "it names no check that is there"
    if broken.group is not Group.HARMLESS:
        assert any(_possible(check, chosen) for check in notice), "nothing can notice it"
        assert all(check.level is not Level.RECORD for check in notice), "what is recorded fails nothing"
        assert chosen.own or any(not check.instrument for check in notice), "an instrument is outside of the verdict"


def test_what_may_be_undecided_may_not_fail() -> None:
    unsure = replace(SAMPLE, unsure=lambda check: check.id == CHECKS[4].id)
    statuses = ["fail", "fail", "inconclusive", "pass", "inconclusive", "unsupported"]
    assert held(*statuses, broken=unsure).good
    statuses[4] = "flaky"
    assert not held(*statuses, broken=unsure).good


def _named(name: str) -> Break:
    return next(each for each in BREAKS if each.name == name)


@pytest.mark.parametrize(
    ("name", "check", "role"),
    [
        ("hostname-vip-masqueraded-by-a-node", "loadbalancer.local.tcp.ipv4.outside-1-to-vip", "notices"),
        ("hostname-vip-masqueraded-by-a-node", "loadbalancer.local.tcp.ipv4.host-on-endpoint-node-to-vip", "may"),
        ("hostname-vip-masqueraded-by-a-node", "loadbalancer.local.host-network.tcp.ipv4.outside-1-to-vip", ""),
        ("hostname-vip-shows-another-client", "nodeport.local.tcp.ipv4.outside-1-to-endpoint-node", "notices"),
        ("hostname-vip-shows-another-client", "loadbalancer.local.pair.affinity.tcp.ipv4.outside-1-to-vip", "opens"),
        ("proxy-syncs-every-8-s", "flip.nodeport.ipv6.bare-node.prompt", "notices"),
        ("proxy-syncs-every-8-s", "flip.health-port.loadbalancer.ipv6.prompt", "notices"),
        ("proxy-syncs-every-8-s", "beside.health.ipv4.bare-node", "unsure"),
        ("proxy-syncs-every-8-s", "flip.nodeport.ipv4.endpoint-node.prompt", ""),
        ("proxy-syncs-every-8-s", "flip.nodeport.ipv4.bare-node.settles", ""),
        ("proxy-frozen", "flip.loadbalancer.ipv4.bare-node.prompt", "notices"),
        ("proxy-frozen", "beside.nodeport.local.tcp.ipv4.outside-1-to-endpoint-node", "opens"),
        ("policy-lost-on-update", "api.change.nodeport-to-loadbalancer.local.policy", "notices"),
        ("policy-lost-on-update", "api.change.clusterip-to-nodeport.local.policy", ""),
    ],
)
def test_what_a_check_does_under_a_break(name: str, check: str, role: str) -> None:
    broken, check = _named(name), next(each for each in CHECKS_OF_ALL if each.id == check)
    roles = ("notices", "opens", "may", "unsure")
    assert [each for each in roles if getattr(broken, each)(check)] == ([role] if role else [])


CHECKS_OF_ALL = all_checks()


def _asked(check: Check, asked: RunOptions) -> bool:
    return not asked.checks or any(part in check.id for part in asked.checks)


def _possible(check: Check, asked: RunOptions) -> bool:
    return asked.disruptive or DISRUPTIVE not in check.features


def test_every_record_is_of_a_break_of_the_table() -> None:
    assert {each["name"] for each in records.read(records.FOLDER / "broken.jsonl")} <= {each.name for each in BREAKS}


def test_a_record_that_does_not_say_how_much_was_asked_is_none() -> None:
    (record,) = score.as_records([SAMPLE], [held(*AS_IT_MUST_BE)], ABOUT)
    del record["asked"]
    assert "0 of 1 breaks have a run" in score.page([SAMPLE], [], [record])


def test_what_was_not_tried_again_stays_in_the_record() -> None:
    first = score.as_records([SAMPLE], [held(*AS_IT_MUST_BE)], ABOUT)
    other = replace(SAMPLE, name="other")
    both = score.as_records([SAMPLE, other], [replace(held(*AS_IT_MUST_BE), name="other")], ABOUT, first)
    assert [each["name"] for each in both] == ["other", "sample"]
    assert [each["name"] for each in score.as_records([other], [], ABOUT, both)] == ["other"]
    page = score.page([SAMPLE, other], [], first)
    assert "1 of 2 breaks have a run" in page
    assert "| other | a sample | not run |" in page
    assert "- 2026-11-21, kind-iptables, 4 cores: 1" in page


def test_records_and_page_are_brought_up_to_date_in_any_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.broken.conftest.ClusterAccess.load", lambda _: None)
    for name in (BREAKS[1].name, BREAKS[0].name):
        write_page(tmp_path, [replace(held(*AS_IT_MUST_BE), name=name)])
    found = records.read(tmp_path / "records" / "broken.jsonl")
    assert [each["name"] for each in found] == sorted(each.name for each in BREAKS[:2])
    assert (tmp_path / "docs" / "broken.md").read_text() == score.page(BREAKS, UNNOTICED, found)


def test_the_page_tells_which_ones_had_to_be_run_anew() -> None:
    good = held(*AS_IT_MUST_BE)
    assert "## Repeated runs" not in score.page([SAMPLE], [], score.as_records([SAMPLE], [good], ABOUT))
    again = score.as_records([SAMPLE], [replace(good, repeated="esipp: a pod was not ready")], ABOUT)
    assert "- **sample**: esipp: a pod was not ready\n" in score.page([SAMPLE], [], again)


def test_the_table_tells_what_went_wrong() -> None:
    bad = held("fail", "pass", "inconclusive", "pass", "fail", "unsupported", diagnosis="")
    said = "\n".join(score.lines([SAMPLE], [bad]))
    assert "1 of 2" in said
    assert "NOT NAMED" in said
    assert f"missed {CHECKS[1].id}: pass" in said
    assert f"wrong {CHECKS[4].id}: pass -> fail" in said
    assert "1 of 1 broken data planes noticed" in said


def test_scores_are_kept_between_workers(tmp_path: Path) -> None:
    first = held(*AS_IT_MUST_BE)
    score.keep(first, tmp_path)
    assert [each.name for each in score.kept(tmp_path)] == ["sample"]
    with once(tmp_path, "healthy") as missing:
        assert missing is not None
        missing.touch()
    with once(tmp_path, "healthy") as missing:
        assert missing is None


def test_who_waits_for_the_cluster_alone_is_not_overtaken(tmp_path: Path) -> None:
    order: list[str] = []

    def use(name: str, *, alone: bool) -> threading.Thread:
        def work() -> None:
            with turn(tmp_path / "turn", alone=alone):
                order.append(name)

        thread = threading.Thread(target=work)
        thread.start()
        return thread

    def holds_the_gate() -> bool:
        with (tmp_path / "turn.gate").open("a") as gate:
            try:
                fcntl.flock(gate, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return True
            return False

    with turn(tmp_path / "turn", alone=False):
        first = use("alone", alone=True)
        while not holds_the_gate():
            assert first.is_alive()
        second = use("beside", alone=False)
        assert order == []
    first.join()
    second.join()
    assert order == ["alone", "beside"]
