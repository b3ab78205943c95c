"""Records for docs/soak.md: repeated runs on a busy machine, and killed runs.

Each run is one record in records/soak.jsonl. Records are only ever added: a series can continue on another machine, and
red runs stay on the page.
"""

import contextlib
import os
import re
import time
from collections.abc import Iterable, Sequence
from itertools import groupby, takewhile
from pathlib import Path
from typing import Any

from ci import records
from ci.access import ClusterAccess
from ci.places import ROOT, cores, places
from ci.records import Record
from esipp.base.markdown import table_text

Records = dict[str, list[Record]]

KEPT = records.FOLDER / "soak.jsonl"
PAGE = ROOT / "docs" / "soak.md"
WANTED_RUNS, WANTED_KILLS = 50, 30
ENDED = "ended before"
"""The phase of a run that ended before the kill."""

HEAD = """# Robustness of a run: a busy machine, and kill -9

Both measurements are started by hand and stored in `records/soak.jsonl`, one run a line; `ci/generate` renders this
page. Red runs stay on it.

## A healthy cluster on a busy machine

`ci/soak --record` repeats suites on a healthy cluster while busy processes load the machine and the endpoint node. A
series is consecutive runs of one version on one lane with the same options. *busy* counts the busy processes: those
beside the cluster, in a container and a control group of their own, and those in the endpoint node. In series marked
with * the first were in the run's own session, and slowed the run more than the cluster. *waited* is the share of the
last five minutes in which some task waited for a core. A run is red if a check of any level is `fail` or `flaky`, or
if its ledger is incomplete. It is undecided if checks are `inconclusive` or `error`. The kernels in use have no netem
("Specified qdisc kind is unknown"); the busy node replaces it.
"""

KILLED = """
## Killed with -9

Started by hand, on a kept cluster:

```
ESIPP_KILLS=30 ESIPP_KILLS_RECORD=1 ./ci/enter python -m pytest tests/broken/test_killed_static.py \\
    --context kind-esipp -W error -s
```

The test kills a run of the suite `source_ip` (a few checks of every kind) with SIGKILL at a random moment. It draws
the moment in turn from the whole run, set-up, measurement and teardown. Then `esipp clean` runs, and the test compares
the state with a snapshot from before the first run. The snapshot has objects of all kinds, containers and docker
networks. For each node and this machine it has routes, rules, addresses, packet filters and network namespaces. It
also has the suite's programs on nodes, and the processes of the killed session on this machine. Resources of other
owners, some with names like the suite's, must survive: a namespace with a pod, a Service and a ConfigMap, a container,
and on each node and this machine a route, a rule and a packet filter rule.

`tests/broken/test_killed.py` does the same with what `--allow-disruptive` allows: each disruption in a random order,
killed at a random moment, every other time together with the watchdog that would undo it (`ESIPP_KILLED=driver
ESIPP_KILLS=30`). On 2026-11-28, 30 such kills left nothing: objects were as before, and nodes had no mark, timer or
stopped service of a disruption. On 2026-11-29, 14 more left nothing, of disruptions that had come since (`node-joined`,
`node-left`, `controller-stopped`, `balancer-cut-off`, `proxy-slow` and others). For `node-restarted` and
`node-readdressed` this is not shown yet.
"""

TAIL = """
The snapshots take most of the seconds. They do not cover one thing: the kubernetes client stores certificate and key of
the account in temporary files until its process ends. According to its code, kill -9 leaves them behind.

## Changes made for busy machines

* The prober and the echo server read the clock after they had polled their sockets. If the process stalled in between,
  an answer that had arrived counted as missing, or was dropped. Now a timeout expires only if it was due before the
  poll.
* A path that answered at least once while settling has ten seconds for an answer, not four. Formerly only the last
  poll counted, and other paths got two seconds. After two seconds an unanswered probe no longer delays the next probes
  of its path, so long timeouts cost little where answers are lost for good.
* The echo server closes a connection after twelve seconds, not five, as its client now waits for ten.
* A node that is lost for a while makes its pods unready, but not their containers. The window is then not judged, as if
  a container had been unready.
* Health checks have ten seconds for an answer in the long window, which looks for any wrong answer, and in isolation
  checks. In the short window they have ten if they answered within two seconds at least once while settling, else two.
* The reference load balancer has a health check timeout of five seconds, not one. With one second, a stalled service
  proxy made all nodes unhealthy, and connections through the proxies were lost.
* The suite's own pods get 120 s to become ready; VIPs, listeners and probers 60 s each.

Probes are never repeated. A connection without an answer counts as lost, whatever the timeout, and answers are judged
as before.
"""


def conditions() -> dict[str, Any]:
    """Time, commit, machine and cluster, for each record."""
    there = ClusterAccess.load(places())
    return waited() | {
        "at": time.strftime("%Y-%m-%d %H:%M", time.gmtime()),
        "commit": records.commit(),
        "cores": cores(),
        "load": round(os.getloadavg()[0], 1),
        "lane": there.lane if there else "unknown",
        "kubernetes": there.kubernetes if there else "unknown",
    }


