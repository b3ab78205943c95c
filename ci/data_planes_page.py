"""docs/data-planes.md, rendered from what is kept of runs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ci import lane_file
from ci.expiry import Record, expired_kept
from esipp.checks.known_differences import Claim, all_claims
from esipp.report.comparing.data_planes import What, plane_of
from esipp.report.escaping import code, prose

HEAD = """# What differs from one data plane to the next

From runs on real clusters, kept in `docs/data-planes.json` by `ci/matrix --record`; this page is made of it by
`python -m ci.data_planes`. Which data plane a cluster has is found on it (kube-proxy's own word at its port 10249 and
its ConfigMap, the DaemonSets of service proxies and network add-ons); what a lane is called decides nothing. Each is
held against kube-proxy in iptables mode, on the same Kubernetes where that was run: the answer to "what changes if we
go from iptables to that". Rows say what both show, row by row; `esipp explain ROW` tells what a row is about.

| word | meaning |
|---|---|
| finding | a row fails there, and nothing is known that explains it; or it is explained, but no issue is known |
| known defect | it fails as is known and reported |
| allowed | it differs from kube-proxy, and the API's text does not forbid it |
| not there | the row cannot be asked: the cluster lacks what it needs |
| undecided | a precondition or a control did not hold |
| holds | it holds there, and does not in iptables mode |
| recorded | the verdict is the same, and what was seen is not |
"""

NONE = "\nNothing was run and kept yet.\n"

CLAIMS = """
## Known differences, and whether they are still seen

Every known difference must be seen by each run on a data plane for which it is claimed, if that run asked one of its
rows (and captured packets, where only these show it): `ci/matrix`, `python -m ci.data_planes --expired` and a test name
those that were not. What is claimed for any cluster, or rests on what happened in one window, is told and need not be
seen.
"""


def render(records: Sequence[Record]) -> str:
    """The page."""
    return "".join((HEAD, *_runs(records), *_planes(records), CLAIMS, *_claims(records)))


def _runs(records: Sequence[Record]) -> Iterable[str]:
    yield "\n## Runs\n"
    if records:
        heads = ("", "data plane", "lane", "run", "at (UTC), commit", "cores", "minutes", "came to", "rows")
        yield f"\n| {' | '.join(heads)} |\n|{'---|' * len(heads)}\n"
    else:
        yield NONE
    for number, each in enumerate(records, 1):
        minutes = f"{each['seconds'] / 60:.0f}" if each["seconds"] else "?"
        when = f"{each['at'] or '?'}, {each['commit'] or '?'}"
        rows = ", ".join(f"{count} {status}" for status, count in each["counts"].items())
        result = f"{each['result']}: {each['why']}"
        cells = (each["plane"], each["lane"], each["run"], when, str(each["cores"] or "?"), minutes, result, rows)
        yield f"| {number} | {' | '.join(map(prose, cells))} |\n"
    ran = {name for each in records for name in (each["lane"], *each["alike"])}
    if missing := sorted(_lanes() - ran):
        yield f"\nNot run and kept yet: the lanes {', '.join(map(code, missing))}.\n"
    if records:
        yield "\nHow the service proxy was found: "
        decided = dict.fromkeys(told for each in records for told in each["decided"].values())
        yield "; ".join(map(prose, decided)) + ".\n"


def _lanes() -> set[str]:
    """Lanes that are a data plane of their own; those dressed as a cloud are about load balancers."""
    names = [path.stem for path in lane_file.LANES.glob("*.yaml")]
    return {name for name in names if not lane_file.load(name).dressed_as}


def _planes(records: Sequence[Record]) -> Iterable[str]:
    for each in records:
        if each["against"] is None:
            continue
        yield f"\n## From {_short(each['against'], records)} to {_short(each['plane'], records)}\n\n"
        yield f"{each['plane']} (run {each['run']}), held against {each['against']}. "
        counted = [
            f"{sum(d['number'] for d in each['differences'] if d['what'] == what.value)} {what.value}"
            for what in What
            if any(d["what"] == what.value for d in each["differences"])
        ]
        yield f"Rows that differ: {', '.join(counted) or 'none'}.\n"
        if each["differences"]:
            yield (
                "\n| what it is | rows | number | level | seen there | seen here | why | reference |\n|"
                + "---|" * 8
                + "\n"
            )
        for told in each["differences"]:
            more = f" and {told['more_patterns']} more patterns" if told["more_patterns"] else ""
            rows = "<br>".join(map(code, told["rows"])) + more
            words = (told["before"], told["after"], told["reason"], told["reference"])
            yield f"| {told['what']} | {rows} | {told['number']} | {', '.join(told['levels'])} | "
            yield f"{' | '.join(map(prose, words))} |\n"


def _short(name: str, records: Sequence[Record]) -> str:
    """The service proxy and the version: what a reader looks for in a heading."""
    facts = next((each["facts"] for each in records if each["plane"] == name), None)
    if facts is None:
        return name
    plane = plane_of(facts)
    return f"{plane.proxy}, {plane.families}, Kubernetes {plane.kubernetes}"


def _claims(records: Sequence[Record]) -> Iterable[str]:
    gone = expired_kept(records)
    if gone:
        yield "\n**Not seen any more where they are claimed:**\n\n"
        yield from (f"* {prose(line, 400)}\n" for line in gone)
    yield "\n| known difference | what it is | claimed for | seen on | reference |\n|" + "---|" * 5 + "\n"
    for claim in sorted(all_claims(), key=lambda each: (not each.binds, each.where, each.reason)):
        words = (claim.reason, claim.nature.value, claim.where, _seen(claim, records), claim.reference)
        yield f"| {' | '.join(map(prose, words))} |\n"


def _seen(claim: Claim, records: Sequence[Record]) -> str:
    when = [list(pair) for pair in claim.when]
    told = []
    for number, record in enumerate(records, 1):
        for each in record["claims"]:
            same = (each["when"], each["before"], each["reason"]) == (when, claim.before, claim.reason)
            if same and (each["seen"] or claim.binds):
                told.append(f"run {number}: {each['seen']} of {each['asked']} rows")
    return "; ".join(told) or "no run yet"
