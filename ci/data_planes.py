"""Records for docs/data-planes.md: how runs on other data planes differ from kube-proxy's iptables mode.

`ci/matrix --record` stores one record per lane and data plane in records/data-planes.jsonl. The data plane is the one
detected on the cluster, not the name of the lane; a new run of the lane replaces its old record there.
``python -m ci.data_planes --record RUN…`` stores other runs. ``--expired`` lists known differences that were not
observed on a data plane they apply to; the exit code is then 1.
"""

import argparse
import json
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ci import records
from ci.data_planes_page import render
from ci.expiry import Record, expired_records, facts_of, sight_text, sights_of
from ci.places import ROOT
from ci.planes import Differing, Plane, differing, plane_of, reference_for
from esipp.base.errors import EsippError, PreflightError
from esipp.checks.expiry import all_claims
from esipp.checks.reference import titles
from esipp.ledger.reading import RecordedRun, read_run

KEPT = records.FOLDER / "data-planes.jsonl"
PAGE = ROOT / "docs" / "data-planes.md"
FACTS = ("kubernetes", "kube-proxy-version", "service-proxy", "proxy-mode", "network-add-on", "detect-local",
         "node-port-addresses", "families.services", "families.first", "pod-to-node.ipv4", "pod-to-node.ipv6",
         "load-balancer.profile", "load-balancer.ingress", "kernel", "runtime")  # fmt: skip
"""Facts in a record, in addition to all facts of the service proxy."""
MOST_PATTERNS = 6
"""Most id patterns in the record of one difference; the page gives the number of the others."""


def load(folder: Path = KEPT) -> list[Record]:
    """All records, in the order of the page."""
    return [*records.read(folder)]


def add(
    runs: Sequence[RecordedRun],
    lanes: Mapping[str, Mapping[str, Any]] | None = None,
    folder: Path = KEPT,
    page: Path = PAGE,
) -> str:
    """Record runs, and render the page.

    Args:
        runs: a complete one on kube-proxy's iptables mode must be among them; incomplete runs are skipped.
        lanes: when and where each lane ran: ``at``, ``commit``, ``cores``, ``seconds``.
        kept, page: the files to write.

    Returns:
        One line each: what was recorded, and what was not.

    Raises:
        PreflightError: no run is on kube-proxy's iptables mode.
    """
    whole = [(plane_of(facts_of(run)), run) for run in runs if run.whole]
    planes: dict[Plane, RecordedRun] = {}
    for plane, run in whole:
        planes.setdefault(plane, run)  # of lanes that share one, the first is what others are compared with
    if not any(plane.is_reference for plane in planes):
        raise PreflightError(
            "No complete run is on kube-proxy in iptables mode, which the others are compared with.",
            "add a run of the lane kind-iptables.",
        )
    made = {
        (plane.name, str(run.header["lane"])): tell(run, planes, (lanes or {}).get(str(run.header["lane"]), {}))
        for plane, run in whole
    }
    before = {(record["plane"], record["lane"]): record for record in load(folder)}
    ordered = sorted((before | made).values(), key=_order)
    records.write(folder, ordered)
    page.write_text(render(load(folder)), encoding="utf-8")
    lines = [f"recorded: {'; '.join(f'{lane} ({plane})' for plane, lane in made)}"]
    lines += [f"incomplete, not recorded: the run in {run.folder}" for run in runs if not run.whole]
    return "\n".join(lines)


def _order(record: Record) -> tuple[Any, ...]:
    plane = plane_of(record["facts"])
    newest_first = (-each for each in plane.minor)
    kind = (not plane.is_reference, plane.proxy, bool(record["against"]), plane.families != "dual-stack")
    return *kind, *newest_first, plane.name, record["lane"]


def tell(run: RecordedRun, planes: Mapping[Plane, RecordedRun], lane: Mapping[str, Any]) -> dict[str, Any]:
    """The record of a run, compared with the run on its reference data plane."""
    facts = facts_of(run)
    plane = plane_of(facts)
    reference = reference_for(plane, list(planes))
    claims = all_claims()
    shown = differing(planes[reference], run, claims) if reference else []
    proxy = f"{facts.get('service-proxy', '')}."
    wanted = [name for name in facts if name in FACTS or name.startswith(proxy)]
    return {
        "plane": plane.name,
        "facts": {name: facts[name] for name in sorted(wanted)},
        "decided": {name: run.facts[name].decided for name in ("service-proxy", "proxy-mode") if name in run.facts},
        "lane": str(run.header["lane"]),
        "run": str(run.header["run"]),
        "suite": str(run.header["suite"]),
        **{name: lane.get(name) for name in ("at", "commit", "cores", "seconds")},
        "result": run.conclusion.result,
        "why": run.conclusion.why,
        "counts": dict(sorted(Counter(each.status.value for each in run.verdicts.values()).items())),
        "against": reference.name if reference else None,
        "differences": [_summary(each) for each in shown],
        "claims": [sight_text(each) for each in sights_of(run, claims) if each.asked],
    }


def _summary(each: Differing) -> dict[str, Any]:
    checks = each.checks
    return {
        "what": each.what.value,
        "rows": checks[:MOST_PATTERNS],
        "more_patterns": max(0, len(checks) - MOST_PATTERNS),
        "number": len(each.ids),
        "levels": list(each.levels),
        "before": each.before,
        "after": each.after,
        "reason": each.reason,
        "reference": titles(each.references),
    }


def _matrix_summary(folder: Path) -> dict[str, Any]:
    """Time, commit and cores of a run of `ci/matrix`, from the file next to the run's folder."""
    path = folder.absolute().parent / f"{folder.absolute().name}.json"
    summary: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    return summary


# -------------------------------------------------------------------------------------------------------- the command
def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m ci.data_planes",
        description="Record runs for docs/data-planes.md, and report expired known differences.",
    )
    parser.add_argument("--record", nargs="+", type=Path, metavar="RUN", help="record these runs")
    parser.add_argument("--expired", action="store_true", help="list known differences that are no longer observed")
    options = parser.parse_args(arguments)
    try:
        if options.record:
            runs = [read_run(path) for path in options.record]
            print(add(runs, {str(run.header["lane"]): _matrix_summary(run.folder) for run in runs}))
    except EsippError as error:
        print(error, file=sys.stderr)
        return int(error.exit_code)
    expired = expired_records(load()) if options.expired else []
    print("".join(f"expired: {line}\n" for line in expired), end="")
    return 1 if expired else 0


if __name__ == "__main__":
    sys.exit(main())
