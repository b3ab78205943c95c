"""records/soak.jsonl and docs/soak.md: runs in a row on a busy machine, and runs that were killed, one record each.

Records are only ever added: a series goes on where an earlier one, on another machine, has stopped, and every red one
stays to be seen.
"""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import time
from collections.abc import Iterable, Sequence
from itertools import takewhile
from pathlib import Path
from typing import Any

from ci import records
from ci.places import ROOT, cores, places
from ci.records import Record
from ci.surroundings import Surroundings

Records = dict[str, list[Record]]

KEPT = records.FOLDER / "soak.jsonl"
PAGE = ROOT / "docs" / "soak.md"
WANTED_RUNS, WANTED_KILLS = 50, 30
BAD, GOOD = ("fail", "flaky", "inconclusive", "error"), ("pass", "known")
ENDED = "ended before"
"""The phase of a run that was over before it could be killed."""

HEAD = """# What else could turn it red: a busy machine, and kill -9

Both are measured by hand and kept in `records/soak.jsonl`. `ci/generate` renders this page. Series may lie on several
days and machines; what turned red stays in the table.

## A healthy cluster on a busy machine

`ci/soak --record` runs the static matrix (suite `source_ip`) again and again on a healthy cluster while busy processes
take the machine's time, and some more that of the endpoint node. Those beside are in a container of their own, in a
control group beside the cluster's; how much each gets is for the kernel to say (on two cores about a tenth of the
machine, and those in the node a quarter). *waited*: for how much of the last five minutes something had to wait for a
core. In runs marked with * they were in the run's own session, and kept more of the machine from the run than from the
cluster. A run is red if a row of any level is `fail` or `flaky`, or if it has no verdicts; it is undecided if rows are
`inconclusive` or `error`. The kernels at hand have no netem ("Specified qdisc kind is unknown"); the busy node takes
its place.
"""

KILLED = """
## Killed with -9

By hand, on a kept cluster:

```
ESIPP_KILLS=30 ESIPP_KILLS_RECORD=1 ./ci/enter python -m pytest tests/broken/test_killed_static.py \\
    --context kind-esipp -W error -s
```

A run of the static matrix (few rows of every kind) is killed at a random moment of all of it, of arranging, observing
and striking, in turn. `esipp clean` follows, and everything is held against what there was before the first: objects of
all kinds, containers, docker networks, and of every node and this machine routes, rules, addresses, packet filters and
network namespaces; on the nodes our programs, on the machine processes of the killed session. Somebody else's things
stand there too, some named like ours: a namespace with a pod, a Service and a ConfigMap, a container, a route, a rule
and a packet filter rule on every node and on the machine.
"""

TAIL = """
Most of the seconds are those of the look itself. Not looked at: the kubernetes client keeps certificate and key of the
account in temporary files, and removes them when its process ends; by its code, kill -9 leaves them.

## What was mended for a busy machine

* The prober and the echo server took the time after they had looked at their sockets. A process that stood still in
  between counted as silent, or dropped, what had arrived meanwhile. Now time is up only if it was before that look.
* A path that answered at least once while settling has ten seconds for an answer, not four; formerly it was the last
  look that counted, and the others got two seconds, all at once. After two seconds a silent probe no longer holds up
  the next ones of its path, so that patience costs little where answers are lost for good.
* The echo server closed a connection after five seconds, which is less than its client now waits; it is twelve.
* A node that was lost for a while takes readiness from its pods and not from their containers. The window is then not
  judged, as when a container was not ready.
* Health checks have ten seconds for an answer in the long window, which asks whether one is ever wrong, and beside
  their neighbours' changes. In the short one they have ten if they answered within two at least once while all settled;
  those that never did have two.
* The reference load balancer gives a health check five seconds, not one: a service proxy that stood still had all nodes
  taken out, and what was dialled through the proxies was lost.
* Our own pods get 120 s to be ready, VIPs, listeners and probers 60 s each.

No probe is made again. A connection that never gets an answer is counted as before, whoever is patient, and what an
answer shows is judged as before.
"""


