"""ci/matrix: lanes one after the other, resumed where it was stopped, in one report."""

import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import cast

import pytest

from ci import lane_file, matrix
from ci.matrix import Stopping, report, run, table, usual_lanes
from ci.matrix_state import Ended, State
from ci.places import ROOT
from tests.unit import report_world

LANES = [lane_file.load(name) for name in ("kind-iptables", "kind-nftables", "kind-1.32")]
NAMES = [lane.name for lane in LANES]


class Lane:
    """`ci/conformance` that is over at once, with the run that it has to make."""

    def __init__(self, conformances: "Conformances", command: list[str]) -> None:
        self.signals: list[int] = []
        self.name = command[command.index("--lane") + 1]
        self.folder = Path(command[command.index("--out") + 1])
        self._conformances = conformances

    def wait(self) -> int:
        code = self._conformances.codes.get(self.name, 0)
        self._conformances.while_running(self.name)
        if code in (0, 1):
            verdicts = report_world.failing() if code else {}
            report_world.made(self.folder, report_world.some_checks(), verdicts, lane=self.name)
        return code

    def poll(self) -> None:
        return None

    def send_signal(self, number: int) -> None:
        self.signals.append(number)


class Conformances:
    """Starts lanes, and notes which."""

    def __init__(self, codes: Mapping[str, int] | None = None) -> None:
        self.codes = dict(codes or {})
        self.started: list[list[str]] = []
        self.lanes: list[Lane] = []
        self.while_running: Callable[[str], None] = lambda _name: None

    def start(self, command: list[str]) -> "subprocess.Popen[bytes]":
        self.started.append(command)
        self.lanes.append(Lane(self, command))
        return cast("subprocess.Popen[bytes]", self.lanes[-1])

    @property
    def names(self) -> list[str]:
        return [lane.name for lane in self.lanes]


@pytest.fixture
def state(tmp_path: Path) -> State:
    return State(tmp_path / "state", "hermetic", ["--moves", "3"])


def test_each_lane_gets_a_folder_and_the_options(state: State) -> None:
    conformances = Conformances()
    ended = run(LANES, state, Stopping(), start=conformances.start)
    assert conformances.names == NAMES
    assert conformances.started[0][1:] == ["--lane", "kind-iptables", "--path", "hermetic", "--",
                                           "--out", str(state.folder("kind-iptables")), "--moves", "3"]  # fmt: skip
    assert {name: each.code for name, each in ended.items()} == dict.fromkeys(NAMES, 0)


def test_it_goes_on_where_it_was_stopped(state: State) -> None:
    first = Conformances()
    run(LANES[:2], state, Stopping(), start=first.start)
    second = Conformances()
    ended = run(LANES, state, Stopping(), start=second.start)
    assert second.names == ["kind-1.32"]
    assert set(ended) == set(NAMES)
    again = Conformances()
    run(LANES, state, Stopping(), again=True, start=again.start)
    assert again.names == NAMES