def waited(path: Path = Path("/proc/pressure/cpu")) -> dict[str, float]:
    """Percentage of the last five minutes in which a task waited for a core; empty if unknown."""
    with contextlib.suppress(OSError):
        if found := re.search(r"^some .*avg300=([\d.]+)", path.read_text(encoding="utf-8")):
            return {"waited": float(found[1])}
    return {}


def load(path: Path = KEPT) -> Records:
    """All records, oldest first: ``runs`` and ``kills``."""
    found: Records = {"runs": [], "kills": []}
    for each in records.read(path):
        found[each["kind"]].append(each)
    return found


def add(kind: str, record: Record, path: Path = KEPT, page: Path = PAGE) -> None:
    """Add a record, and render the page."""
    records.write(path, [*records.read(path), {"kind": kind, **conditions(), **record}])
    page.write_text(render(load(path)), encoding="utf-8")


def in_a_row(runs: Sequence[Record]) -> int:
    """Number of consecutive last runs that are neither red nor undecided."""
    return sum(1 for _ in takewhile(lambda each: not each["red"] and not each["undecided"], reversed(runs)))


def render(found: Records) -> str:
    """The page."""
    runs, kills = found["runs"], found["kills"]
    return "".join((HEAD, *_run_lines(runs), KILLED, *_kill_lines(kills), TAIL))


def _run_lines(runs: Sequence[Record]) -> Iterable[str]:
    red, undecided = (sum(1 for each in runs if each[what]) for what in ("red", "undecided"))
    yield f"\n**{len(runs)} runs so far, {red} red, {undecided} undecided; in a row without either, up to the last "
    yield f"run: {in_a_row(runs)}** (goal: {WANTED_RUNS}).\n"
    if not runs:
        return
    heads = ("runs", "began (UTC)", "lane", "commit", "suites", "connections per path", "cores", "busy", "load",
             "waited", "seconds", "checks that pass", "red", "undecided")  # fmt: skip
    numbered = list(enumerate(runs, 1))
    series = [list(each) for _, each in groupby(numbered, lambda run: _series(run[1]))]
    yield "\n" + table_text(heads, map(_series_cells, series))
    worse = [(number, text) for number, each in numbered for text in each["worse"]]
    noted = [(number, each["note"]) for number, each in numbered if "note" in each]
    yield from (f"\nRun {number}: {text}\n" for number, text in noted)
    if worse:
        yield "\nChecks that did not pass:\n\n"
        yield from (f"* run {number}: {text}\n" for number, text in worse)


def _series(run: Record) -> tuple[str, str, tuple[str, ...], int, int, int, bool, int]:
    """What runs of one series have in common."""
    options = (tuple(run["suites"]), run["samples"], run["cores"])
    return run["lane"], run["commit"], *options, run["busy"], run.get("grouped", False), run["busy_in_node"]


def _series_cells(numbered: Sequence[tuple[int, Record]]) -> tuple[object, ...]:
    lane, commit, _, samples, cores_, busy, grouped, in_node = _series(numbered[0][1])
    runs = [run for _, run in numbered]
    span = " to ".join(dict.fromkeys(str(number) for number, _ in (numbered[0], numbered[-1])))
    amiss = ([str(number) for number, run in numbered if run[what]] for what in ("red", "undecided"))
    return (
        span, runs[0]["at"], lane, commit, ", ".join(runs[0]["suites"]), samples, cores_,
        f"{busy}{'' if grouped else '*'} + {in_node}", _span(run["load"] for run in runs),
        _span((run["waited"] for run in runs if "waited" in run), " %"), _span(run["seconds"] for run in runs),
        _span(run["statuses"].get("pass", 0) for run in runs), *(", ".join(each) or "none" for each in amiss),
    )  # fmt: skip


def _span(values: Iterable[float], unit: str = "") -> str:
    """The lowest and the highest value."""
    found = sorted(round(value) for value in values)
    return " to ".join(f"{value:,}" for value in dict.fromkeys(found[:1] + found[-1:])) + (unit if found else "")


def _kill_lines(kills: Sequence[Record]) -> Iterable[str]:
    left = sum(1 for each in kills if each["left"])
    hit = sum(1 for each in kills if each["phase"] != ENDED)
    yield f"\n**{hit} runs killed so far; {left or 'none'} of them left resources behind or changed anything "
    yield f"else** (goal: {WANTED_KILLS}).\n"
    if not kills:
        return
    heads = ("kill", "at (UTC)", "cores", "load", "moment", "phase", "`esipp clean` printed", "state after it")
    rows = (
        (number, each["at"], each["cores"], f"{each['load']:.0f}", f"{each['part']}, {each['moment']:.1f} s into it",
         each["phase"], each["said"], "; ".join(each["left"]) or each["restored"])
        for number, each in enumerate(kills, 1)
    )  # fmt: skip
    yield "\n" + table_text(heads, rows)