def surroundings() -> dict[str, Any]:
    """What every record tells of where and when it was made."""
    asked = ["git", "rev-parse", "--short=7", "HEAD"]
    done = subprocess.run(asked, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    there = Surroundings.load(places())
    return waited() | {
        "at": time.strftime("%Y-%m-%d %H:%M", time.gmtime()),
        "commit": done.stdout.strip() or "unknown",
        "cores": cores(),
        "load": round(os.getloadavg()[0], 1),
        "lane": there.lane if there else "unknown",
        "kubernetes": there.kubernetes if there else "unknown",
    }


def waited(told: Path = Path("/proc/pressure/cpu")) -> dict[str, float]:
    """For how many percent of the last five minutes something waited for a core; nothing if that is not known."""
    with contextlib.suppress(OSError):
        if found := re.search(r"^some .*avg300=([\d.]+)", told.read_text(encoding="utf-8")):
            return {"waited": float(found[1])}
    return {}


def load(kept: Path = KEPT) -> Records:
    """All records, oldest first: ``runs`` and ``kills``."""
    found: Records = {"runs": [], "kills": []}
    for each in records.read(kept):
        found[each["kind"]].append(each)
    return found


def add(kind: str, record: Record, kept: Path = KEPT, page: Path = PAGE) -> None:
    """Add a record, and render the page."""
    records.write(kept, [*records.read(kept), {"kind": kind, **surroundings(), **record}])
    page.write_text(render(load(kept)), encoding="utf-8")


def in_a_row(runs: Sequence[Record]) -> int:
    """How many of the last runs, one after the other, were neither red nor undecided."""
    return sum(1 for _ in takewhile(lambda each: not each["red"] and not each["undecided"], reversed(runs)))


def render(found: Records) -> str:
    """The page."""
    runs, kills = found["runs"], found["kills"]
    return "".join((HEAD, *_told_runs(runs), KILLED, *_told_kills(kills), TAIL))


def _told_runs(runs: Sequence[Record]) -> Iterable[str]:
    red, undecided = (sum(1 for each in runs if each[what]) for what in ("red", "undecided"))
    yield f"\n**{len(runs)} runs so far, {red} red, {undecided} undecided; the last {in_a_row(runs)} in a row without "
    yield f"either** (wanted: {WANTED_RUNS}).\n"
    if not runs:
        return
    yield "\n| run | at (UTC) | commit | cores, busy + in node | load | waited | seconds | pass, known | "
    yield "fail | flaky | inconclusive | error | came to |\n|" + "---|" * 13 + "\n"
    for number, each in enumerate(runs, 1):
        count = each["statuses"].get
        good = ", ".join(str(count(status, 0)) for status in GOOD)
        bad = " | ".join(str(count(status, 0)) for status in BAD)
        busy = f"{each['cores']}, {each['busy']}{'' if each.get('grouped') else '*'} + {each['busy_in_node']}"
        waited = f"{each['waited']:.0f} %" if "waited" in each else ""
        yield f"| {number} | {each['at']} | {each['commit']} | {busy} | {each['load']:.0f} | {waited} | "
        yield f"{each['seconds']:.0f} | "
        yield f"{good} | {bad} | {each['result']} |\n"
    worse = [(number, words) for number, each in enumerate(runs, 1) for words in each["worse"]]
    noted = [(number, each["note"]) for number, each in enumerate(runs, 1) if "note" in each]
    yield from (f"\nRun {number}: {words}.\n" for number, words in noted)
    if worse:
        yield "\nWhat was not green:\n\n"
        yield from (f"* run {number}: {words}\n" for number, words in worse)


def _told_kills(kills: Sequence[Record]) -> Iterable[str]:
    left = sum(1 for each in kills if each["left"])
    hit = sum(1 for each in kills if each["phase"] != ENDED)
    yield f"\n**{hit} runs killed so far; after {left or 'none'} of them anything of ours was left, or anything else "
    yield f"had changed** (wanted: {WANTED_KILLS}).\n"
    if not kills:
        return
    yield "\n| kill | at (UTC) | cores | load | when | phase | `esipp clean` said | after it |\n|" + "---|" * 8 + "\n"
    for number, each in enumerate(kills, 1):
        when = f"{each['part']}, {each['moment']:.1f} s into it"
        after = "; ".join(each["left"]) or each["restored"]
        yield f"| {number} | {each['at']} | {each['cores']} | {each['load']:.0f} | {when} | {each['phase']} | "
        yield f"{each['said']} | {after} |\n"