def test_a_run_that_is_not_whole_or_of_other_content_is_made_again(
    state: State, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(LANES, state, Stopping(), start=Conformances().start)
    ledger = state.folder("kind-nftables") / "ledger.jsonl"
    ledger.write_text("".join(ledger.read_text().splitlines(keepends=True)[:-1]))
    assert [lane.name for lane in LANES if not state.recorded(lane)] == ["kind-nftables"]
    assert not State(state.root, "hermetic", ["--moves", "4"]).recorded(LANES[0]), "other options"
    assert not State(state.root, "official", ["--moves", "3"]).recorded(LANES[0]), "another way"
    assert not state.recorded(lane_file.load("kind-iptables", "v1.34.4")), "another Kubernetes"
    monkeypatch.setattr("ci.matrix_state.key_of", lambda *_: "other")
    assert not State(state.root, "hermetic", ["--moves", "3"]).recorded(LANES[0]), "another suite"


def test_a_lane_without_a_cluster_is_said_and_the_others_go_on(
    state: State, capsys: pytest.CaptureFixture[str]
) -> None:
    conformances = Conformances({"kind-nftables": 4})
    ended = run(LANES, state, Stopping(), start=conformances.start)
    assert conformances.names == NAMES
    assert "kind-nftables got no cluster; the others go on." in capsys.readouterr().out
    assert report(LANES, ended, state, Stopping()) == 4
    assert run(LANES, state, Stopping(), start=conformances.start)["kind-nftables"].code == 4
    assert conformances.names == [*NAMES, "kind-nftables"], "it is tried again, and nothing else is"


@pytest.mark.parametrize(("keep_going", "asked"), [(False, NAMES[:1]), (True, NAMES)])
def test_a_lane_that_fails_ends_it_unless_asked_otherwise(state: State, *, keep_going: bool, asked: list[str]) -> None:
    conformances = Conformances({"kind-iptables": 1})
    ended = run(LANES, state, Stopping(), keep_going=keep_going, start=conformances.start)
    assert conformances.names == asked
    assert report(LANES, ended, state, Stopping()) == 1


@pytest.mark.parametrize("code", [2, 4, 130, -2])
def test_an_interruption_ends_the_lane_under_way_and_begins_no_other(
    state: State, capsys: pytest.CaptureFixture[str], code: int
) -> None:
    conformances, stopping = Conformances({}), Stopping()
    conformances.codes["kind-nftables"] = code
    conformances.while_running = lambda name: stopping.stop() if name == "kind-nftables" else None
    ended = run(LANES, state, stopping, start=conformances.start)
    assert conformances.names == NAMES[:2]
    assert conformances.lanes[1].signals == [signal.SIGINT]
    assert report(LANES, ended, state, stopping) == 2
    assert "goes on with kind-nftables, kind-1.32." in capsys.readouterr().err
    assert not state.recorded(LANES[1])


def test_the_runs_are_reported_in_one_matrix_with_times_and_cores(
    state: State, capsys: pytest.CaptureFixture[str]
) -> None:
    ended = run(LANES[:2], state, Stopping(), start=Conformances().start)
    assert report(LANES, ended, state, Stopping()) == 0
    found = capsys.readouterr().out
    assert "2 of 2 runs conform" in found
    assert "kind-1.32      not run" in found
    page = (state.root / matrix.REPORT).read_text(encoding="utf-8")
    assert "kind-nftables" in page.split("### Matrix")[0]


def test_a_known_difference_that_expired_is_named_and_fails_the_matrix(
    state: State, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ended = run(LANES[:1], state, Stopping(), start=Conformances().start)
    monkeypatch.setattr(matrix, "expired", lambda _runs: ["'a reason' was not seen"])
    assert report(LANES[:1], ended, state, Stopping()) == 3
    assert "expired: 'a reason' was not seen" in capsys.readouterr().out


def test_the_table_has_a_line_a_lane() -> None:
    ended = {"kind-iptables": Ended("k", 1, 930.0, 2, "2026-11-22 12:00", "abc")}
    lines = table(LANES, ended).splitlines()
    assert lines[1].split() == ["kind-iptables", "does", "not", "conform", "2", "15.5", "2026-11-22", "12:00"]
    assert lines[3].startswith("kind-1.32      not run")


def test_the_usual_lanes_need_nothing_in_particular() -> None:
    usual = usual_lanes()
    assert {"kind-iptables", "kind-nftables", "kind-ipv6", "kind-1.32", "kind-1.34"} <= set(usual)
    assert not {"kind-ipvs", "kind-calico", "kind-cloud-provider", "as-gke"} & set(usual)
    assert usual[0] == "kind-iptables"


def test_what_differs_in_its_name_only_is_run_once() -> None:
    default = lane_file.load("kind-iptables").kubernetes
    alike = [lane_file.load(f"kind-1.{minor}") for minor in range(32, 37)]
    same = [lane.name for lane in alike if lane.kubernetes == default]
    assert same == ["kind-1.36"]
    assert "kind-1.36" not in usual_lanes()


def test_a_wrong_lane_is_refused_before_anything_runs(capsys: pytest.CaptureFixture[str]) -> None:
    assert matrix.main(["kind-nothing"]) == 4
    assert "There is no lane 'kind-nothing'" in capsys.readouterr().err
    with pytest.raises(SystemExit) as refused:
        matrix.main(["--bogus"])
    assert refused.value.code == 4


def handlers() -> tuple[object, ...]:
    return signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)


def test_signals_are_as_before_when_it_is_over() -> None:
    before, stopping = handlers(), Stopping()
    with matrix._watched(stopping):
        assert handlers() != before
        signal.raise_signal(signal.SIGTERM)
    assert handlers() == before
    assert stopping.requested


CONFORMANCE = """#!{python}
import signal, sys
signal.signal(signal.SIGINT, lambda *_: sys.exit(2))
print("lane under way", flush=True)
while True:
    signal.pause()
"""
MATRIX = """import sys
from pathlib import Path
from ci import matrix
matrix.CI = Path(sys.argv[1])
sys.exit(matrix.main(["kind-iptables", "kind-nftables", "--state", sys.argv[2]]))
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_process_of_the_lane_and_all_of_it_is_reported(
    tmp_path: Path, number: signal.Signals
) -> None:
    script = tmp_path / "conformance"
    script.write_text(CONFORMANCE.format(python=sys.executable))
    script.chmod(0o755)
    command = [sys.executable, "-c", MATRIX, str(tmp_path), str(tmp_path / "state")]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout
        assert any("lane under way" in line for line in process.stdout)
        process.send_signal(number)
        found, said = process.communicate(timeout=60)
    assert process.returncode == 2
    assert "kind-iptables  interrupted" in found
    assert "goes on with kind-iptables, kind-nftables." in said
    assert not (tmp_path / "state" / "kind-nftables.json").exists()
