"""What ci/bench makes of its readings: checks chosen, tables, and whose memory is counted."""

import json
import sys
from pathlib import Path

import pytest

from ci.benchmark import phases, spread, table, timed_run
from ci.memory import Peaks, Process, engine_of, processes, tree

ID, INNER = "0123456789abcdef" * 4, "f" * 64


def test_checks_are_chosen_evenly_and_once() -> None:
    ids = [f"row-{number}" for number in range(10)]
    assert spread(ids, 5) == ["row-0", "row-2", "row-4", "row-6", "row-8"]
    assert spread(ids, 3) == ["row-0", "row-3", "row-6"]
    assert spread(ids, 10) == ids


def test_the_table_has_a_column_a_number_of_checks_and_the_price_of_one_more() -> None:
    few = [{"observe": 1.0, "whole": 10.0}, {"observe": 2.0, "whole": 12.0}, {"observe": 3.0, "whole": 11.0}]
    many = [{"observe": 9.0, "whole": 30.0}]
    lines = table({100: few, 300: many})
    assert lines[0].split() == ["100", "checks", "300", "checks"]
    assert lines[1].split() == ["observe", "2.00", "(1.00", "to", "3.00)", "9.00", "(9.00", "to", "9.00)"]
    assert lines[-1] == "  a check more costs 95.0 ms, between 100 and 300 checks"
    assert len(table({100: few})) == 3  # with one column there is nothing to compare


def test_only_a_run_that_judged_its_checks_is_timed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="the reason"):
        phases(tmp_path, 4, "the reason")
    end = {"result": "not conformant", "seconds": {"judge": 1.0}}
    (tmp_path / "ledger.jsonl").write_text("{}\n" + json.dumps(end))
    assert phases(tmp_path, 1, "") == {"judge": 1.0}
    assert "not conformant" in capsys.readouterr().err
    (tmp_path / "ledger.jsonl").write_text(json.dumps({"result": "error", "seconds": {"set-up": 1.0}}))
    with pytest.raises(SystemExit, match="the reason"):
        phases(tmp_path, 3, "the reason")


RUNS = """
import json, pathlib, sys, time
print("progress", flush=True)
print("CONFORMANT: all is well", flush=True)
time.sleep(0.4)
end = {"result": "x", "seconds": {"judge": 1.0, "moves": 2.0}}
pathlib.Path(sys.argv[1], "ledger.jsonl").write_text(json.dumps(end))
"""


def test_a_run_is_timed_until_its_sentence_and_until_its_exit(tmp_path: Path) -> None:
    found = timed_run([sys.executable, "-c", RUNS, str(tmp_path)], tmp_path)
    assert list(found) == ["until the sentence", "until the exit", "judge", "moves"]
    assert 0.0 < found["until the sentence"] < found["until the exit"] - 0.3


@pytest.mark.parametrize(
    ("line", "engine"),
    [
        (f"4:memory:/esipp/{ID}/kubelet.slice/cri-containerd-{INNER}.scope", "/esipp/"),
        (f"0::/system.slice/docker-{ID}.scope/init.scope", "/system.slice/docker-"),
        (f"4:memory:/esipp2/{ID}", "/esipp2/"),
        ("0::/user.slice", None),
    ],
)
def test_an_engine_s_containers_are_known_by_what_stands_before_their_ids(line: str, engine: str | None) -> None:
    assert engine_of(line) == engine


@pytest.fixture
def proc(tmp_path: Path) -> Path:
    """A machine with a run, its two children, a pod's program on a node, and one of another engine's node."""
    answer = {
        10: (1, "/x/.venv/bin/python3\0/x/.venv/bin/esipp\0run\0", 60_000, "/user.slice"),
        11: (10, "kubectl\0exec\0", 20_000, "/user.slice"),
        12: (10, "kubectl\0exec\0", 21_000, "/user.slice"),
        20: (15, "python3\0-B\0/esipp/echoserver.py\0", 7_000, f"/esipp/{ID}/pod/{INNER}"),
        21: (15, "python3\0-B\0/esipp/echoserver.py\0", 8_000, f"/esipp2/{ID}/pod/{INNER}"),
    }
    for pid, (parent, command, size, cgroup) in answer.items():
        folder = tmp_path / str(pid)
        folder.mkdir()
        (folder / "cmdline").write_text(command)
        (folder / "stat").write_text(f"{pid} (a name) with) S {parent} 1 1")
        (folder / "smaps_rollup").write_text(f"Rss: {2 * size} kB\nPss:    {size} kB\nPss_Anon: 1 kB\n")
        (folder / "cgroup").write_text(f"4:memory:{cgroup}\n0::/\n")
    (tmp_path / "2").mkdir()  # a kernel thread
    (tmp_path / "2" / "cmdline").write_text("")
    (tmp_path / "meminfo").write_text("")
    return tmp_path


def test_a_run_is_its_process_and_all_below_it(proc: Path) -> None:
    found = {process.pid: process for process in processes(proc)}
    assert sorted(found) == [10, 11, 12, 20, 21]
    peaks = Peaks()
    peaks.take(tree([10], found))
    assert peaks.each == {"esipp": (60_000, 1), "kubectl": (41_000, 2)}
    assert peaks.total == 101_000


def test_a_process_in_a_pod_belongs_to_the_engine_of_its_node(proc: Path) -> None:
    pods = [process for process in processes(proc) if process.program == "echoserver.py"]
    assert [process.pid for process in pods if process.is_in("/esipp/")] == [20]


def test_peaks_are_the_most_at_one_time_and_an_ended_process_holds_nothing(proc: Path) -> None:
    found = {process.pid: process for process in processes(proc)}
    peaks = Peaks()
    peaks.take([found[11], found[12]])
    peaks.take([found[10]])
    gone = Process(99, 1, ("kubectl",), proc / "99")
    peaks.take([gone, found[11]])
    assert peaks.each == {"kubectl": (41_000, 2), "esipp": (60_000, 1)}
    assert peaks.total == 60_000
    assert not gone.is_in("/esipp/")
