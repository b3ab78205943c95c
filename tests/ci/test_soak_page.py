"""docs/soak.md says what was recorded, of red runs and of what a kill left, too."""

from pathlib import Path
from typing import Any

from ci import endurance


def run(**found: Any) -> dict[str, Any]:
    plain: dict[str, Any] = {
        "at": "2026-11-22 12:00",
        "commit": "abc",
        "cores": 2,
        "load": 7.4,
        "waited": 95.6,
        "suites": ["source_ip"],
        "samples": 20,
        "busy": 4,
        "grouped": True,
        "busy_in_node": 2,
        "seconds": 301.2,
        "result": "partial",
        "statuses": {"pass": 1514, "known": 4},
        "red": False,
        "undecided": False,
        "lane": "kind-iptables",
        "worse": [],
    }
    return plain | found


def kill(**found: Any) -> dict[str, Any]:
    plain: dict[str, Any] = {"at": "2026-11-22 12:00", "cores": 2, "load": 3.0, "part": "striking", "moment": 5.94}
    return (
        plain
        | {"phase": "strike", "said": "removed 2 containers", "restored": "as before after 8 s", "left": []}
        | found
    )


def test_runs_of_one_version_and_options_are_one_line() -> None:
    longer = run(seconds=330.0, load=11.6, statuses={"pass": 1500})
    other = run(commit="abd", grouped=False, statuses={"pass": 1500, "flaky": 3}, red=True)
    page = endurance.render({"runs": [run(), longer, other], "kills": []})
    line = "| 2026-11-22 12:00 | kind-iptables | {} | source_ip | 20 | 2 | {} + 2 | {} | 96 % | {} | {} | {} | none |"
    assert f"| 1 to 2 {line.format('abc', 4, '7 to 12', '301 to 330', '1,500 to 1,514', 'none')}" in page
    assert f"| 3 {line.format('abd', '4*', 7, 301, '1,500', 3)}" in page


def test_a_red_or_undecided_run_ends_the_check_and_is_reported() -> None:
    worse = run(red=True, worse=["fail a (core): seen; why"], note="A second cluster was being built.")
    runs = [run(), worse, run(), run(), run()]
    assert endurance.in_a_row(runs) == 3
    assert endurance.in_a_row([*runs, run(undecided=True)]) == 0
    page = endurance.render({"runs": runs, "kills": []})
    assert "**5 runs so far, 1 red, 0 undecided; in a row without either, up to the last run: 3** (goal: 50)." in page
    assert "* run 2: fail a (core): seen; why\n" in page
    assert "\nRun 2: A second cluster was being built.\n" in page


def test_a_kill_that_left_something_is_reported_and_one_that_came_too_late_is_not_counted() -> None:
    kills = [kill(), kill(left=["namespace esipp-x"]), kill(phase=endurance.ENDED)]
    page = endurance.render({"runs": [], "kills": kills})
    assert "**2 runs killed so far; 1 of them left resources behind" in page
    assert "striking, 5.9 s into it | strike | removed 2 containers | as before after 8 s |" in page
    assert "| namespace esipp-x |" in page


def test_records_are_added_to_what_there_was(tmp_path: Path) -> None:
    kept, page = tmp_path / "soak.jsonl", tmp_path / "soak.md"
    for seconds in (1.0, 2.0):
        endurance.add("runs", run(seconds=seconds), kept, page)
    records = endurance.load(kept)
    assert [each["seconds"] for each in records["runs"]] == [1.0, 2.0]
    assert page.read_text(encoding="utf-8") == endurance.render(records)


def test_how_long_was_waited_is_read_where_the_kernel_tells_it(tmp_path: Path) -> None:
    found = tmp_path / "cpu"
    found.write_text(
        "some avg10=1.00 avg60=2.00 avg300=88.71 total=1\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=0\n"
    )
    assert endurance.waited(found) == {"waited": 88.71}
    assert endurance.waited(tmp_path / "none") == {}
